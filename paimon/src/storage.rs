//! The few things asked of the store, each with the object named in its error.

#[cfg(test)]
pub(crate) mod counting;
#[cfg(test)]
pub(crate) mod faulty;
mod local;

use bytes::Bytes;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload, path::Path};

use crate::error::{Error, Result};

pub(crate) use self::local::{LocalStore, blocking};

/// An object's bytes, `None` when it isn't there.
pub(crate) async fn get(store: &dyn ObjectStore, path: &Path) -> Result<Option<Bytes>> {
    let answer = match store.get(path).await {
        Ok(answer) => answer.bytes().await,
        Err(error) => Err(error),
    };
    match answer {
        Ok(bytes) => Ok(Some(bytes)),
        Err(object_store::Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(Error::store("cannot read", path, error)),
    }
}

/// An object's bytes; it must be there.
pub(crate) async fn read(store: &dyn ObjectStore, path: &Path) -> Result<Bytes> {
    get(store, path).await?.ok_or_else(|| Error::Missing {
        path: path.to_string(),
    })
}

pub(crate) async fn exists(store: &dyn ObjectStore, path: &Path) -> Result<bool> {
    match store.head(path).await {
        Ok(_) => Ok(true),
        Err(object_store::Error::NotFound { .. }) => Ok(false),
        Err(error) => Err(Error::store("cannot look at", path, error)),
    }
}

/// Writes an object, whatever was there.
pub(crate) async fn put(store: &dyn ObjectStore, path: &Path, bytes: Vec<u8>) -> Result<()> {
    store
        .put(path, PutPayload::from(bytes))
        .await
        .map(|_| ())
        .map_err(|error| Error::store("cannot write", path, error))
}

/// Writes an object that must not be there yet; `false` when it is. After a retry inside the store
/// `false` may mean our own object: read it back.
pub(crate) async fn create(store: &dyn ObjectStore, path: &Path, bytes: Vec<u8>) -> Result<bool> {
    let options = PutOptions {
        mode: PutMode::Create,
        ..PutOptions::default()
    };
    match store.put_opts(path, PutPayload::from(bytes), options).await {
        Ok(_) => Ok(true),
        Err(
            object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. },
        ) => Ok(false),
        Err(error) => Err(Error::store("cannot create", path, error)),
    }
}

/// Deletes an object that may be there.
pub(crate) async fn delete(store: &dyn ObjectStore, path: &Path) -> Result<()> {
    match store.delete(path).await {
        Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
        Err(error) => Err(Error::store("cannot delete", path, error)),
    }
}

/// Names of the objects that stand right in a folder.
pub(crate) async fn file_names(store: &dyn ObjectStore, folder: &Path) -> Result<Vec<String>> {
    let listing = store
        .list_with_delimiter(Some(folder))
        .await
        .map_err(|error| Error::store("cannot list", folder, error))?;
    Ok(listing
        .objects
        .iter()
        .filter_map(|object| object.location.filename().map(str::to_owned))
        .collect())
}

/// Names of the folders that stand right in a folder.
pub(crate) async fn folder_names(
    store: &dyn ObjectStore,
    folder: Option<&Path>,
) -> Result<Vec<String>> {
    let listing = store.list_with_delimiter(folder).await.map_err(|error| {
        Error::store(
            "cannot list",
            folder.map_or("/".to_owned(), |path| path.to_string()),
            error,
        )
    })?;
    Ok(listing
        .common_prefixes
        .iter()
        .filter_map(|path| path.filename().map(str::to_owned))
        .collect())
}

/// Numbers of the objects `<prefix><number>` in a folder, ascending.
pub(crate) async fn numbered(
    store: &dyn ObjectStore,
    folder: &Path,
    prefix: &str,
) -> Result<Vec<i64>> {
    let mut ids: Vec<i64> = file_names(store, folder)
        .await?
        .iter()
        .filter_map(|name| name.strip_prefix(prefix)?.parse().ok())
        .collect();
    ids.sort_unstable();
    Ok(ids)
}
