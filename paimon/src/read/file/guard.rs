//! Decoders of other crates, which panic on some files that are damaged, where an error is due.

use std::{any::Any, panic::AssertUnwindSafe};

use futures::{FutureExt, Stream, StreamExt};

use crate::error::{Error, Result};

/// What a step of a decoder gives, or that the file is damaged. After a panic the decoder is not
/// used again.
pub(in crate::read) async fn step<T>(
    path: &str,
    step: impl Future<Output = Result<T>>,
) -> Result<T> {
    let done = AssertUnwindSafe(step).catch_unwind().await;
    done.unwrap_or_else(|panic| Err(damaged(path, panic.as_ref())))
}

/// What a decoder gives; it ends with a panic.
pub(super) fn steps<T>(
    path: String,
    steps: impl Stream<Item = Result<T>>,
) -> impl Stream<Item = Result<T>> {
    let steps = AssertUnwindSafe(steps).catch_unwind();
    steps.map(move |step| step.unwrap_or_else(|panic| Err(damaged(&path, panic.as_ref()))))
}

fn damaged(path: &str, panic: &(dyn Any + Send)) -> Error {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    Error::Corrupt {
        path: path.to_owned(),
        message: format!("it cannot be decoded ({})", text.unwrap_or("panic")),
    }
}

#[cfg(test)]
mod tests {
    use futures::{TryStreamExt, stream};

    use super::*;

    #[tokio::test]
    async fn a_panic_is_a_damaged_file() {
        let error = step::<()>("p", async { panic!("no {}", "dictionary") });
        let error = error.await.unwrap_err().to_string();
        assert_eq!(error, "p is damaged: it cannot be decoded (no dictionary)");
        assert_eq!(step("p", async { Ok(7) }).await.unwrap(), 7);
        let numbers = stream::iter(0..4).map(|number| {
            assert!(number < 2, "too much");
            Ok(number)
        });
        let mut numbers = std::pin::pin!(steps("p".into(), numbers));
        assert_eq!(numbers.try_next().await.unwrap(), Some(0));
        assert_eq!(numbers.try_next().await.unwrap(), Some(1));
        assert!(matches!(
            numbers.try_next().await,
            Err(Error::Corrupt { .. })
        ));
        assert_eq!(numbers.try_next().await.unwrap(), None);
    }
}
