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

use super::routes::error_response;

/// How many of the largest bodies may be in memory at once.
const LARGEST_AT_ONCE: usize = 4;
const UNIT: usize = 1024;
const TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) struct BodyRoom {
    limit: usize,
    units: Arc<Semaphore>,
}

/// A body and its claim on the room.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) bytes: Bytes,
    _room: OwnedSemaphorePermit,
}

impl BodyRoom {
    pub(super) fn new(limit: usize) -> Self {
        let units = LARGEST_AT_ONCE * limit.div_ceil(UNIT);
        Self {
            limit,
            units: Arc::new(Semaphore::new(units)),
        }
    }

    /// Reads the body, or answers for it.
    pub(super) async fn read(&self, headers: &HeaderMap, body: Body) -> Result<Held, Response> {
        match tokio::time::timeout(TIMEOUT, self.read_within_limit(headers, body)).await {
            Ok(read) => read,
            Err(_elapsed) => Err(error_response(
                StatusCode::REQUEST_TIMEOUT,
                format!("the request body did not arrive within {TIMEOUT:?}"),
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
            return Err(too_large(limit));
        }
        let units = announced.unwrap_or(limit).div_ceil(UNIT);
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        let room = self.units.clone().acquire_many_owned(units).await;
        let room = room.map_err(|_closed| {
            let message = "not accepting requests".to_owned();
            error_response(StatusCode::SERVICE_UNAVAILABLE, message)
        })?;
        match Limited::new(body, limit).collect().await {
            Ok(collected) => Ok(Held {
                bytes: collected.to_bytes(),
                _room: room,
            }),
            Err(error) if error.is::<LengthLimitError>() => Err(too_large(limit)),
            Err(error) => Err(error_response(
                StatusCode::BAD_REQUEST,
                format!("the request body cannot be read: {error}"),
            )),
        }
    }
}

fn too_large(limit: usize) -> Response {
    error_response(
        StatusCode::PAYLOAD_TOO_LARGE,
        format!(
            "the request body is larger than {} MiB (--max-body-mib); set nodeCacheCapable: true so that \
             the scheduler sends names only",
            limit / (1024 * 1024)
        ),
    )
}
