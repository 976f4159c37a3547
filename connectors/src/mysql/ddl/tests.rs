use super::*;
use crate::mysql::table::Generated;

struct Tables(Vec<MysqlTable>, Option<&'static str>);

impl Captured for Tables {
    fn table(&self, database: &str, table: &str) -> Option<&MysqlTable> {
        self.0
            .iter()
            .find(|own| own.name.database == database && own.name.table == table)
    }

    fn in_database(&self, database: &str) -> Option<&MysqlTable> {
        self.0.iter().find(|own| own.name.database == database)
    }

    fn names(&self) -> Box<dyn Iterator<Item = &TableName> + '_> {
        Box::new(self.0.iter().map(|own| &own.name))
    }

    fn key_index(&self, _: &TableName) -> Option<&str> {
        self.1
    }
}

fn table(name: &str) -> MysqlTable {
    let types = TypeOptions::default();
    let id = MysqlColumn::from_definition("id", "int", None, None, false, None, &types).unwrap();
    let mut v = id.clone();
    v.name = "v".into();
    let _ = Generated::Virtual;
    MysqlTable {
        name: TableName::new("db", name),
        version: 0,
        columns: vec![id, v],
        primary_key: vec!["id".into()],
        comment: None,
        engine: "InnoDB".into(),
        charset: "utf8mb4".into(),
        collation: "utf8mb4_0900_ai_ci".into(),
    }
}

fn run_in(text: &str, database: &str, key: Option<&'static str>, dialect: Dialect) -> Vec<Effect> {
    let tables = Tables(vec![table("t"), table("u")], key);
    let context = Context {
        captured: &tables,
        wanted: &TableFilter::parse("db.new_[a-z]+, db.t", None).unwrap(),
        database,
        dialect,
        types: &TypeOptions::default(),
        timestamps_nullable: true,
        accept_cascades: false,
    };
    effects(text, &context)
}

const PLAIN: Dialect = Dialect {
    ansi_quotes: false,
    no_backslash_escapes: false,
    version: 80040,
};

fn run(text: &str) -> Vec<Effect> {
    run_in(text, "db", None, PLAIN)
}

/// Added columns as `name type place`.
fn added(text: &str) -> Vec<String> {
    match run(text).as_slice() {
        [Effect::AddColumns(name, columns)] => {
            assert_eq!(name.table, "t", "{text}");
            columns
                .iter()
                .map(|(column, place)| {
                    assert!(column.nullable);
                    let place = match place {
                        Place::First => " first".into(),
                        Place::After(name) => format!(" after {name}"),
                        Place::Last => String::new(),
                    };
                    format!("{} {}{place}", column.name, column.column_type)
                })
                .collect()
        }
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn columns_are_added() {
    for (text, expected) in [
        ("ALTER TABLE t ADD x INT", vec!["x int"]),
        (
            "alter table db.t add column `x y` varchar(20) null default null comment 'a,b;c'",
            vec!["x y varchar(20)"],
        ),
        (
            "ALTER TABLE `db`.`t` ADD COLUMN a INT FIRST, ADD b BIGINT UNSIGNED AFTER a",
            vec!["a int first", "b bigint unsigned after a"],
        ),
        (
            "ALTER TABLE t ADD (a INT, b ENUM('x','it''s','c,d'))",
            vec!["a int", "b enum('x','it''s','c,d')"],
        ),
        ("ALTER TABLE t /*!80000 ADD v2 INT */", vec!["v2 int"]),
        (
            "ALTER TABLE t ADD a INT /*!99999 NOT NULL */",
            vec!["a int"],
        ),
        (
            "/* gh-ost */ ALTER TABLE t ADD a DECIMAL(10, 2) UNSIGNED -- x\n, ADD b JSON # c",
            vec!["a decimal(10,2) unsigned", "b json"],
        ),
        (
            "ALTER TABLE t ADD a DOUBLE PRECISION, ADD b CHARACTER VARYING(3) CHARACTER SET latin1",
            vec!["a double", "b varchar(3)"],
        ),
        (
            "ALTER TABLE t ADD a TIMESTAMP NULL, ALGORITHM=INSTANT, LOCK=NONE",
            vec!["a timestamp"],
        ),
        (
            "ALTER TABLE t ADD INDEX i (v), ADD a INT, ENGINE=InnoDB ROW_FORMAT=DYNAMIC",
            vec!["a int"],
        ),
        (
            "ALTER TABLE t ADD a INT PARTITION BY HASH(id) PARTITIONS 4",
            vec!["a int"],
        ),
        (
            "ALTER TABLE t ADD a INT COLUMN_FORMAT DYNAMIC STORAGE DISK INVISIBLE CHECK (a > 0)",
            vec!["a int"],
        ),
        (
            "ALTER TABLE x ADD b INT; ALTER TABLE t ADD a INT;",
            vec!["a int"],
        ),
    ] {
        assert_eq!(added(text), expected, "{text}");
    }
}

#[test]
fn several_tables_in_one_text() {
    let found = run("ALTER TABLE t ADD a INT; DROP TABLE u");
    assert!(matches!(
        found.as_slice(),
        [Effect::AddColumns(..), Effect::Refuse(u, _)] if u.table == "u"
    ));
}

#[test]
fn character_sets_of_added_columns() {
    let column = |text: &str| match run(text).remove(0) {
        Effect::AddColumns(_, mut columns) => columns.remove(0).0,
        other => panic!("{other:?}"),
    };
    let plain = column("ALTER TABLE t ADD a TEXT");
    assert_eq!(plain.charset.as_deref(), Some("utf8mb4"));
    assert_eq!(plain.collation.as_deref(), Some("utf8mb4_0900_ai_ci"));
    let gbk = column("ALTER TABLE t ADD a CHAR(4) CHARSET gbk COLLATE gbk_bin");
    assert_eq!(
        (gbk.charset.as_deref(), gbk.collation.as_deref()),
        (Some("gbk"), Some("gbk_bin"))
    );
    let utf8 = column("ALTER TABLE t ADD a TEXT COLLATE utf8_general_ci");
    assert_eq!(utf8.charset.as_deref(), Some("utf8mb3"));
    assert_eq!(
        column("ALTER TABLE t ADD a NCHAR(3)").charset.as_deref(),
        Some("utf8mb3")
    );
    assert_eq!(
        column("ALTER TABLE t ADD a TEXT CHARACTER SET binary").data_type,
        "blob"
    );
}

#[test]
fn harmless_statements() {
    for text in [
        "",
        "CREATE INDEX i ON t (v)",
        "DROP INDEX i ON t",
        "ALTER TABLE t DROP INDEX i, DROP KEY j, RENAME INDEX a TO b, ALTER INDEX b INVISIBLE",
        "ALTER TABLE t ADD PARTITION (PARTITION p1 VALUES LESS THAN (10), PARTITION p2 VALUES LESS THAN (20))",
        "ALTER TABLE t REORGANIZE PARTITION p0,p1 INTO (PARTITION p VALUES LESS THAN (5))",
        "ALTER TABLE t PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (6), PARTITION p1 VALUES LESS THAN MAXVALUE)",
        "ALTER TABLE t REMOVE PARTITIONING",
        "ALTER TABLE t COMMENT='x, y', AUTO_INCREMENT 5",
        "ALTER TABLE t ENGINE = InnoDB",
        "ALTER TABLE t ALTER COLUMN v SET DEFAULT 5",
        "ALTER TABLE t ADD CONSTRAINT c CHECK (v > 0), ADD CONSTRAINT f FOREIGN KEY (v) REFERENCES p (id)",
        "ANALYZE TABLE t",
        "OPTIMIZE TABLE t",
        "CREATE USER 'a'@'%' IDENTIFIED BY 'x;DROP TABLE t'",
        "CREATE VIEW w AS SELECT * FROM t",
        "DROP VIEW w",
        "CREATE DEFINER=`root`@`%` PROCEDURE p() BEGIN DROP TABLE t; TRUNCATE t; END",
        "CREATE DEFINER=CURRENT_USER TRIGGER g BEFORE INSERT ON t FOR EACH ROW BEGIN SET NEW.v = 1; END",
        "ALTER EVENT e DO DELETE FROM t",
        "DROP TRIGGER g",
        "CREATE TABLE IF NOT EXISTS t (id INT)",
        "CREATE TABLE other LIKE t",
        "CREATE TEMPORARY TABLE t (id INT)",
        "DROP TEMPORARY TABLE IF EXISTS t",
        "DROP TABLE other.t, db.x",
        "DROP DATABASE other",
        "ALTER TABLE other.t DROP COLUMN v",
        "RENAME TABLE other.t TO other.u",
        "GRANT SELECT ON db.t TO a",
        "FLUSH TABLES t",
        "SET PASSWORD FOR a = 'x'",
        "-- only a comment",
        "/*!40000 ALTER TABLE t ENABLE KEYS */",
        "INSERT INTO mysql.rds_heartbeat2(id, value) VALUES (1, 5) ON DUPLICATE KEY UPDATE value = 5",
    ] {
        assert_eq!(run(text), vec![], "{text}");
    }
}

#[test]
fn what_cannot_be_followed_is_refused() {
    for text in [
        "DROP TABLE t",
        "DROP TABLE IF EXISTS `x`, `db`.`t` CASCADE",
        "TRUNCATE t",
        "TRUNCATE TABLE db.t",
        "RENAME TABLE t TO t_old, t_new TO t",
        "RENAME TABLE t_new TO t",
        "ALTER TABLE t RENAME TO x",
        "DROP DATABASE db",
        "DROP SCHEMA IF EXISTS `db`",
        "ALTER TABLE t MODIFY v BIGINT",
        "ALTER TABLE t CHANGE v w INT",
        "ALTER TABLE t DROP v",
        "ALTER TABLE t DROP COLUMN v, ADD v INT",
        "ALTER TABLE t RENAME COLUMN v TO w",
        "ALTER TABLE t ADD a INT NOT NULL",
        "ALTER TABLE t ADD a INT DEFAULT 7",
        "ALTER TABLE t ADD a INT DEFAULT (NULL)",
        "ALTER TABLE t ADD a INT AS (v + 1)",
        "ALTER TABLE t ADD a INT GENERATED ALWAYS AS (v + 1) STORED",
        "ALTER TABLE t ADD a INT AUTO_INCREMENT UNIQUE",
        "ALTER TABLE t ADD a SERIAL",
        "ALTER TABLE t ADD a INT REFERENCES p (id) ON DELETE CASCADE",
        "ALTER TABLE t ADD a WIDGET",
        "ALTER TABLE t ADD a INT FROBNICATE",
        "ALTER TABLE t FROBNICATE",
        "ALTER TABLE t ADD a INT, CONVERT TO CHARACTER SET utf8mb4",
        "ALTER TABLE t ADD a TEXT, DEFAULT CHARSET = latin1",
        "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (v)",
        "ALTER TABLE t ADD CONSTRAINT PRIMARY KEY (v)",
        "DROP INDEX `PRIMARY` ON t",
        "ALTER TABLE t DROP PARTITION p0, p1",
        "ALTER TABLE t TRUNCATE PARTITION p0",
        "ALTER TABLE t EXCHANGE PARTITION p0 WITH TABLE x",
        "ALTER TABLE t IMPORT TABLESPACE",
        "ALTER TABLE t ENGINE=MyISAM",
        "ALTER TABLE t ADD FOREIGN KEY (v) REFERENCES p (id) ON DELETE SET NULL",
        "ALTER TABLE t ADD CONSTRAINT f FOREIGN KEY (v) REFERENCES p (id) ON UPDATE CASCADE",
        "CREATE TABLE t (id INT)",
        "CREATE TABLE t LIKE x",
        "CREATE TABLE t AS SELECT 1",
        "FROBNICATE TABLE t",
        "ALTER TABLE t ADD a ENUM('unclosed",
        "/*!50100 DROP TABLE t */",
    ] {
        let found = run(text);
        assert!(
            matches!(found.as_slice(), [Effect::Refuse(t, reason), ..] if t.table == "t" && !reason.is_empty()),
            "{text}: {found:?}"
        );
    }
}

#[test]
fn rows_logged_as_text_are_named() {
    for text in [
        "INSERT INTO x VALUES (1)",
        "UPDATE db.t SET v = 1",
        "delete from other.t",
    ] {
        assert!(matches!(run(text).as_slice(), [Effect::Rows(_)]), "{text}");
    }
}

#[test]
fn names_use_the_statement_s_database_and_modes() {
    assert_eq!(run_in("DROP TABLE t", "other", None, PLAIN), vec![]);
    assert_eq!(run_in("DROP TABLE db.t", "other", None, PLAIN).len(), 1);
    let ansi = Dialect {
        ansi_quotes: true,
        ..PLAIN
    };
    assert_eq!(run_in(r#"DROP TABLE "t""#, "db", None, ansi).len(), 1);
    let plain_backslash = Dialect {
        no_backslash_escapes: true,
        ..PLAIN
    };
    let text = r"ALTER TABLE t COMMENT='\', ADD a INT";
    assert!(matches!(
        run_in(text, "db", None, plain_backslash).as_slice(),
        [Effect::AddColumns(..)]
    ));
    assert_eq!(
        run_in("DROP INDEX uk ON t", "db", Some("uk"), PLAIN).len(),
        1
    );
    assert_eq!(
        run_in("ALTER TABLE t DROP KEY UK", "db", Some("uk"), PLAIN).len(),
        1
    );
}

#[test]
fn added_columns_take_their_places() {
    let Effect::AddColumns(_, columns) =
        run("ALTER TABLE t ADD a INT FIRST, ADD b INT AFTER a, ADD c INT").remove(0)
    else {
        panic!()
    };
    let after = add_columns(&table("t"), &columns).unwrap();
    let names: Vec<&str> = after.columns.iter().map(|c| c.name.as_str()).collect();
    assert_eq!((names, after.version), (vec!["a", "b", "id", "v", "c"], 1));
    assert!(add_columns(&after, &columns).is_err());
}

proptest::proptest! {
    #[test]
    fn no_text_makes_it_panic(text in ".{0,200}", tail in "(ALTER TABLE t|ADD|,|\\(|\\)|'|`|x|INT|;| |/\\*!|\\*/){0,40}") {
        run(&text);
        run(&format!("ALTER TABLE t {tail}"));
    }
}

#[test]
fn wanted_tables_that_come_into_being_are_noticed() {
    let created = |text: &str| -> Vec<String> {
        let effects = run(text).into_iter();
        effects
            .filter_map(|effect| match effect {
                Effect::Created(name) => Some(name.to_string()),
                _ => None,
            })
            .collect()
    };
    for (text, names) in [
        ("CREATE TABLE new_a (id INT PRIMARY KEY)", &["db.new_a"][..]),
        (
            "create table if not exists `DB`.`New_B` like t",
            &["DB.New_B"],
        ),
        ("CREATE TABLE old (id INT)", &[]),
        ("CREATE TEMPORARY TABLE new_a (id INT)", &[]),
        ("CREATE TABLE other.new_a (id INT)", &[]),
        ("CREATE TABLE IF NOT EXISTS t (id INT)", &[]),
        (
            "RENAME TABLE old TO new_a, x TO y, z TO db.new_c",
            &["db.new_a", "db.new_c"],
        ),
        ("DROP TABLE new_a", &[]),
    ] {
        assert_eq!(created(text), names, "{text}");
    }
}
