use super::*;

fn table(name: &str) -> TableVerdict {
    TableVerdict {
        source: name.into(),
        sink: name.into(),
        checkpoint: 12,
        snapshot: Some(9),
        source_rows: 1_000_000,
        lake_rows: 1_000_000,
        missing: 0,
        extra: 0,
        different: 0,
        doubled: 0,
        undecided: 0,
        at_least: false,
        keys: Vec::new(),
        error: None,
        verdict: Verdict::Equal,
    }
}

fn report(mut tables: Vec<TableVerdict>) -> Report {
    tables.iter_mut().for_each(TableVerdict::judge);
    Report {
        checkpoint: 12,
        position: "bin.000003:197".into(),
        created_ms: 1,
        job_running: true,
        tables,
        notes: Vec::new(),
    }
}

#[test]
fn equal_reads_well() {
    let orders = TableVerdict {
        sink: "lake.ods_orders".into(),
        source_rows: 12,
        lake_rows: 12,
        snapshot: None,
        ..table("shop.orders")
    };
    let report = report(vec![table("shop.items"), orders]);
    let want = "\
table                          source rows  lake rows  missing  extra  different  undecided  snapshot  verdict
──────────────────────────────────────────────────────────────────────────────────────────────────────────────
shop.items                       1,000,000  1,000,000        0      0          0          0         9  equal
shop.orders → lake.ods_orders           12         12        0      0          0          0         -  equal

Compared at checkpoint 12, position bin.000003:197.
EQUAL: 2 tables, 1,000,012 rows.
";
    assert_eq!(report.to_text(), want);
    assert_eq!(report.exit_code(), 0);
}

#[test]
fn differences_read_well() {
    let mut items = TableVerdict {
        at_least: true,
        ..table("shop.items")
    };
    items.count("id=7".into(), Difference::Missing, 2);
    items.count("id=8".into(), Difference::Doubled, 2);
    items.count("id=9".into(), Difference::Different, 2);
    let mut orders = table("shop.orders");
    orders.count("id=1, line=2".into(), Difference::Undecided, 2);
    let failed = TableVerdict {
        verdict: Verdict::Failed,
        error: Some("source: access denied".into()),
        ..table("shop.people")
    };
    let mut report = report(vec![items, orders, failed]);
    report.notes.push("mind the gap".into());
    let want = "\
table        source rows  lake rows  missing  extra  different  undecided  snapshot  verdict
──────────────────────────────────────────────────────────────────────────────────────────────
shop.items     1,000,000  1,000,000      ≥ 1    ≥ 1        ≥ 1          0         9  DIFFERENT
shop.orders    1,000,000  1,000,000        0      0          0          1         9  UNDECIDED
shop.people    1,000,000  1,000,000        0      0          0          0         9  FAILED

shop.items:
  id=7  missing in the lake
  id=8  more than once in the lake
  … and at least 1 more

shop.orders:
  id=1, line=2  kept changing

shop.people: source: access denied

note: mind the gap

Compared at checkpoint 12, position bin.000003:197.
NOT EQUAL: of 3 tables 1 different, 1 undecided (they kept changing; counted as not equal), 1 not compared.
";
    assert_eq!(report.to_text(), want);
    let json: serde_json::Value = serde_json::from_str(&report.to_json().unwrap()).unwrap();
    assert_eq!(json["equal"], false);
    assert_eq!(json["tables"][0]["keys"][1]["difference"], "doubled");
    assert_eq!(json["tables"][2]["error"], "source: access denied");
}

#[test]
fn nothing_compared_is_not_equal() {
    assert!(!report(Vec::new()).equal());
}

#[test]
fn digits_in_threes() {
    let cases = [
        (0, "0"),
        (999, "999"),
        (1_000, "1,000"),
        (12_345_678, "12,345,678"),
    ];
    for (number, text) in cases {
        assert_eq!(thousands(number), text);
    }
}
