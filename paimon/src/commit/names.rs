//! Names of the metadata that one commit writes: all with one unique id and a number, over all its
//! tries and both its snapshots.
//!
//! Source: `org.apache.paimon.utils.FileStorePathFactory`.

#[derive(Debug)]
pub(super) struct Names {
    id: String,
    manifests: u32,
    lists: u32,
    index_manifests: u32,
}

impl Names {
    pub(super) fn new() -> Self {
        Self::of(uuid::Uuid::new_v4())
    }

    pub(super) fn of(id: impl std::fmt::Display) -> Self {
        Self {
            id: id.to_string(),
            manifests: 0,
            lists: 0,
            index_manifests: 0,
        }
    }

    pub(super) fn manifest(&mut self) -> String {
        let name = format!("manifest-{}-{}", self.id, self.manifests);
        self.manifests += 1;
        name
    }

    pub(super) fn manifest_list(&mut self) -> String {
        let name = format!("manifest-list-{}-{}", self.id, self.lists);
        self.lists += 1;
        name
    }

    pub(super) fn index_manifest(&mut self) -> String {
        let name = format!("index-manifest-{}-{}", self.id, self.index_manifests);
        self.index_manifests += 1;
        name
    }
}
