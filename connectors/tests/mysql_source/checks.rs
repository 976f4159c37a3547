use arrow_array::{cast::AsArray, types::Int8Type};
use headwater_connectors::{
    CheckStatus, DataType, Source,
    mysql::{MysqlSource, Password},
};

use crate::{server::Db, walk::chunk};

#[tokio::test]
async fn a_good_server_passes() {
    let mut db = Db::new("checks").await;
    db.run("CREATE TABLE a (id INT PRIMARY KEY, v INT)").await;
    let checks = db.source().check().await;
    for name in [
        "connection",
        "version",
        "tables",
        "privilege REPLICATION SLAVE",
        "privilege REPLICATION CLIENT",
        "privilege SELECT",
        "log_bin",
        "binlog_format",
        "binlog_row_image",
        "binlog_row_value_options",
        "gtid_mode",
        "log retention",
        "server id",
        "replicated changes",
        "log filters",
        "foreign keys",
    ] {
        let check = checks.iter().find(|check| check.name == name);
        let check = check.unwrap_or_else(|| panic!("{name} is missing: {checks:?}"));
        assert_eq!(check.status, CheckStatus::Passed, "{check:?}");
    }
}

#[tokio::test]
async fn missing_privileges_are_named_with_their_grant() {
    let mut db = Db::new("rights").await;
    db.run("CREATE TABLE a (id INT PRIMARY KEY, v INT);\nCREATE TABLE b (id INT PRIMARY KEY, v INT);\nDROP USER IF EXISTS mt_poor;\nCREATE USER mt_poor IDENTIFIED BY 'p';\nGRANT SELECT ON mt_rights.a TO mt_poor;\nGRANT INSERT ON mt_rights.b TO mt_poor").await;
    let mut options = db.options();
    options.username = "mt_poor".into();
    options.password = Password::new("p");
    let checks = MysqlSource::new(options.clone()).check().await;
    let failed = |name: &str| {
        let check = checks.iter().find(|check| check.name == name).unwrap();
        assert_eq!(check.status, CheckStatus::Failed, "{check:?}");
        check.advice.clone().unwrap()
    };
    assert!(
        failed("privilege REPLICATION SLAVE")
            .starts_with("GRANT REPLICATION SLAVE ON *.* TO 'mt_poor'@'%'")
    );
    failed("privilege REPLICATION CLIENT");
    assert!(failed("privilege SELECT").contains("mt_rights.b"));
    options.password = Password::new("wrong");
    let error = MysqlSource::new(options.clone())
        .discover()
        .await
        .unwrap_err();
    assert!(
        !error.is_transient() && !error.to_string().contains("wrong"),
        "{error}"
    );
    let checks = MysqlSource::new(options).check().await;
    assert_eq!((checks.len(), checks[0].status), (1, CheckStatus::Failed));
    db.run("DROP USER mt_poor").await;
}

#[tokio::test]
async fn tables_that_cannot_be_captured_are_named_with_the_reason() {
    let mut db = Db::new("rejected").await;
    db.run("CREATE TABLE good (id INT PRIMARY KEY);\nCREATE TABLE nokey (id INT);\nCREATE TABLE nullable (id INT UNIQUE);\nCREATE TABLE uniq (a INT NOT NULL, b INT NOT NULL, UNIQUE KEY u (b, a));\nCREATE TABLE other (id INT PRIMARY KEY) ENGINE=MyISAM;\nCREATE VIEW w AS SELECT * FROM good").await;
    let found = db.source().discover().await.unwrap();
    let captured: Vec<&str> = found
        .captured
        .iter()
        .map(|t| t.name.table.as_str())
        .collect();
    assert_eq!(captured, ["good", "uniq"]);
    assert_eq!(found.captured[1].primary_key, ["b", "a"]);
    let reason = |table: &str| {
        let hit = found.rejected.iter().find(|(name, _)| name.table == table);
        hit.unwrap_or_else(|| panic!("{:?}", found.rejected))
            .1
            .clone()
    };
    assert!(reason("nokey").contains("primary key") && reason("nullable").contains("primary key"));
    assert!(reason("other").contains("MyISAM"));
    assert_eq!(found.rejected.len(), 3);
}

/// As BOOLEAN, the keys 1 and 2 would become one.
#[tokio::test]
async fn tinyint_keys_are_numbers() {
    let mut db = Db::new("tinykey").await;
    db.run("CREATE TABLE p (k TINYINT(1), v TINYINT(1), PRIMARY KEY (k));\nINSERT INTO p VALUES (0, 1), (1, 0), (2, 5);\nCREATE TABLE u (a INT NOT NULL, K BOOL NOT NULL, v BOOL, UNIQUE KEY (a, k));\nINSERT INTO u VALUES (1, 1, 1), (1, 2, 2), (1, 0, 0)").await;
    let source = db.source();
    let found = source.discover().await.unwrap();
    let mut reader = source.reader().await.unwrap();
    for (table, schema) in ["p", "u"].iter().zip(&found.captured) {
        assert_eq!(*table, schema.name.table);
        let lake = |name: &str| {
            let column = schema.columns.iter().find(|column| column.name == name);
            column.unwrap().data_type.clone()
        };
        let key = schema.primary_key.last().unwrap();
        assert_eq!(
            (lake(key), lake("v")),
            (DataType::TinyInt, DataType::Boolean)
        );
        let split = source.splits(schema, 1).await.unwrap().remove(0);
        let (_, batches) = chunk(&mut reader, schema, &split).await;
        let keys = batches[0].column_by_name(key).unwrap();
        assert_eq!(keys.as_primitive::<Int8Type>().values(), &[0, 1, 2]);
    }
}

/// Columns that the account may not read are not in the information schema: without a word the
/// table would lose them.
#[tokio::test]
async fn a_table_of_which_only_columns_may_be_read_is_rejected() {
    let mut db = Db::new("columns").await;
    db.run("CREATE TABLE a (id INT PRIMARY KEY, v INT);\nCREATE TABLE b (id INT PRIMARY KEY, v INT);\nCREATE TABLE c (id INT PRIMARY KEY, v INT);\nDROP USER IF EXISTS mt_part;\nCREATE USER mt_part IDENTIFIED BY 'p';\nGRANT SELECT (id) ON mt_columns.a TO mt_part;\nGRANT SELECT ON mt_columns.b TO mt_part;\nGRANT SELECT (id, v) ON mt_columns.c TO mt_part").await;
    let mut options = db.options();
    options.username = "mt_part".into();
    options.password = Password::new("p");
    let found = MysqlSource::new(options).discover().await.unwrap();
    let names: Vec<&str> = found
        .captured
        .iter()
        .map(|t| t.name.table.as_str())
        .collect();
    assert_eq!(names, ["b", "c"]);
    let (name, reason) = &found.rejected[0];
    assert_eq!((name.table.as_str(), found.rejected.len()), ("a", 1));
    assert!(
        reason.contains("GRANT SELECT ON mt_columns.a TO 'mt_part'@'%'"),
        "{reason}"
    );
    db.run("DROP USER mt_part").await;
}
