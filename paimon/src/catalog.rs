//! x
impl crate::table::Table {
    pub(crate) fn schema_path(&self, id: i64) -> object_store::path::Path {
        self.path()
            .clone()
            .join("schema")
            .join(format!("schema-{id}"))
    }
}
