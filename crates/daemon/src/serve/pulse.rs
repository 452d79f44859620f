//! What a connection is doing right now, and until when it may.
//!
//! hyper's own deadline for headers also runs while a kept connection waits for its next request, so it cannot be
//! short. Here waiting and sending headers are told apart by whether bytes have come.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use axum::http::Version;
use hyper::body::{Bytes, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use super::limits::Limits;
use super::traffic::Slow;

/// One connection; clones are the same one.
#[derive(Clone, Debug)]
pub(super) struct Pulse(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    doing: Doing,
    /// With HTTP/2 bytes come also without requests.
    multiplexed: bool,
    /// Since when the client takes nothing of what is sent.
    stalled: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
enum Doing {
    /// The headers of a request are coming, or the first ones are waited for.
    Head(Instant),
    Idle(Instant),
    /// So many requests are being answered.
    Busy(usize),
}

/// What is due when nothing happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    Cut(Slow),
    /// It has waited for a request long enough.
    Leave,
    /// Look again: a request may have ended unnoticed.
    Look,
}

impl Pulse {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(State {
            doing: Doing::Head(Instant::now()),
            multiplexed: false,
            stalled: None,
        })))
    }

    /// A request has come whole but for its body; it ends when this is dropped.
    pub(super) fn begin(&self, version: Version) -> Busy {
        let mut state = self.0.lock();
        state.multiplexed |= version == Version::HTTP_2;
        state.doing = match state.doing {
            Doing::Busy(requests) => Doing::Busy(requests + 1),
            Doing::Head(_) | Doing::Idle(_) => Doing::Busy(1),
        };
        Busy(self.clone())
    }

    pub(super) fn due(&self, limits: &Limits) -> (Instant, Due) {
        let state = self.0.lock();
        let due = match state.doing {
            Doing::Head(since) => (since + limits.head, Due::Cut(Slow::Head)),
            Doing::Idle(since) => (since + limits.idle, Due::Leave),
            Doing::Busy(_) => (Instant::now() + limits.idle, Due::Look),
        };
        match state.stalled.map(|since| since + limits.stall) {
            Some(stalled) if stalled < due.0 => (stalled, Due::Cut(Slow::Write)),
            _ => due,
        }
    }

    fn heard(&self) {
        let mut state = self.0.lock();
        if let (Doing::Idle(_), false) = (state.doing, state.multiplexed) {
            state.doing = Doing::Head(Instant::now());
        }
    }

    fn sent<T>(&self, sent: &Poll<T>) {
        let stalled = &mut self.0.lock().stalled;
        match sent {
            Poll::Ready(_) => *stalled = None,
            Poll::Pending if stalled.is_none() => *stalled = Some(Instant::now()),
            Poll::Pending => {}
        }
    }
}

/// A request that is being answered.
#[derive(Debug)]
pub(super) struct Busy(Pulse);

impl Drop for Busy {
    fn drop(&mut self) {
        let mut state = self.0.0.lock();
        state.doing = match state.doing {
            Doing::Busy(requests) if requests > 1 => Doing::Busy(requests - 1),
            _ => Doing::Idle(Instant::now()),
        };
    }
}

/// An answer; its request has ended when it is written.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) body: Body,
    pub(super) _busy: Busy,
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A stream that tells the pulse of its bytes.
#[derive(Debug)]
pub(super) struct Felt<S> {
    pub(super) stream: S,
    pub(super) pulse: Pulse,
}

impl<S: AsyncRead + Unpin> AsyncRead for Felt<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            self.pulse.heard();
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Felt<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let sent = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.pulse.sent(&sent);
        sent
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let sent = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.pulse.sent(&sent);
        sent
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let sent = Pin::new(&mut self.stream).poll_flush(cx);
        self.pulse.sent(&sent);
        sent
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let sent = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.pulse.sent(&sent);
        sent
    }
}
