//! A watch as a response body: first the existing objects, then events as they happen with bookmarks in between, and
//! an end.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use http_body_util::{BodyExt, StreamBody};
use hyper::Response;
use hyper::body::Frame;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use super::options::WatchOptions;
use super::reply::{Body, Cut};
use crate::failure::Failure;
use crate::json::Path;
use crate::registry::{Registry, ServedResource};
use crate::store::{Start, TableId, Watch};
use crate::table::{self as tables, Include};
use crate::watch::{Delivery, Subscription, View, event_line, initial_line};

/// How long before its end a watch gets a last bookmark, to resume from.
const PARTING: Duration = Duration::from_secs(2);
/// Waiting events are sent together, up to this many.
const BATCH: usize = 64;

/// A running watch.
struct Stream {
    registry: Arc<Registry>,
    kind: &'static str,
    api_version: String,
    view: Option<View>,
    waiting: VecDeque<Bytes>,
    subscription: Subscription,
    bookmarks: Option<Duration>,
    next_bookmark: Instant,
    table: TableId,
    /// The client knows everything up to this version.
    told: u64,
    deadline: Instant,
}

/// The response to a watch that has begun.
pub(crate) fn watch_reply(
    registry: Arc<Registry>,
    served: &ServedResource,
    watch: Watch,
    options: &WatchOptions,
    bookmark_interval: Duration,
    table: Option<Include>,
) -> Response<Body> {
    let now = Instant::now();
    let view = view(served, table);
    let told = known(&watch, options.start);
    let mut stream = Stream {
        registry,
        kind: served.resource.kind,
        api_version: served.resource.api_version(),
        view,
        waiting: VecDeque::new(),
        subscription: watch.subscription,
        bookmarks: options.bookmarks.then_some(bookmark_interval),
        next_bookmark: now,
        table: served.table,
        told,
        deadline: now + options.timeout,
    };
    stream.waiting.extend(
        watch
            .present
            .iter()
            .map(|object| initial_line(object, stream.view.as_ref())),
    );
    stream
        .waiting
        .extend(watch.missed.iter().map(|d| d.line(stream.view.as_ref())));
    if options.announce_initial {
        let end = stream.bookmark(watch.version, true);
        stream.waiting.push_back(end);
    }
    stream.schedule_bookmark(now);
    stream_reply(futures::stream::unfold(stream, |mut stream| async {
        let frame = stream.next().await?;
        Some((frame, stream))
    }))
}

/// What the reader gets instead of the stored object: a table, or the API version that it asked for.
fn view(served: &ServedResource, table: Option<Include>) -> Option<View> {
    let Some(include) = table else {
        let read = served.view?.read;
        return Some(Arc::new(read));
    };
    let resource = served.resource.clone();
    Some(Arc::new(move |object: &Value| {
        let version = json!({"resourceVersion": object.text("metadata.resourceVersion")});
        let now = Timestamp::now();
        tables::table(&resource, std::iter::once(object), &version, include, now)
    }))
}

/// The version up to which the client knows everything after the initial data.
fn known(watch: &Watch, start: Start) -> u64 {
    match start {
        Start::Now | Start::Next => watch.version,
        Start::After(version) => watch.missed.last().map_or(version, Delivery::version),
    }
}

/// Reports a watch that could not begin in the stream, where watchers expect it.
pub(crate) fn failed_watch_reply(failure: &Failure) -> Response<Body> {
    let line = event_line("ERROR", failure.status().to_string().as_bytes());
    stream_reply(futures::stream::iter([Ok(Frame::data(line))]))
}

fn stream_reply(
    frames: impl futures::Stream<Item = Result<Frame<Bytes>, Cut>> + Send + 'static,
) -> Response<Body> {
    let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

impl Stream {
    async fn next(&mut self) -> Option<Result<Frame<Bytes>, Cut>> {
        loop {
            if let Some(frame) = self.send_waiting() {
                return Some(Ok(frame));
            }
            let bookmark_due = async {
                match self.bookmarks {
                    Some(_) => sleep_until(self.next_bookmark).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                delivery = self.subscription.queue.recv() => match delivery {
                    Some(delivery) => self.take(&delivery),
                    None if self.subscription.was_severed() => return Some(Err(Cut)),
                    None => return None,
                },
                () = sleep_until(self.deadline) => return None,
                () = bookmark_due => self.add_bookmark(),
            }
            self.drain_queue(BATCH);
        }
    }

    /// Sends the client the current version, if there were writes that its selection leaves out.
    fn add_bookmark(&mut self) {
        let version = self.registry.store().table_version(self.table);
        // Every event up to this version is already in the queue and must be sent before the bookmark.
        self.drain_queue(usize::MAX);
        if version > self.told {
            let bookmark = self.bookmark(version, false);
            self.waiting.push_back(bookmark);
            self.told = version;
        }
        self.schedule_bookmark(Instant::now());
    }

    fn drain_queue(&mut self, limit: usize) {
        for _ in 0..limit {
            let Ok(delivery) = self.subscription.queue.try_recv() else {
                break;
            };
            self.take(&delivery);
        }
    }

    fn take(&mut self, delivery: &Delivery) {
        self.told = delivery.version();
        self.waiting.push_back(delivery.line(self.view.as_ref()));
    }

    fn send_waiting(&mut self) -> Option<Frame<Bytes>> {
        let count = self.waiting.len().min(BATCH);
        let mut lines = self.waiting.drain(..count);
        let first = lines.next()?;
        let rest: Vec<Bytes> = lines.collect();
        if rest.is_empty() {
            return Some(Frame::data(first));
        }
        let size = first.len() + rest.iter().map(Bytes::len).sum::<usize>();
        let mut together = BytesMut::with_capacity(size);
        together.put(first);
        for line in rest {
            together.put(line);
        }
        Some(Frame::data(together.freeze()))
    }

    fn bookmark(&self, version: u64, ends_initial: bool) -> Bytes {
        let mut metadata = json!({ "resourceVersion": version.to_string() });
        if ends_initial && let Value::Object(map) = &mut metadata {
            let mark = json!({"k8s.io/initial-events-end": "true"});
            map.insert("annotations".to_owned(), mark);
        }
        let object =
            json!({"kind": self.kind, "apiVersion": self.api_version, "metadata": metadata});
        event_line("BOOKMARK", object.to_string().as_bytes())
    }

    fn schedule_bookmark(&mut self, now: Instant) {
        let Some(interval) = self.bookmarks else {
            return;
        };
        let regular = now + interval;
        let parting = self
            .deadline
            .checked_sub(PARTING)
            .filter(|parting| *parting > now);
        self.next_bookmark = parting.map_or(regular, |parting| parting.min(regular));
    }
}
