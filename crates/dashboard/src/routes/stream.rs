//! The live stream: server-sent events, each with an id from which a viewer that was cut off can resume.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::{StreamExt, stream};
use serde::Deserialize;
use tokio_stream::wrappers::BroadcastStream;

use super::refuse;
use crate::Dashboard;
use crate::access::Access;
use crate::feed::{Beginning, Frame};

/// More viewers at once are refused.
const MOST_VIEWERS: usize = 500;
/// The stream of a viewer with a token ends after this time; the browser reconnects, and is checked again.
const CHECKED_AGAIN: Duration = Duration::from_mins(5);
/// How soon a browser reconnects when its stream has ended.
const COME_BACK: Duration = Duration::from_secs(1);
/// As good as for ever, for a stream.
const OPEN_END: Duration = Duration::from_hours(365 * 24);

#[derive(Debug, Deserialize)]
pub(super) struct From {
    /// The id of the snapshot that the viewer has.
    after: Option<String>,
}

pub(super) async fn stream(
    State(dashboard): State<Dashboard>,
    Query(From { after }): Query<From>,
    headers: HeaderMap,
) -> Response {
    if let Err(missing) = dashboard.0.model.read().ready() {
        return refuse(StatusCode::SERVICE_UNAVAILABLE, &missing);
    }
    if dashboard.0.feed.viewers() >= MOST_VIEWERS {
        let message = "too many live views are open; try again later";
        return refuse(StatusCode::SERVICE_UNAVAILABLE, message);
    }
    dashboard.look(false).await;
    let last = headers.get("last-event-id");
    let last = last.and_then(|id| id.to_str().ok()).or(after.as_deref());
    let (beginning, frames) = dashboard.0.feed.subscribe(last);
    let beginning = match beginning {
        Beginning::Snapshot(frame) => vec![event("snapshot", &frame)],
        Beginning::Frames(frames) => frames.iter().map(|frame| event("delta", frame)).collect(),
    };
    let again = dashboard.clone();
    let following = BroadcastStream::new(frames).map(move |frame| match frame {
        Ok(frame) => event("delta", &frame),
        // The viewer was too slow and has missed frames.
        Err(_) => event("snapshot", &again.0.feed.snapshot()),
    });
    let life = match dashboard.0.access {
        Access::Tokens(_) => CHECKED_AGAIN,
        Access::Open => OPEN_END,
    };
    let shutdown = dashboard.0.shutdown.clone();
    let events = stream::iter([Event::default().retry(COME_BACK)])
        .chain(stream::iter(beginning))
        .chain(following)
        .map(Ok::<Event, Infallible>)
        .take_until(async move {
            let _over = tokio::time::timeout(life, shutdown.cancelled()).await;
        });
    Sse::new(events)
        .keep_alive(KeepAlive::default())
        .into_response()
}

fn event(name: &str, frame: &Frame) -> Event {
    Event::default()
        .event(name)
        .id(&*frame.id)
        .data(&*frame.text)
}
