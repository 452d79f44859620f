use std::convert::Infallible;

use axum::response::IntoResponse;
use futures::FutureExt;
use futures::stream::{self, StreamExt};

use super::*;

const LIMIT: usize = 1000;

fn room() -> BodyRoom {
    let refuse = |status: StatusCode, message: String| (status, message).into_response();
    BodyRoom {
        least: 4 * LIMIT,
        ..BodyRoom::new(Limit::Fixed(LIMIT), "", refuse)
    }
}

fn body(bytes: usize) -> Body {
    Body::from(vec![b' '; bytes])
}

fn never_ending(bytes: usize) -> Body {
    let begun = Bytes::from(vec![b' '; bytes]);
    Body::from_stream(stream::iter([Ok::<_, Infallible>(begun)]).chain(stream::pending()))
}

/// The status that the reader has returned so far, if any.
fn read(
    reading: &mut (impl Future<Output = Result<BufferedBody, Response>> + Unpin),
) -> Option<StatusCode> {
    let read = reading.now_or_never()?;
    Some(read.map_or_else(|refusal| refusal.status(), |_held| StatusCode::OK))
}

/// The status of the reader after the bodies that were given up for it are gone.
fn read_among<R>(open: &mut Vec<R>, reading: &mut R) -> Option<StatusCode>
where
    R: Future<Output = Result<BufferedBody, Response>> + Unpin,
{
    let at_once = read(reading);
    open.retain_mut(|earlier| read(earlier) != Some(StatusCode::SERVICE_UNAVAILABLE));
    at_once.or_else(|| read(reading))
}

#[test]
fn however_many_bodies_never_end_their_bytes_are_bounded_and_others_are_read() {
    let (room, none) = (room(), HeaderMap::new());
    let mut open = Vec::new();
    for _ in 0..50 {
        for _ in 0..2 {
            let mut reading = Box::pin(room.read(&none, never_ending(900)));
            assert_eq!(read_among(&mut open, &mut reading), None, "it never ends");
            open.push(reading);
            assert!(room.room.used() <= 4 * LIMIT, "{}", room.room.used());
        }
        // There is no room for it next to four bodies that never end.
        let mut ordinary = Box::pin(room.read(&none, body(500)));
        assert_eq!(read_among(&mut open, &mut ordinary), Some(StatusCode::OK));
    }
    assert_eq!(open.len(), 3, "no more were given up than had to be");
    drop(open);
    assert_eq!(room.room.used(), 0);
}

#[test]
fn what_is_announced_and_does_not_come_takes_no_room() {
    let room = room();
    let announced = HeaderMap::from_iter([(header::CONTENT_LENGTH, LIMIT.into())]);
    let mut open: Vec<_> = (0..100)
        .map(|_| Box::pin(room.read(&announced, never_ending(1))))
        .collect();
    assert!(open.iter_mut().all(|reading| read(reading).is_none()));
    assert_eq!(room.room.used(), 100);
}

#[test]
fn a_body_past_the_limit_is_refused_whether_it_is_announced_or_not() {
    let room = room();
    let announced = HeaderMap::from_iter([(header::CONTENT_LENGTH, (LIMIT + 1).into())]);
    for headers in [announced, HeaderMap::new()] {
        let mut reading = Box::pin(room.read(&headers, body(LIMIT + 1)));
        assert_eq!(read(&mut reading), Some(StatusCode::PAYLOAD_TOO_LARGE));
    }
    let none = HeaderMap::new();
    let mut reading = Box::pin(room.read(&none, body(LIMIT)));
    assert_eq!(read(&mut reading), Some(StatusCode::OK));
    drop(reading);
    assert_eq!(room.room.used(), 0);
}
