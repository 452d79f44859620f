//! Request bodies, with a deadline for the whole body: a trickle of bytes does not extend it.

use std::error::Error;
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::BoxError;
use axum::body::HttpBody;
use hyper::body::{Bytes, Frame, Incoming, SizeHint};
use tokio::time::{Instant, Sleep};

use super::traffic::{Slow, Traffic};

/// A request's body did not arrive in time.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("the request body did not arrive within {0:?}")]
pub struct LateBody(pub Duration);

impl LateBody {
    /// The late body that caused this error, if it did.
    pub fn behind(error: &(dyn Error + 'static)) -> Option<Self> {
        let mut cause = Some(error);
        while let Some(error) = cause {
            if let Some(late) = error.downcast_ref::<Self>() {
                return Some(*late);
            }
            cause = error.source();
        }
        None
    }
}

#[derive(Debug)]
pub(super) struct Timely {
    body: Incoming,
    began: Instant,
    allowed: Duration,
    /// Created when the body is first waited for.
    alarm: Option<Pin<Box<Sleep>>>,
    traffic: Traffic,
    client: IpAddr,
}

impl Timely {
    pub(super) fn new(body: Incoming, allowed: Duration, traffic: Traffic, client: IpAddr) -> Self {
        Self {
            body,
            began: Instant::now(),
            allowed,
            alarm: None,
            traffic,
            client,
        }
    }
}

impl HttpBody for Timely {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            return Poll::Ready(frame.map(|frame| frame.map_err(BoxError::from)));
        }
        let due = self.began + self.allowed;
        let alarm = self
            .alarm
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due)));
        ready!(alarm.as_mut().poll(cx));
        self.traffic.cut(Slow::Body, self.client);
        Poll::Ready(Some(Err(Box::new(LateBody(self.allowed)))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
