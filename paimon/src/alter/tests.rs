use std::sync::Arc;

use object_store::memory::InMemory;

use super::*;
use crate::{Catalog, data_type::Element};

async fn table(fields: Vec<DataField>, options: &[(&str, &str)]) -> Table {
    let catalog = Catalog::new(
        Arc::new(InMemory::new()),
        object_store::path::Path::default(),
    );
    let options = options.iter().chain(&[("bucket", "1")]);
    let options = options.map(|(name, value)| ((*name).into(), (*value).into()));
    let schema = Schema::create(fields, vec!["id".into()], vec![], options.collect(), None);
    catalog
        .create_table("d", "t", schema.unwrap())
        .await
        .unwrap()
}

fn nested() -> Vec<DataField> {
    let row = DataType::Row(vec![
        DataField::new("a", DataType::Int),
        DataField::new("b", DataType::array(DataType::Int)),
    ]);
    vec![
        DataField::new("id", DataType::Int),
        DataField::new("r", DataType::array(row)),
        DataField::new(
            "m",
            DataType::Map(
                Box::new(Element::from(DataType::String)),
                Box::new(Element::from(DataType::Float)),
            ),
        ),
        DataField::new("v", DataType::Int),
    ]
}

fn names(table: &Table) -> Vec<String> {
    let fields = &table.schema().fields;
    fields
        .iter()
        .map(|field| format!("{} {}", field.name, field.data_type))
        .collect()
}

async fn refusal(table: &Table, change: SchemaChange<'_>) -> String {
    table.alter(&[change]).await.unwrap_err().to_string()
}

#[tokio::test]
async fn columns_and_what_is_within_them_change_and_ids_are_new() {
    let table = table(nested(), &[]).await;
    assert_eq!(table.schema().highest_field_id, 5);
    let row = DataType::Row(vec![DataField::new("x", DataType::Int)]);
    let table = table
        .alter(&[
            SchemaChange::AddColumn {
                path: &["r", "element", "c"],
                data_type: row,
                description: None,
                place: Some(ColumnPlace::First),
            },
            SchemaChange::UpdateColumnType {
                path: &["r", "element", "b", "element"],
                data_type: DataType::BigInt,
            },
            SchemaChange::UpdateColumnType {
                path: &["m", "value"],
                data_type: DataType::Double,
            },
            SchemaChange::DropColumn {
                path: &["r", "element", "a"],
            },
            SchemaChange::UpdateColumnPosition {
                name: "v",
                place: ColumnPlace::After("id"),
            },
            SchemaChange::RenameColumn {
                path: &["v"],
                name: "w",
            },
        ])
        .await
        .unwrap();
    assert_eq!(
        names(&table),
        [
            "id INT",
            "w INT",
            "r ARRAY<ROW<`c` ROW<`x` INT>, `b` ARRAY<BIGINT>>>",
            "m MAP<STRING, DOUBLE>",
        ]
    );
    assert_eq!((table.schema().id, table.schema().highest_field_id), (1, 7));
    let again = [SchemaChange::AddColumn {
        path: &["a"],
        data_type: DataType::Int,
        description: Some("back"),
        place: None,
    }];
    let table = table.alter(&again).await.unwrap();
    assert_eq!(table.schema().field("a").unwrap().1.id, 8);
    let same = table
        .alter(&[SchemaChange::UpdateComment { comment: None }])
        .await;
    assert_eq!(same.unwrap().schema().id, 2);
}

#[tokio::test]
async fn what_cannot_change_says_why() {
    let table = table(nested(), &[("fields.v.stats-mode", "full")]).await;
    let change = |path, data_type| SchemaChange::UpdateColumnType { path, data_type };
    for (change, why) in [
        (change(&["id"], DataType::BigInt), "primary key"),
        (
            change(&["nowhere"], DataType::BigInt),
            "no column 'nowhere'",
        ),
        (change(&["v"], DataType::Date), "no such cast"),
        (change(&["m", "key"], DataType::Int), "keys of a MAP"),
        (change(&["m"], DataType::Int), "by its path"),
        (
            SchemaChange::DropColumn { path: &["v"] },
            "fields.v.stats-mode",
        ),
        (
            SchemaChange::RenameColumn {
                path: &["v"],
                name: "m",
            },
            "there is a column 'm'",
        ),
        (
            SchemaChange::UpdateColumnNullability {
                path: &["v"],
                nullable: false,
            },
            "alter-column-null-to-not-null.disabled",
        ),
        (
            SchemaChange::SetOption {
                name: "merge-engine",
                value: "no-such",
            },
            "no-such",
        ),
    ] {
        let found = refusal(&table, change).await;
        assert!(found.contains(why), "{found}");
    }
    let rename = SchemaChange::RenameColumn {
        path: &["v"],
        name: "w",
    };
    let table = table.alter(&[rename]).await.unwrap();
    assert_eq!(table.schema().options["fields.w.stats-mode"], "full");
}

#[tokio::test]
async fn columns_named_in_options_are_renamed_there() {
    let mut options = [
        ("bucket-key", "a,b"),
        ("fields.a.aggregate-function", "sum"),
        ("fields.a,c.sequence-group", "d, a"),
        ("fields.default-aggregate-function", "a"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    option::rename(&mut options, "a", "z");
    assert_eq!(
        options.into_iter().collect::<Vec<_>>(),
        [
            ("bucket-key", "z,b"),
            ("fields.default-aggregate-function", "a"),
            ("fields.z,c.sequence-group", "d,z"),
            ("fields.z.aggregate-function", "sum"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
    );
}
