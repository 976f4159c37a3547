//! Tries whether a store can hold a lake.

use object_store::{ObjectStore, path::Path};

use crate::{
    error::{Error, Result},
    storage,
};

/// Creates one object twice in a folder and deletes it.
pub(super) async fn probe(store: &dyn ObjectStore, folder: &Path) -> Result<()> {
    let path = folder
        .clone()
        .join(format!(".headwater-probe-{}", uuid::Uuid::new_v4()));
    let first = storage::create(store, &path, b"1".to_vec()).await?;
    let second = storage::create(store, &path, b"2".to_vec()).await;
    let content = storage::get(store, &path).await;
    storage::delete(store, &path).await?;
    // One that was there at first is our own, put by a try whose answer was lost.
    let kept = content?.is_some_and(|bytes| bytes.as_ref() == b"1");
    if !second? && kept {
        return Ok(());
    }
    let _ = first;
    Err(Error::Location {
        location: String::new(),
        message: "the store does not honour conditional puts (create only if absent): two writers \
                  could overwrite each other's commits. Use a store or a version of it that does"
            .into(),
    })
}

/// The error with the place and, where it can be known, what to do.
pub(super) fn explained(location: &str, error: Error) -> Error {
    let message = match &error {
        Error::Location { message, .. } => message.clone(),
        Error::Store { source, .. } => match advice(source) {
            Some(advice) => advice.to_owned(),
            None => return error,
        },
        _ => return error,
    };
    Error::Location {
        location: location.to_owned(),
        message,
    }
}

/// What an answer that will not change by itself means.
fn advice(error: &object_store::Error) -> Option<&'static str> {
    use object_store::Error as E;
    let told = |code: &str| {
        std::iter::successors(Some(error as &dyn std::error::Error), |error| {
            error.source()
        })
        .any(|error| error.to_string().contains(code))
    };
    match error {
        _ if told("NoSuchBucket") => Some("there is no such bucket; make it first"),
        _ if told("InvalidAccessKeyId") || told("SignatureDoesNotMatch") => Some(
            "the store refuses the keys: check s3.access-key and s3.secret-key (or AWS_… in the \
             environment)",
        ),
        _ if told("without LOCATION") || told("AuthorizationHeaderMalformed") => {
            Some("the bucket is in another region: set s3.region")
        }
        E::PermissionDenied { .. } | E::Unauthenticated { .. } => Some(
            "the store refuses to create, read or delete an object with these keys: they need \
             GetObject, PutObject, DeleteObject and ListBucket, and multipart uploads",
        ),
        _ => None,
    }
}
