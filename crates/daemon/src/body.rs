//! Request bodies: read whole, with a limit for each body and one for all together.
//!
//! With `nodeCacheCapable: false` a body can hold thousands of nodes; several at once must not exhaust
//! memory. The server limits how long a body may take ([`crate::serve`]).

mod limit;
mod room;

use std::sync::Arc;

use crate::serve::LateBody;
use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use http_body_util::BodyExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinError;

use room::{Claim, GivenUp, Room};

pub use limit::Limit;

const MIB: usize = 1024 * 1024;
/// How many of the largest bodies may be in memory at once.
const LARGEST_AT_ONCE: usize = 2;
const LEAST_ROOM: usize = 64 * MIB;
/// Larger bodies are processed on blocking threads.
const SMALL: usize = 256 * 1024;
/// glibc's malloc maps allocations larger than 32 MiB, and returns them to the system when they are freed; it may keep
/// smaller ones. Pages that are never written cost nothing.
const ALWAYS_GIVEN_BACK: usize = 33 * MIB;

#[derive(Debug)]
pub struct BodyRoom {
    limit: Limit,
    /// The least room for all bodies together, whatever the limit.
    least: usize,
    room: Room,
    /// How many large bodies are processed at once: each keeps a processor busy, and small ones need some, too.
    turns: Arc<Semaphore>,
    /// Tells the operator what to do when a body is too large.
    hint: &'static str,
    /// Makes the response for a refused body.
    refuse: fn(StatusCode, String) -> Response,
}

/// A body and its claim on the room.
#[derive(Debug)]
pub struct BufferedBody {
    pub bytes: Bytes,
    _room: Claim,
    _turn: Option<OwnedSemaphorePermit>,
}

impl BufferedBody {
    /// Processes the body, on a blocking thread if it is large, and then frees its memory.
    pub async fn work<T: Send + 'static>(
        self,
        work: impl FnOnce(&[u8]) -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        if self.is_small() {
            return Ok(work(&self.bytes));
        }
        self.work_beside(work).await
    }

    /// Whether it is processed so quickly that the async threads may do it.
    pub fn is_small(&self) -> bool {
        self.bytes.len() <= SMALL
    }

    /// Processes the body on a blocking thread.
    pub async fn work_beside<T: Send + 'static>(
        self,
        work: impl FnOnce(&[u8]) -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        let work = move || {
            // Moves all of `self`: even if the caller stops waiting, the room stays taken until the work ends.
            let body = self;
            work(&body.bytes)
        };
        tokio::task::spawn_blocking(work).await
    }
}

impl BodyRoom {
    pub fn new(
        limit: Limit,
        hint: &'static str,
        refuse: fn(StatusCode, String) -> Response,
    ) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            limit,
            least: LEAST_ROOM,
            room: Room::default(),
            turns: Arc::new(Semaphore::new(processors)),
            hint,
            refuse,
        }
    }

    /// Reads the body, or returns the response that refuses it.
    pub async fn read(&self, headers: &HeaderMap, body: Body) -> Result<BufferedBody, Response> {
        let announced = headers
            .get(header::CONTENT_LENGTH)
            .and_then(|value| value.to_str().ok())
            .and_then(|text| text.parse::<usize>().ok());
        if let Some(announced) = announced {
            self.room_for(announced)
                .map_err(|message| self.too_large(message))?;
        }
        let mut claim = self.room.enter();
        let bytes = self.arrived(body, &mut claim).await?;
        claim.whole().map_err(|given_up| self.no_room(given_up))?;
        let turn = if bytes.len() > SMALL {
            self.turns.clone().acquire_owned().await.ok()
        } else {
            None
        };
        Ok(BufferedBody {
            bytes: bytes.into(),
            _room: claim,
            _turn: turn,
        })
    }

    /// Collects the bytes as they arrive, as long as there is room for them.
    async fn arrived(&self, mut body: Body, claim: &mut Claim) -> Result<Vec<u8>, Response> {
        let mut bytes = Vec::new();
        loop {
            let frame = tokio::select! {
                frame = body.frame() => frame,
                () = claim.given_up() => return Err(self.no_room(GivenUp)),
            };
            let data = match frame {
                None => return Ok(bytes),
                Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
                Some(Err(error)) => return Err(self.unreadable(&error)),
            };
            let length = bytes.len() + data.len();
            let room = self.room_for(length);
            let room = room.map_err(|message| self.too_large(message))?;
            let grown = claim.grow(data.len(), room).await;
            grown.map_err(|given_up| self.no_room(given_up))?;
            let reserved = if length > SMALL && bytes.capacity() < ALWAYS_GIVEN_BACK {
                bytes.try_reserve_exact(ALWAYS_GIVEN_BACK.max(length) - bytes.len())
            } else {
                bytes.try_reserve(data.len())
            };
            reserved.map_err(|_no_memory| self.no_room(GivenUp))?;
            bytes.extend_from_slice(&data);
        }
    }

    /// The room for all bodies together, if a body may be this long; otherwise why it may not.
    fn room_for(&self, length: usize) -> Result<usize, String> {
        let largest = self.limit.for_length(length);
        if length > largest.bytes {
            return Err(format!(
                "the request body is larger than {largest}{}",
                self.hint
            ));
        }
        Ok(self
            .least
            .max(largest.bytes.saturating_mul(LARGEST_AT_ONCE)))
    }

    fn too_large(&self, message: String) -> Response {
        (self.refuse)(StatusCode::PAYLOAD_TOO_LARGE, message)
    }

    fn unreadable(&self, error: &axum::Error) -> Response {
        if let Some(late) = LateBody::behind(error) {
            return (self.refuse)(StatusCode::REQUEST_TIMEOUT, late.to_string());
        }
        let message = format!("the request body cannot be read: {error}");
        (self.refuse)(StatusCode::BAD_REQUEST, message)
    }

    fn no_room(&self, _: GivenUp) -> Response {
        let message = "there is no memory for more request bodies, and this one has been arriving for longest";
        (self.refuse)(StatusCode::SERVICE_UNAVAILABLE, message.to_owned())
    }
}

#[cfg(test)]
mod tests;
