//! Requests to a job: small objects in its state folder, which reach it wherever it runs, and wait for it
//! where it does not. The job removes one when a durable record says what it asks for.

use headwater_connectors::TableName;
use object_store::ObjectMeta;
use serde::{Deserialize, Serialize};

use super::store::{StateError, StateStore};

/// How the names of requests begin.
const PREFIX: &str = "request-";

/// Somebody wants a table to be read anew or, where the job does not capture it yet, to be added.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The source table.
    pub table: TableName,
    /// Name of the object.
    #[serde(skip)]
    pub name: String,
}

impl StateStore {
    /// Asks for a table.
    pub async fn ask(&self, table: &TableName) -> Result<Request, StateError> {
        let id = uuid::Uuid::new_v4().simple().to_string();
        let request = Request {
            table: table.clone(),
            name: format!("{PREFIX}{id}.json"),
        };
        self.overwrite(&self.path(&request.name), &request).await?;
        Ok(request)
    }

    /// What the job is asked for.
    pub async fn requests(&self) -> Result<Vec<Request>, StateError> {
        let request = |object: ObjectMeta| {
            let name = object.location.filename().unwrap_or_default();
            let is_request = name.starts_with(PREFIX) && name.ends_with(".json");
            is_request.then(|| name.to_owned())
        };
        let mut requests = Vec::new();
        for name in self.objects(request).await? {
            if let Some(request) = self.read::<Request>(&self.path(&name)).await? {
                requests.push(Request { name, ..request });
            }
        }
        Ok(requests)
    }

    /// Whether a request is still to be taken.
    pub async fn is_open(&self, request: &Request) -> Result<bool, StateError> {
        let found = self.read::<Request>(&self.path(&request.name)).await?;
        Ok(found.is_some())
    }

    /// Removes requests.
    pub async fn answered(&self, requests: &[Request]) -> Result<(), StateError> {
        for request in requests {
            self.remove(&self.path(&request.name)).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn requests_wait_until_they_are_answered() {
        let folder = tempfile::tempdir().unwrap();
        let store = StateStore::local(folder.path()).unwrap();
        assert!(store.requests().await.unwrap().is_empty());
        let table = TableName::new("shop", "o'rders ✓");
        let asked = store.ask(&table).await.unwrap();
        assert_eq!(
            store.requests().await.unwrap(),
            std::slice::from_ref(&asked)
        );
        assert!(store.is_open(&asked).await.unwrap());
        store.answered(std::slice::from_ref(&asked)).await.unwrap();
        store.answered(std::slice::from_ref(&asked)).await.unwrap();
        assert!(!store.is_open(&asked).await.unwrap());
        assert!(store.numbers().await.unwrap().is_empty());
    }
}
