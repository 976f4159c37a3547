use std::{collections::BTreeMap, sync::Arc};

use headwater_connectors::{
    DataType as SourceType, Position, TableName,
    change::{ColumnStep::*, RowsAfter},
};
use headwater_paimon::Catalog;
use object_store::{memory::InMemory, path::Path};

use super::*;

fn column(name: &str, data_type: SourceType, nullable: bool) -> Column {
    Column {
        name: name.into(),
        source_type: format!("{data_type:?}").to_lowercase(),
        data_type,
        nullable,
        comment: None,
    }
}

fn policy(behavior: SchemaBehavior) -> SchemaPolicy {
    SchemaPolicy {
        behavior,
        ..SchemaPolicy::default()
    }
}

/// A change from `id`, `a INT NOT NULL`, `b VARCHAR(10)` to these columns.
fn change(id: &str, steps: Vec<ColumnStep>, after: Vec<Column>) -> SchemaChange {
    let mut columns = vec![column("id", SourceType::Int, false)];
    columns.extend(after);
    SchemaChange {
        table: Arc::new(TableSchema {
            name: TableName::new("d", "t"),
            version: 1,
            columns,
            primary_key: vec!["id".into()],
            comment: None,
        }),
        steps,
        rows: RowsAfter::Kept,
        statement: "ALTER TABLE t".into(),
        id: id.into(),
        position: Position::Log { offset: 7 },
    }
}

fn a() -> Column {
    column("a", SourceType::Int, false)
}

fn b() -> Column {
    column("b", SourceType::VarChar(10), true)
}

async fn table() -> Table {
    let catalog = Catalog::new(Arc::new(InMemory::new()), Path::from("wh"));
    let id = column("id", SourceType::Int, false);
    let fields = [id, a(), b()].iter().map(lake_field).collect();
    let options = BTreeMap::from([("bucket".to_owned(), "1".to_owned())]);
    let schema = Schema::create(fields, vec!["id".into()], vec![], options, None).unwrap();
    catalog.create_database("d").await.unwrap();
    catalog.create_table("d", "t", schema).await.unwrap()
}

fn shown(table: &Table) -> String {
    let fields = table.schema().fields.iter().map(|field| {
        let null = if field.nullable { "" } else { "!" };
        format!("{}:{} {}{null}", field.id, field.name, field.data_type)
    });
    fields.collect::<Vec<_>>().join(", ")
}

async fn follow(table: &Table, change: &SchemaChange, behavior: SchemaBehavior) -> Table {
    let evolved = evolve(table, change, &policy(behavior), false)
        .await
        .unwrap();
    evolved.table
}

#[tokio::test]
async fn behaviors_have_their_meaning() {
    use SchemaBehavior::*;
    let renamed = column("z", SourceType::Int, false);
    let steps = vec![
        Rename {
            from: "a".into(),
            to: "z".into(),
        },
        Drop("b".into()),
        Add(column("c", SourceType::Double, false), Some("id".into())),
    ];
    let after = vec![column("c", SourceType::Double, false), renamed];
    let change = change("one", steps, after);
    for (behavior, expected, rereads) in [
        (Evolve, "0:id INT!, 3:c DOUBLE, 1:z INT!", false),
        (TryEvolve, "0:id INT!, 3:c DOUBLE, 1:z INT!", false),
        (
            Lenient,
            "0:id INT!, 4:c DOUBLE, 1:a INT, 3:z INT, 2:b VARCHAR(10)",
            true,
        ),
        (Ignore, "0:id INT!, 1:a INT, 2:b VARCHAR(10)", false),
    ] {
        let (table, policy) = (table().await, policy(behavior));
        let evolved = evolve(&table, &change, &policy, false).await.unwrap();
        assert_eq!(shown(&evolved.table), expected, "{behavior:?}");
        assert_eq!(evolved.reread.is_some(), rereads, "{behavior:?}");
    }
    let error = evolve(&table().await, &change, &policy(Exception), false).await;
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains("d.t") && error.contains("ALTER TABLE t"),
        "{error}"
    );
}

#[tokio::test]
async fn types_become_wider_and_never_narrower() {
    use SchemaBehavior::{Evolve, Lenient};
    let alter = |data_type: SourceType| {
        let column = column("a", data_type, false);
        change("one", vec![Alter(column.clone())], vec![column, b()])
    };
    for (behavior, to, expected) in [
        (Evolve, SourceType::BigInt, Some("BIGINT")),
        (Evolve, SourceType::SmallInt, Some("INT")),
        (Evolve, SourceType::VarChar(30), Some("VARCHAR(30)")),
        (Lenient, SourceType::VarChar(5), Some("STRING")),
        (Evolve, SourceType::Decimal(12, 4), Some("DECIMAL(14, 4)")),
        (Evolve, SourceType::Date, None),
        (Lenient, SourceType::Date, Some("DATE")),
    ] {
        let evolved = evolve(&table().await, &alter(to.clone()), &policy(behavior), false).await;
        match expected {
            Some(expected) => {
                let evolved = evolved.unwrap();
                let found = evolved
                    .table
                    .schema()
                    .field("a")
                    .unwrap()
                    .1
                    .data_type
                    .to_string();
                assert_eq!(found, expected, "{behavior:?} {to:?}");
            }
            None => {
                let error = evolved.unwrap_err().to_string();
                for part in ["d.t", "column a", "date", "INT", "ALTER TABLE t", "7"] {
                    assert!(error.contains(part), "{error}");
                }
            }
        }
    }
    // `try_evolve` goes on without.
    let table = table().await;
    let after = follow(&table, &alter(SourceType::Date), SchemaBehavior::TryEvolve).await;
    assert_eq!(shown(&after), shown(&table));
}

/// The schemas are ahead of the record when a process is killed: the log is read again from before.
#[tokio::test]
async fn a_statement_is_never_followed_twice() {
    use SchemaBehavior::Evolve;
    let start = table().await;
    let added = column("b", SourceType::Date, true);
    let drop = change("one", vec![Drop("b".into())], vec![a()]);
    let add = change(
        "two",
        vec![Add(added.clone(), Some("a".into()))],
        vec![a(), added.clone()],
    );
    let steps = |table: Table| {
        let (drop, add) = (&drop, &add);
        async move {
            let dropped = follow(&table, drop, Evolve).await;
            let added = follow(&dropped, add, Evolve).await;
            (dropped, added)
        }
    };
    let (_, done) = steps(start.clone()).await;
    assert_eq!(shown(&done), "0:id INT!, 1:a INT!, 3:b DATE");
    // Someone else changes it meanwhile.
    let set = LakeChange::SetOption {
        name: "snapshot.time-retained",
        value: "2 h",
    };
    let foreign = done.alter(&[set]).await.unwrap();
    let base = without_later_statements(&start).await.unwrap();
    assert_eq!(base.schema().id, start.schema().id);
    let (dropped, again) = steps(base).await;
    assert_eq!(shown(&dropped), "0:id INT!, 1:a INT!");
    assert_eq!(again.schema().id, foreign.schema().id);
    assert_eq!(shown(&again), shown(&done));
    // From between the two.
    let base = without_later_statements(&dropped).await.unwrap();
    assert_eq!(base.schema().id, dropped.schema().id);
    let again = follow(&base, &add, Evolve).await;
    assert_eq!(again.schema().id, foreign.schema().id);
    // And from behind them.
    let base = without_later_statements(&done).await.unwrap();
    assert_eq!(base.schema().id, foreign.schema().id);
}

#[tokio::test]
async fn keys_keep_their_type_and_may_be_renamed() {
    use SchemaBehavior::Lenient;
    let rename = Rename {
        from: "id".into(),
        to: "number".into(),
    };
    let mut changed = change("one", vec![rename], vec![a(), b()]);
    let table = table().await;
    let mut schema = TableSchema::clone(&changed.table);
    schema.columns[0].name = "number".into();
    schema.primary_key = vec!["number".into()];
    changed.table = Arc::new(schema);
    let renamed = follow(&table, &changed, Lenient).await;
    assert_eq!(renamed.schema().primary_keys, ["number"]);
    let wide = column("id", SourceType::BigInt, false);
    let mut changed = change("two", vec![Alter(wide.clone())], vec![a(), b()]);
    let mut schema = TableSchema::clone(&changed.table);
    schema.columns[0] = wide;
    changed.table = Arc::new(schema);
    let error = evolve(&table, &changed, &policy(Lenient), false)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("key column"), "{error}");
}

/// The server was asked what the table is, and told of two statements at once, or of one and then of
/// the other: whichever it was before the restart, no column is lost.
#[tokio::test]
async fn changes_that_come_together_or_apart_lose_no_column() {
    use SchemaBehavior::Evolve;
    let (x, y) = (
        column("x", SourceType::Int, true),
        column("y", SourceType::Int, true),
    );
    let add = |column: &Column, after: &str| Add(column.clone(), Some(after.into()));
    let first = change("one", vec![add(&x, "b")], vec![a(), b(), x.clone()]);
    let second = change(
        "two",
        vec![add(&y, "x")],
        vec![a(), b(), x.clone(), y.clone()],
    );
    let both = |id: &str| {
        let steps = vec![add(&x, "b"), add(&y, "x")];
        change(id, steps, vec![a(), b(), x.clone(), y.clone()])
    };
    let whole = "0:id INT!, 1:a INT!, 2:b VARCHAR(10), 3:x INT, 4:y INT";
    for ahead in [vec![&first, &second], vec![&first]] {
        for id in ["one", "two", "other"] {
            let start = table().await;
            let mut table = start.clone();
            for change in &ahead {
                table = follow(&table, change, Evolve).await;
            }
            let base = without_later_statements(&start).await.unwrap();
            let again = follow(&base, &both(id), Evolve).await;
            let names = |table: &Table| {
                let fields = table.schema().fields.iter();
                fields.map(|field| field.name.clone()).collect::<Vec<_>>()
            };
            assert_eq!(names(&again), ["id", "a", "b", "x", "y"], "{ahead:?} {id}");
        }
    }
    let start = table().await;
    let done = follow(&start, &both("one"), Evolve).await;
    assert_eq!(shown(&done), whole);
    let base = without_later_statements(&start).await.unwrap();
    let again = follow(&base, &first, Evolve).await;
    let again = follow(&again, &second, Evolve).await;
    assert_eq!(shown(&again), whole);
}
