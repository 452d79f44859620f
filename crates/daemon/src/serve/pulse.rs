//! What a connection is doing right now, and for how long it may.
//!
//! hyper's own deadline for headers also runs while a kept connection waits for its next request, so it cannot be
//! short. Here the arrival of bytes distinguishes a client that sends headers from an idle one.

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

/// The state of one connection; clones share it.
#[derive(Clone, Debug)]
pub(super) struct Pulse(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    doing: Doing,
    /// HTTP/2, where bytes also arrive without requests.
    multiplexed: bool,
    /// Since when the client has taken none of the bytes that are sent.
    stalled: Option<Instant>,
    /// Since when each piece of an answer has been waiting for the client to take some of it. A piece gets a new number
    /// whenever the client takes some, so the first entry has waited longest.
    untaken: BTreeMap<u64, Instant>,
    last_number: u64,
    /// With HTTP/2 answers are produced in other tasks, which wake the connection when they change what is due.
    connection: Waker,
}

#[derive(Clone, Copy, Debug)]
enum Doing {
    /// The headers of a request are arriving, or the first ones have not begun to arrive.
    Head(Instant),
    Idle(Instant),
    /// The number of requests that are being answered.
    Busy(usize),
}

/// What to do at the deadline if nothing happens before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    Cut(Slow),
    /// It has been idle for too long.
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

    /// The headers of a request have arrived; the request ends when the returned value is dropped.
    pub(super) fn begin(&self, version: Version) -> Busy {
        let mut state = self.0.lock();
        state.multiplexed |= version == Version::HTTP_2;
        state.doing = match state.doing {
            Doing::Busy(requests) => Doing::Busy(requests + 1),
            Doing::Head(_) | Doing::Idle(_) => Doing::Busy(1),
        };
        Busy(self.clone())
    }

    /// The next deadline and what is due then; the connection is woken when another task changes it.
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

    /// A piece of an answer begins to wait for the client; returns the number under which it waits.
    pub(super) fn waits(&self) -> u64 {
        let mut state = self.0.lock();
        if state.untaken.is_empty() {
            state.wake();
        }
        state.note_wait()
    }

    /// The client took some of the piece; the rest waits under the number that is returned.
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
            // Part of a next request may already be in hyper's buffer, where we cannot see it: it gets the idle time,
            // and from its next byte on the time for headers.
            state.doing = Doing::Idle(Instant::now());
            state.wake();
        }
    }
}

/// A stream that reports its reads and writes to the pulse.
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
