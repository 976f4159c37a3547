use std::collections::BTreeMap;

use super::*;
use crate::{
    alter::ColumnPlace,
    data_type::{DataField, DataType},
    storage::faulty::{Fault, Faulty},
};

fn field(name: &str, data_type: DataType) -> DataField {
    DataField {
        id: 77,
        name: name.into(),
        data_type,
        nullable: true,
        description: None,
        default_value: None,
    }
}

/// A table that nobody made, partitioned by a column of this type.
pub(crate) fn partitioned(data_type: DataType) -> Table {
    let schema = Schema::create(
        vec![field("p", data_type), field("id", DataType::Int)],
        vec!["p".into(), "id".into()],
        vec!["p".into()],
        BTreeMap::from([("bucket".to_owned(), "1".to_owned())]),
        None,
    );
    let store = Arc::new(object_store::memory::InMemory::new());
    Table::new("w.t", store, Path::from("w/t"), Arc::new(schema.unwrap()))
}

fn shop() -> Schema {
    Schema::create(
        vec![
            field("id", DataType::Int),
            field("tags", DataType::array(DataType::String)),
            field("v", DataType::String),
        ],
        vec!["id".into()],
        vec![],
        BTreeMap::from([("bucket".to_owned(), "2".to_owned())]),
        Some("orders".into()),
    )
    .unwrap()
}

#[tokio::test]
async fn databases_and_tables_are_made_and_found() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = Catalog::local(folder.path().join("warehouse")).unwrap();
    catalog.probe().await.unwrap();
    let made = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(made, 0, "looking leaves nothing behind");
    assert!(catalog.list_databases().await.unwrap().is_empty());
    catalog.create_database("shop").await.unwrap();
    catalog.create_database("shop").await.unwrap();
    assert!(folder.path().join("warehouse/shop.db").is_dir());
    assert_eq!(catalog.list_databases().await.unwrap(), ["shop"]);
    assert!(catalog.table("shop", "orders").await.unwrap().is_none());
    let made = catalog
        .create_table("shop", "orders", shop())
        .await
        .unwrap();
    assert_eq!(made.name(), "shop.orders");
    assert!(matches!(
        catalog.create_table("shop", "orders", shop()).await,
        Err(Error::Table { .. })
    ));
    assert_eq!(catalog.list_tables("shop").await.unwrap(), ["orders"]);
    let found = catalog.table("shop", "orders").await.unwrap().unwrap();
    assert_eq!(found.schema(), made.schema());
    assert!(!found.schema().fields[0].nullable);
    assert_eq!(found.schema().highest_field_id, 2);
    for wrong in ["", "..", "../x", "a/b", "a\\b", " a", "a\n"] {
        assert!(catalog.table("shop", wrong).await.is_err(), "{wrong}");
        assert!(catalog.create_database(wrong).await.is_err(), "{wrong}");
    }
    // Whatever else MySQL allows in a name is the folder's name as it is.
    let strange = "Bestellungen ä#1 %20 `x`";
    catalog.create_table("shop", strange, shop()).await.unwrap();
    assert!(catalog.table("shop", strange).await.unwrap().is_some());
    assert_eq!(
        catalog.list_tables("shop").await.unwrap(),
        [strange, "orders"]
    );
    assert!(
        folder
            .path()
            .join("warehouse/shop.db")
            .join(strange)
            .is_dir()
    );
}

#[tokio::test]
async fn columns_are_added_once() {
    let catalog = Catalog::new(
        Arc::new(object_store::memory::InMemory::new()),
        Path::from("w"),
    );
    catalog.probe().await.unwrap();
    let table = catalog
        .create_table("shop", "orders", shop())
        .await
        .unwrap();
    let change = [
        (field("a", DataType::BigInt), ColumnPlace::After("id")),
        (field("b", DataType::Date), ColumnPlace::Last),
        (field("c", DataType::Int), ColumnPlace::First),
        (field("d", DataType::Int), ColumnPlace::After("c")),
    ];
    let names = |table: &Table| -> Vec<(String, i32)> {
        let fields = &table.schema().fields;
        fields.iter().map(|f| (f.name.clone(), f.id)).collect()
    };
    let expected = [
        ("c", 5),
        ("d", 6),
        ("id", 0),
        ("a", 3),
        ("tags", 1),
        ("v", 2),
        ("b", 4),
    ]
    .map(|(name, id)| (name.to_owned(), id));
    let wider = table.add_columns(&change).await.unwrap();
    assert_eq!(names(&wider), expected);
    assert_eq!(wider.schema().id, 1);
    // Again, from the old schema as after a restart.
    let again = table.add_columns(&change).await.unwrap();
    assert_eq!((names(&again), again.schema().id), (expected.to_vec(), 1));
    assert_eq!(
        table.schema_of(1).await.unwrap().as_ref(),
        again.schema().as_ref()
    );
    for wrong in [
        (field("a", DataType::Int), ColumnPlace::Last),
        (field("A", DataType::BigInt), ColumnPlace::Last),
        (field("e", DataType::Int), ColumnPlace::After("nowhere")),
    ] {
        assert!(matches!(
            table.add_columns(&[wrong]).await,
            Err(Error::Table { .. })
        ));
    }
}

#[tokio::test]
async fn a_schema_whose_answer_was_lost_is_recognised() {
    let store = Arc::new(Faulty::default());
    let catalog = Catalog::new(store.clone(), Path::from("w"));
    store.add("schema-0", Fault::FoundItself);
    let table = catalog
        .create_table("shop", "orders", shop())
        .await
        .unwrap();
    store.add("schema-1", Fault::FoundItself);
    let change = [(field("a", DataType::Int), ColumnPlace::Last)];
    assert_eq!(table.add_columns(&change).await.unwrap().schema().id, 1);
    store.add("schema-2", Fault::AnswerLost);
    let change = [(field("b", DataType::Int), ColumnPlace::Last)];
    assert!(table.add_columns(&change).await.unwrap_err().is_transient());
    assert_eq!(table.add_columns(&change).await.unwrap().schema().id, 2);
}

#[tokio::test]
async fn racing_schema_changes_lose_nothing() {
    let catalog = Catalog::new(
        Arc::new(object_store::memory::InMemory::new()),
        Path::from("w"),
    );
    let table = catalog
        .create_table("shop", "orders", shop())
        .await
        .unwrap();
    let tasks: Vec<_> = (0..8)
        .map(|n| {
            let table = table.clone();
            tokio::spawn(async move {
                let change = [(field(&format!("c{n}"), DataType::Int), ColumnPlace::Last)];
                table.add_columns(&change).await.unwrap();
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let table = table.reload().await.unwrap();
    assert_eq!(table.schema().id, 8);
    let mut ids: Vec<i32> = table.schema().fields.iter().map(|field| field.id).collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..11).collect::<Vec<_>>());
}

#[test]
fn schemas_that_cannot_be_are_refused() {
    let create = |names: &[&str], keys: &[&str], partitions: &[&str], bucket: &str| {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Schema::create(
            names
                .iter()
                .map(|name| field(name, DataType::Int))
                .collect(),
            owned(keys),
            owned(partitions),
            BTreeMap::from([("bucket".to_owned(), bucket.to_owned())]),
            None,
        )
    };
    assert!(create(&["a", "b"], &["a", "b"], &["b"], "4").is_ok());
    let array = Schema::create(
        vec![field("a", DataType::array(DataType::Int))],
        vec!["a".into()],
        vec![],
        BTreeMap::from([("bucket".to_owned(), "1".to_owned())]),
        None,
    );
    assert!(
        array
            .unwrap_err()
            .to_string()
            .contains("primary key column 'a'")
    );
    for (names, keys, partitions, bucket, says) in [
        (&["a", "A"][..], &["a"][..], &[][..], "1", "case"),
        (&["a"], &["b"], &[], "1", "not a column"),
        (&["a"], &[], &[], "1", "bucket-key"),
        (
            &["a", "b"],
            &["a"],
            &["b"],
            "1",
            "outside of the primary key",
        ),
        (&["a"], &["a"], &["a"], "1", "only partition columns"),
        (&["a"], &["a"], &[], "-2", "postponed"),
        (&["a"], &["a"], &[], "0", "above 0"),
        (&["a"], &["a"], &[], "x", "above 0"),
    ] {
        let error = create(names, keys, partitions, bucket)
            .unwrap_err()
            .to_string();
        assert!(error.contains(says), "{error}");
    }
}

#[tokio::test]
async fn a_store_that_ignores_conditions_is_refused() {
    let store = Faulty::default();
    store.add("", Fault::ConditionIgnored);
    let catalog = Catalog::new(Arc::new(store), Path::from("w"));
    let error = catalog.probe().await.unwrap_err();
    assert!(error.to_string().contains("conditional puts"), "{error}");
    assert!(catalog.list_databases().await.unwrap().is_empty());
}
