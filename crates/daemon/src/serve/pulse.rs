//! What a connection is doing right now, and until when it may.
//!
//! hyper's own deadline for headers also runs while a kept connection waits for its next request, so it cannot be
//! short. Here waiting and sending headers are told apart by whether bytes have come.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use axum::http::Version;
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
    /// Since when each piece of an answer waits for the client to take some of it. A number is new whenever it takes
    /// some, so the first one has waited for longest.
    untaken: BTreeMap<u64, Instant>,
    last_number: u64,
    /// With HTTP/2 answers are made beside the connection: it has to look when they change what is due.
    connection: Waker,
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
}

impl Pulse {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(State {
            doing: Doing::Head(Instant::now()),
            multiplexed: false,
            stalled: None,
            untaken: BTreeMap::new(),
            last_number: 0,
            connection: Waker::noop().clone(),
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

    /// What is due first, and when; the connection is woken when another task changes it.
    pub(super) fn due(&self, limits: &Limits, cx: &Context<'_>) -> Option<(Instant, Due)> {
        let mut state = self.0.lock();
        state.connection.clone_from(cx.waker());
        let doing = match state.doing {
            Doing::Head(since) => Some((since + limits.head, Due::Cut(Slow::Head))),
            Doing::Idle(since) => Some((since + limits.idle, Due::Leave)),
            Doing::Busy(_) => None,
        };
        let longest = state.untaken.values().next().copied();
        let not_taken = [state.stalled, longest]
            .into_iter()
            .flatten()
            .map(|since| (since + limits.stall, Due::Cut(Slow::Write)));
        doing.into_iter().chain(not_taken).min_by_key(|(at, _)| *at)
    }

    /// A piece of an answer waits for the client from now on, under the number that is returned.
    pub(super) fn waits(&self) -> u64 {
        let mut state = self.0.lock();
        if state.untaken.is_empty() {
            state.wake();
        }
        state.note_wait()
    }

    /// The client took some of the piece; it waits for the rest under another number.
    pub(super) fn took_some(&self, number: u64) -> u64 {
        let mut state = self.0.lock();
        state.untaken.remove(&number);
        state.note_wait()
    }

    /// The piece waits no more.
    pub(super) fn waits_no_more(&self, number: u64) {
        self.0.lock().untaken.remove(&number);
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

impl State {
    fn note_wait(&mut self) -> u64 {
        self.last_number += 1;
        self.untaken.insert(self.last_number, Instant::now());
        self.last_number
    }

    fn wake(&self) {
        if self.multiplexed {
            self.connection.wake_by_ref();
        }
    }
}

/// A request that is being answered.
#[derive(Debug)]
pub(super) struct Busy(Pulse);

impl Busy {
    pub(super) fn pulse(&self) -> &Pulse {
        &self.0
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let mut state = self.0.0.lock();
        if let Doing::Busy(requests @ 2..) = state.doing {
            state.doing = Doing::Busy(requests - 1);
        } else {
            // What may have come already of a next request is in hyper's buffer, unseen: it has as long as an idle
            // connection, and the time for headers from its next byte.
            state.doing = Doing::Idle(Instant::now());
            state.wake();
        }
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
