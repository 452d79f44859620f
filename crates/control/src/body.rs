//! Request bodies: read whole, within a limit each and a limit in all.
//!
//! With `nodeCacheCapable: false` a body can hold thousands of nodes; several at once must not exhaust
//! memory, so bodies wait for room.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How many of the largest bodies may be in memory at once.
const LARGEST_AT_ONCE: usize = 4;
const UNIT: usize = 1024;

#[derive(Debug)]
pub(crate) struct BodyRoom {
    limit: usize,
    /// How long a body may take to arrive.
    timeout: Duration,
    units: Arc<Semaphore>,
    /// What to do when a body is too large.
    hint: &'static str,
    /// How a refusal is told to the client.
    refuse: fn(StatusCode, String) -> Response,
}

/// A body and its claim on the room.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) bytes: Bytes,
    _room: OwnedSemaphorePermit,
}

impl BodyRoom {
    pub(crate) fn new(
        limit: usize,
        timeout: Duration,
        hint: &'static str,
        refuse: fn(StatusCode, String) -> Response,
    ) -> Self {
        let units = LARGEST_AT_ONCE * limit.div_ceil(UNIT);
        Self {
            limit,
            timeout,
            units: Arc::new(Semaphore::new(units)),
            hint,
            refuse,
        }
    }

    /// Reads the body, or answers for it.
    pub(crate) async fn read(&self, headers: &HeaderMap, body: Body) -> Result<Held, Response> {
        match tokio::time::timeout(self.timeout, self.read_within_limit(headers, body)).await {
            Ok(read) => read,
            Err(_elapsed) => Err((self.refuse)(
                StatusCode::REQUEST_TIMEOUT,
                format!("the request body did not arrive within {:?}", self.timeout),
            )),
        }
    }

    async fn read_within_limit(&self, headers: &HeaderMap, body: Body) -> Result<Held, Response> {
        let limit = self.limit;
        let announced = headers
            .get(header::CONTENT_LENGTH)
            .and_then(|value| value.to_str().ok())
            .and_then(|text| text.parse::<usize>().ok());
        if announced.is_some_and(|length| length > limit) {
            return Err(self.too_large());
        }
        let units = announced.unwrap_or(limit).div_ceil(UNIT);
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        let room = self.units.clone().acquire_many_owned(units).await;
        let room = room.map_err(|_closed| {
            let message = "not accepting requests".to_owned();
            (self.refuse)(StatusCode::SERVICE_UNAVAILABLE, message)
        })?;
        match Limited::new(body, limit).collect().await {
            Ok(collected) => Ok(Held {
                bytes: collected.to_bytes(),
                _room: room,
            }),
            Err(error) if error.is::<LengthLimitError>() => Err(self.too_large()),
            Err(error) => Err((self.refuse)(
                StatusCode::BAD_REQUEST,
                format!("the request body cannot be read: {error}"),
            )),
        }
    }

    fn too_large(&self) -> Response {
        let message = format!(
            "the request body is larger than {} MiB (--max-body-mib){}",
            self.limit / (1024 * 1024),
            self.hint
        );
        (self.refuse)(StatusCode::PAYLOAD_TOO_LARGE, message)
    }
}
