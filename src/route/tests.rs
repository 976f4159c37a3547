use super::*;

fn route(source: &str, sink: &str, symbol: Option<&str>) -> Route {
    Route {
        source_table: source.to_owned(),
        sink_table: sink.to_owned(),
        replace_symbol: symbol.map(str::to_owned),
        description: None,
    }
}

fn name(text: &str) -> TableName {
    let (database, table) = text.split_once('.').unwrap();
    TableName::new(database, table)
}

/// Routes one table and spells the result.
fn routed(routes: &[Route], mode: RouteMode, table: &str) -> String {
    let router = Router::new(routes, mode).unwrap();
    match router.route(&name(table)) {
        Ok(sinks) => sinks
            .iter()
            .map(TableName::to_string)
            .collect::<Vec<_>>()
            .join(" "),
        Err(error) => error.to_string(),
    }
}

fn error(source: &str, sink: &str, symbol: Option<&str>) -> String {
    Rule::compile(&route(source, sink, symbol))
        .unwrap_err()
        .to_string()
}

#[test]
fn a_table_without_a_route_keeps_its_name() {
    let routes = [route("shop.orders", "ods.orders", None)];
    assert_eq!(routed(&[], RouteMode::AllMatch, "shop.a"), "shop.a");
    assert_eq!(routed(&routes, RouteMode::AllMatch, "shop.a"), "shop.a");
    assert_eq!(
        routed(&routes, RouteMode::AllMatch, "shop.orders"),
        "ods.orders"
    );
    // The whole name must match, and case matters.
    assert_eq!(
        routed(&routes, RouteMode::AllMatch, "shop.orders2"),
        "shop.orders2"
    );
    assert_eq!(
        routed(&routes, RouteMode::AllMatch, "Shop.orders"),
        "Shop.orders"
    );
}

#[test]
fn an_escaped_dot_is_any_character_and_a_bare_one_the_separator() {
    let routes = [route(r"db1.\.*", "ods.<>", Some("<>"))];
    assert_eq!(routed(&routes, RouteMode::AllMatch, "db1.t"), "ods.t");
    assert_eq!(routed(&routes, RouteMode::AllMatch, "db10.t"), "db10.t");
    let routes = [route(
        r"db\.*.[app|web]_\.*, other.one",
        "ods.<>",
        Some("<>"),
    )];
    assert_eq!(
        routed(&routes, RouteMode::AllMatch, "db7.a_order"),
        "ods.a_order"
    );
    assert_eq!(routed(&routes, RouteMode::AllMatch, "other.one"), "ods.one");
    assert_eq!(
        routed(&routes, RouteMode::AllMatch, "other.two"),
        "other.two"
    );
}

#[test]
fn groups_of_the_match_stand_in_the_sink_name() {
    let routes = [route(r"db_(\.*).(\.*)_tbl", "ods_$1.$2_all", None)];
    assert_eq!(
        routed(&routes, RouteMode::AllMatch, "db_eu.user_tbl"),
        "ods_eu.user_all"
    );
    // `$10` is group 1 and a 0 when there is no group 10; `$0` is the whole name.
    let routes = [route(r"a.(\.*)", "b.$10", None)];
    assert_eq!(routed(&routes, RouteMode::AllMatch, "a.t"), "b.t0");
    let routes = [route(r"a.\.*", "$0", None)];
    assert_eq!(routed(&routes, RouteMode::AllMatch, "a.t"), "a.t");
    let routes = [route(r"a.(?<rest>\.*)", r"b.${rest}\$", None)];
    assert_eq!(routed(&routes, RouteMode::AllMatch, "a.t"), "b.t$");
}

#[test]
fn the_symbol_is_literal_and_is_replaced_everywhere() {
    let routes = [route(r"a.\.*", "ods_$1_<>.x_<>", Some("<>"))];
    assert_eq!(routed(&routes, RouteMode::AllMatch, "a.t"), "ods_$1_t.x_t");
}

#[test]
fn all_match_takes_every_rule_and_first_match_the_first() {
    let routes = [
        route(r"db.order_\.*", "ods.orders", None),
        route(r"db.\.*", "raw.<>", Some("<>")),
        route(r"db.order_1", "ods.orders", None),
    ];
    assert_eq!(
        routed(&routes, RouteMode::AllMatch, "db.order_1"),
        "ods.orders raw.order_1"
    );
    assert_eq!(
        routed(&routes, RouteMode::FirstMatch, "db.order_1"),
        "ods.orders"
    );
    assert_eq!(
        routed(&routes, RouteMode::FirstMatch, "db.item"),
        "raw.item"
    );
}

#[test]
fn two_tables_for_one_sink_are_refused_by_name() {
    let routes = [route(r"db\.*.orders", "ods.orders", None)];
    let router = Router::new(&routes, RouteMode::AllMatch).unwrap();
    let error = router
        .plan([&name("db1.orders"), &name("db2.orders")])
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "the source tables db1.orders and db2.orders are both routed to ods.orders; merging \
         tables is not supported yet"
    );
    // A routed table onto an unrouted one is the same trouble.
    let routes = [route("a.t", "b.t", None)];
    let router = Router::new(&routes, RouteMode::AllMatch).unwrap();
    assert!(router.plan([&name("b.t"), &name("a.t")]).is_err());
    let plan = router.plan([&name("a.t"), &name("c.t")]).unwrap();
    assert_eq!(plan[&name("a.t")], [name("b.t")]);
    assert_eq!(plan[&name("c.t")], [name("c.t")]);
}

#[test]
fn bad_rules_say_what_is_wrong() {
    assert!(
        error("a.(", "b.c", None).starts_with("`a.(` is no regular expression: unclosed group")
    );
    assert!(error("a.x)|(?:b.y", "b.c", None).contains("unopened group"));
    assert!(error("a.(?=x)", "b.c", None).contains("look-around"));
    assert_eq!(
        error("a.b", "b.$1", None),
        "`b.$1` cannot name a table: `source-table` has no group 1"
    );
    assert!(error("a.b", "b.$", None).contains("needs the number of a group"));
    assert!(error("a.b", "b.${x}", None).contains("no group `x`"));
    assert!(error("a.b", r"b.c\", None).contains("a `\\` ends it"));
    assert!(error("a.b", "c", None).contains("write `database.table`"));
    assert!(error("a.b", "c.d.e", None).contains("more than two parts"));
    assert!(error("a.b", "c.d", Some("<>")).contains("does not stand in"));
    assert!(error("a.b", "c.d", Some("")).contains("does not stand in"));
    assert!(error(" ", "c.d", None).contains("it is empty"));
}

#[test]
fn a_name_that_cannot_be_made_is_an_error_not_a_guess() {
    let routes = [route(r"a.\.*", "ods.<>", Some("<>"))];
    assert_eq!(
        routed(&routes, RouteMode::AllMatch, "a.x.y"),
        "the route to `ods.<>` makes `ods.x.y` of the source table a.x.y, which is not \
         `database.table`"
    );
}

#[test]
fn a_repeated_bare_dot_is_suspicious() {
    let suspicion = |pattern| {
        Rule::compile(&route(pattern, "b.c", None))
            .unwrap()
            .suspicion()
    };
    assert!(suspicion("mydb.order_.*").is_some());
    assert!(suspicion("mydb.*").is_some());
    assert_eq!(suspicion(r"mydb.order_\.*"), None);
    assert_eq!(suspicion(r"mydb.[a-z]+"), None);
}

proptest::proptest! {
    #[test]
    fn no_rule_and_no_name_panics(source in ".{0,24}", sink in ".{0,24}", symbol in proptest::option::of(".{0,3}"), database in ".{0,8}", table in ".{0,8}") {
        if let Ok(rule) = Rule::compile(&route(&source, &sink, symbol.as_deref())) {
            drop(rule.apply(&TableName::new(database, table)));
            drop(rule.suspicion());
        }
    }
}
