//! A watch as a list of changes that a test can step through.

use std::fmt::Debug;
use std::pin::Pin;

use anyhow::{Context, Result, bail};
use futures::{Stream, StreamExt};
use kube::api::{WatchEvent, WatchParams};
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::raw::Answer;
use crate::requests::Objects;
use crate::wait::DEADLINE;

/// An event of a watch.
#[derive(Debug)]
pub enum Change<K> {
    Added(K),
    Modified(K),
    Deleted(K),
    /// Everything up to this version has been sent; true at the end of the initial state.
    Bookmark(u64, bool),
    Error(Answer),
}

/// A watch to be started, then stepped through.
pub struct Watch<K> {
    objects: Objects<K>,
    params: WatchParams,
    from: u64,
    bookmarks: bool,
}

impl<K> Debug for Watch<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Watch from {}", self.from)
    }
}

impl<K> Watch<K> {
    pub fn of(objects: Objects<K>) -> Self {
        Self {
            objects,
            params: WatchParams::default(),
            from: 0,
            bookmarks: false,
        }
    }

    /// Shows only what comes after this version; by default the current state comes first.
    #[must_use]
    pub fn after(mut self, version: u64) -> Self {
        self.from = version;
        self
    }

    /// Shows only what comes after this moment.
    pub async fn from_now(self) -> Result<Self>
    where
        K: Resource + Clone + DeserializeOwned + Serialize + Debug,
    {
        let now = self.objects.version().await?;
        Ok(self.after(now))
    }

    #[must_use]
    pub fn labels(mut self, selector: &str) -> Self {
        self.params = self.params.labels(selector);
        self
    }

    #[must_use]
    pub fn fields(mut self, selector: &str) -> Self {
        self.params = self.params.fields(selector);
        self
    }

    #[must_use]
    pub fn timeout(mut self, seconds: u32) -> Self {
        self.params = self.params.timeout(seconds);
        self
    }

    /// Shows bookmarks, which are left out otherwise.
    #[must_use]
    pub fn bookmarks(mut self) -> Self {
        self.bookmarks = true;
        self
    }

    pub async fn start(self) -> Result<Changes<K>>
    where
        K: Clone + DeserializeOwned + Debug + Send + 'static,
    {
        let from = self.from.to_string();
        let stream = self.objects.api.watch(&self.params, &from).await;
        let stream = stream.context("cannot start the watch")?.boxed();
        Ok(Changes {
            stream,
            bookmarks: self.bookmarks,
        })
    }
}

/// A running watch.
pub struct Changes<K> {
    stream: Pin<Box<dyn Stream<Item = kube::Result<WatchEvent<K>>> + Send>>,
    bookmarks: bool,
}

impl<K> Debug for Changes<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Changes")
    }
}

impl<K: Resource> Changes<K> {
    /// The next change, or None when the server has ended the watch.
    pub async fn next(&mut self) -> Result<Option<Change<K>>> {
        loop {
            let Ok(event) = timeout(DEADLINE, self.stream.next()).await else {
                bail!("the watch said nothing for {DEADLINE:?}");
            };
            let change = match event {
                None => return Ok(None),
                Some(Ok(WatchEvent::Error(status)) | Err(kube::Error::Api(status))) => {
                    Change::Error((*status).into())
                }
                Some(Err(error)) => return Err(error).context("the watch broke"),
                Some(Ok(WatchEvent::Added(object))) => Change::Added(object),
                Some(Ok(WatchEvent::Modified(object))) => Change::Modified(object),
                Some(Ok(WatchEvent::Deleted(object))) => Change::Deleted(object),
                Some(Ok(WatchEvent::Bookmark(_))) if !self.bookmarks => continue,
                Some(Ok(WatchEvent::Bookmark(bookmark))) => {
                    let end = bookmark
                        .metadata
                        .annotations
                        .get("k8s.io/initial-events-end");
                    let complete = end.is_some_and(|value| value == "true");
                    Change::Bookmark(bookmark.metadata.resource_version.parse()?, complete)
                }
            };
            return Ok(Some(change));
        }
    }

    /// The next change, which must be one of an object, as `("ADDED", object)`.
    pub async fn object(&mut self) -> Result<(&'static str, K)> {
        match self.next().await? {
            Some(Change::Added(object)) => Ok(("ADDED", object)),
            Some(Change::Modified(object)) => Ok(("MODIFIED", object)),
            Some(Change::Deleted(object)) => Ok(("DELETED", object)),
            Some(Change::Bookmark(version, _)) => bail!("a bookmark at {version}, not a change"),
            Some(Change::Error(error)) => bail!("the watch said {error:?}"),
            None => bail!("the watch ended"),
        }
    }

    /// The next `count` changes as `ADDED name`, for comparing sequences.
    pub async fn take(&mut self, count: usize) -> Result<Vec<String>> {
        let mut seen = Vec::new();
        for _ in 0..count {
            let (kind, object) = self.object().await?;
            seen.push(format!("{kind} {}", object.name_any()));
        }
        Ok(seen)
    }
}
