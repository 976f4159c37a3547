use super::*;
use crate::{mysql::table::MysqlColumn, schema::DataType::*};

fn column(text: &str) -> MysqlColumn {
    let options = TypeOptions::default();
    MysqlColumn::from_definition("c", text, Some("utf8mb4"), None, true, None, &options).unwrap()
}

#[test]
fn lake_types_hold_every_value_of_the_type() {
    for (text, lake) in [
        ("tinyint", TinyInt),
        ("tinyint(1)", Boolean),
        ("tinyint(1) unsigned", SmallInt),
        ("tinyint(3) unsigned zerofill", SmallInt),
        ("smallint unsigned", Int),
        ("mediumint unsigned", Int),
        ("int(10) unsigned zerofill", BigInt),
        ("INT ZEROFILL", BigInt),
        ("bigint unsigned", Decimal(20, 0)),
        ("float(10,2)", Float),
        ("float(25)", Double),
        ("decimal(38,10)", Decimal(38, 10)),
        ("decimal(39,10)", String),
        ("bit(1)", Boolean),
        ("bit(10)", Binary(2)),
        ("char(0)", String),
        ("time(3)", Time(3)),
        ("time(4)", String),
        ("timestamp(6)", TimestampLtz(6)),
        ("year", Int),
        ("set('a','b')", Array(Box::new(String))),
        ("vector(3)", Array(Box::new(Float))),
        ("geomcollection", String),
    ] {
        assert_eq!(column(text).lake, lake, "{text}");
    }
}

#[test]
fn spellings_of_statements_become_the_server_s() {
    for (text, data_type, column_type) in [
        ("INTEGER(11)", "int", "int"),
        ("BOOL", "tinyint", "tinyint(1)"),
        ("TINYINT(1) UNSIGNED", "tinyint", "tinyint unsigned"),
        ("int zerofill", "int", "int(10) unsigned zerofill"),
        ("SERIAL", "bigint", "bigint unsigned"),
        ("numeric", "decimal", "decimal(10,0)"),
        ("DEC(12) unsigned", "decimal", "decimal(12,0) unsigned"),
        ("double precision", "double", "double"),
        ("Character Varying (20)", "varchar", "varchar(20)"),
        ("varchar(5) character set gbk", "varchar", "varchar(5)"),
        ("text character set gbk", "text", "text"),
        (
            "ENUM( 'a' , \"b\", 'it''s')",
            "enum",
            "enum('a','b','it''s')",
        ),
        ("timestamp(0)", "timestamp", "timestamp"),
        ("GeometryCollection", "geomcollection", "geomcollection"),
    ] {
        let column = column(text);
        assert_eq!(
            (column.data_type.as_str(), column.column_type.as_str()),
            (data_type, column_type)
        );
    }
}

#[test]
fn a_present_type_that_the_lake_type_cannot_carry_does_not_fit() {
    let fits = |text: &str, lake: DataType| Physical::parse(text, None).unwrap().fits(&lake);
    for (text, lake, right) in [
        ("int", BigInt, true),
        ("int", Boolean, false),
        ("tinyint(1)", Boolean, true),
        ("decimal(10,2)", Decimal(12, 2), true),
        ("decimal(10,3)", Decimal(12, 2), false),
        ("decimal(13,2)", Decimal(12, 2), false),
        ("datetime(6)", Timestamp(3), false),
        ("datetime", TimestampLtz(6), false),
        ("double", Float, false),
        ("float", Double, true),
        ("varchar(9)", Bytes, false),
        ("bit(2)", Boolean, false),
    ] {
        assert_eq!(fits(text, lake.clone()), right, "{text} {lake:?}");
    }
    for text in [
        "int",
        "year",
        "bit(9)",
        "time(6)",
        "json",
        "point",
        "set('a')",
        "enum('a')",
        "vector(2)",
        "date",
        "char(0)",
        "decimal(50,3)",
    ] {
        let column = column(text);
        assert!(column.physical().unwrap().fits(&column.lake), "{text}");
    }
}

#[test]
fn text_in_the_binary_character_set_is_bytes() {
    let options = TypeOptions::default();
    let column = MysqlColumn::from_definition(
        "c",
        "varchar(9)",
        Some("binary"),
        None,
        true,
        None,
        &options,
    );
    assert_eq!(column.unwrap().lake, VarBinary(9));
}

#[test]
fn nonsense_is_refused() {
    for text in [
        "",
        "widget",
        "enum('a",
        "bit(65)",
        "decimal(70,2)",
        "time(7)",
    ] {
        let options = TypeOptions::default();
        let column = MysqlColumn::from_definition("c", text, None, None, true, None, &options);
        assert!(column.is_err(), "{text}");
    }
}
