//! Answers, and how long they wait for the client to read them.
//!
//! With HTTP/2 a client grants each answer a window of bytes, and without it nothing is written. So each piece of an
//! answer reports to the pulse since when it has been waiting, wherever hyper keeps it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use hyper::body::{Buf, Bytes, Frame, SizeHint};

use super::pulse::Busy;

/// An answer; its request ends when the client has taken all of it.
#[derive(Debug)]
pub(super) struct Answer {
    body: Body,
    busy: Arc<Busy>,
}

/// A part of an answer that was passed to hyper.
#[derive(Debug)]
pub(super) struct Piece {
    bytes: Bytes,
    /// Set until the client has taken all of it.
    untaken: Option<Untaken>,
}

#[derive(Debug)]
struct Untaken {
    busy: Arc<Busy>,
    number: u64,
}

impl Answer {
    pub(super) fn new(body: Body, busy: Busy) -> Self {
        Self {
            body,
            busy: Arc::new(busy),
        }
    }
}

impl HttpBody for Answer {
    type Data = Piece;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Piece>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        frame.map_ok(|frame| frame.map_data(|bytes| Piece::new(bytes, &self.busy)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Piece {
    fn new(bytes: Bytes, busy: &Arc<Busy>) -> Self {
        let untaken = bytes.has_remaining().then(|| Untaken {
            busy: busy.clone(),
            number: busy.pulse().waits(),
        });
        Self { bytes, untaken }
    }
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, taken: usize) {
        self.bytes.advance(taken);
        if !self.bytes.has_remaining() {
            self.untaken = None;
        } else if let (Some(untaken), 1..) = (&mut self.untaken, taken) {
            untaken.number = untaken.busy.pulse().took_some(untaken.number);
        }
    }
}

impl Drop for Untaken {
    fn drop(&mut self) {
        self.busy.pulse().waits_no_more(self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Wake, Waker};

    use axum::http::Version;
    use futures::FutureExt;
    use http_body_util::BodyExt;
    use tokio::time::Instant;

    use super::super::limits::Limits;
    use super::super::pulse::{Due, Pulse};
    use super::super::traffic::Slow;
    use super::*;

    #[test]
    fn a_piece_waits_until_it_is_taken_and_some_taken_is_a_new_beginning() {
        let pulse = Pulse::new();
        let due = || pulse.due(&Limits::STANDARD, &Context::from_waker(Waker::noop()));
        let mut answer = Answer::new(Body::from("some"), pulse.begin(Version::HTTP_2));
        assert_eq!(due(), None, "it is being made");

        let frame = answer.frame().now_or_never().unwrap().unwrap().unwrap();
        let mut piece = frame.into_data().unwrap();
        drop(answer);
        let (first, what) = due().unwrap();
        assert_eq!(what, Due::Cut(Slow::Write));
        let began = Instant::now();
        while Instant::now() == began {}
        piece.advance(0);
        assert_eq!(due(), Some((first, what)), "nothing was taken");
        piece.advance(1);
        let (second, what) = due().unwrap();
        assert_eq!(what, Due::Cut(Slow::Write));
        assert!(second > first);

        piece.advance(3);
        assert_eq!(due().unwrap().1, Due::Leave, "it has ended");
    }

    #[test]
    fn a_piece_that_is_dropped_does_not_wait() {
        let pulse = Pulse::new();
        let mut answer = Answer::new(Body::from("some"), pulse.begin(Version::HTTP_2));
        let frame = answer.frame().now_or_never().unwrap();
        drop((answer, frame));
        let due = pulse.due(&Limits::STANDARD, &Context::from_waker(Waker::noop()));
        assert_eq!(due.unwrap().1, Due::Leave);
    }

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// With HTTP/2, answers are produced in separate tasks.
    #[test]
    fn a_connection_is_woken_when_an_answer_beside_it_begins_to_wait_and_when_it_ends() {
        let (pulse, woken) = (Pulse::new(), Arc::new(Woken::default()));
        let mut answer = Answer::new(Body::from("some"), pulse.begin(Version::HTTP_2));
        let connection = Waker::from(woken.clone());
        let due = pulse.due(&Limits::STANDARD, &Context::from_waker(&connection));
        assert_eq!(due, None);
        let frame = answer.frame().now_or_never().unwrap();
        assert_eq!(woken.0.load(Ordering::SeqCst), 1);
        drop((answer, frame));
        assert_eq!(woken.0.load(Ordering::SeqCst), 2);
    }
}
