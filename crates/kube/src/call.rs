//! One request to the API server, within a time.

use std::time::Duration;

use kube::core::Status;
use thiserror::Error;

/// A request that the API server refused or did not answer. The message contains the cause, and there is no further source, so
/// that a cause is printed once.
#[derive(Debug, Error)]
#[error("cannot {what}: {cause}")]
pub struct CallError {
    /// What was tried, such as "evict pod a/b".
    what: String,
    cause: Cause,
}

#[derive(Debug, Error)]
enum Cause {
    #[error("{0}")]
    Api(Box<kube::Error>),
    #[error("no answer within {0:?}")]
    Timeout(Duration),
}

impl CallError {
    /// The API server's refusal; `None` if it did not answer.
    pub fn status(&self) -> Option<&Status> {
        match &self.cause {
            Cause::Api(error) => match &**error {
                kube::Error::Api(status) => Some(status),
                _ => None,
            },
            Cause::Timeout(_) => None,
        }
    }
}

/// Waits for the answer to a request, but not longer than `limit`. The request may take effect later all the same.
pub(crate) async fn call<T>(
    limit: Duration,
    what: impl FnOnce() -> String,
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, CallError> {
    let cause = match tokio::time::timeout(limit, request).await {
        Ok(Ok(answer)) => return Ok(answer),
        Ok(Err(error)) => Cause::Api(Box::new(error)),
        Err(_elapsed) => Cause::Timeout(limit),
    };
    Err(CallError {
        what: what(),
        cause,
    })
}

/// As [`call`], where some refusals are answers.
pub(crate) async fn call_or<T>(
    limit: Duration,
    what: impl FnOnce() -> String,
    request: impl Future<Output = Result<T, kube::Error>>,
    meaning: impl FnOnce(&Status) -> Option<T>,
) -> Result<T, CallError> {
    let answer = call(limit, what, request).await;
    answer.or_else(|error| error.status().and_then(meaning).ok_or(error))
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;

    fn refused(code: u16) -> kube::Error {
        kube::Error::Api(Box::new(Status {
            code,
            message: "no such pod".to_owned(),
            ..Status::default()
        }))
    }

    #[tokio::test]
    async fn an_error_says_once_what_was_tried_and_why_it_failed() {
        let limit = Duration::from_mins(10);
        let answer = call(limit, || "wake pod a/b".to_owned(), async {
            Err::<(), _>(refused(403))
        });
        let error = answer.await.unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("cannot wake pod a/b: "), "{text}");
        assert!(text.contains("no such pod"), "{text}");
        assert!(error.source().is_none(), "it would be printed twice");
        assert_eq!(error.status().map(|status| status.code), Some(403));
    }

    #[tokio::test]
    async fn a_refusal_can_be_an_answer_and_silence_cannot() {
        let gone = |status: &Status| (status.code == 404).then_some("gone");
        let what = || "wake pod a/b".to_owned();
        let limit = Duration::from_mins(10);
        let answer = call_or(limit, what, async { Err(refused(404)) }, gone).await;
        assert_eq!(answer.unwrap(), "gone");
        let other = call_or(limit, what, async { Err(refused(403)) }, gone).await;
        assert!(other.is_err());
        let limit = Duration::from_millis(1);
        let silence = call_or(limit, what, std::future::pending(), gone).await;
        let text = silence.unwrap_err().to_string();
        assert_eq!(text, "cannot wake pod a/b: no answer within 1ms");
    }
}
