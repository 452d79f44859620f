//! Watches: each object as it changes, handed to a synchronous index.
//!
//! Objects become compact values before they are kept anywhere, even while a list is still arriving.
//! Lists are consistent reads: everything that any client saw before the list began is in it. kube's
//! watcher resumes a broken watch with backoff; nothing is polled.

use std::fmt::Debug;
use std::pin::pin;

use futures::{Stream, StreamExt};
use gpushare_daemon::Tasks;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, ListSemantic, watcher};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

/// What can be watched: any kind whose objects can be decoded.
pub trait Kind:
    Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static
{
}

impl<K> Kind for K where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static
{
}

/// Receives the objects of a watch. Calls come one at a time and must not block.
pub trait Index<K> {
    /// What is kept of an object.
    type Value;

    /// Reduces an object. Called without any lock held.
    fn reduce(&self, object: &K) -> Self::Value;

    fn apply(&self, value: Self::Value);

    fn delete(&self, value: Self::Value);

    /// A complete list: what is not in it is gone.
    fn replace(&self, values: Vec<Self::Value>);

    /// The watch failed and will be resumed.
    fn interrupted(&self, error: &watcher::Error);
}

/// Which objects of a kind are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which<'a> {
    All,
    /// Those that match a field selector, such as `spec.nodeName=n1`.
    Fields(&'a str),
    /// Those that match a label selector, such as `pool=train`.
    Labels(&'a str),
}

/// Follows objects of a kind into the index, for ever.
pub async fn follow<K: Kind, I: Index<K>>(api: Api<K>, which: Which<'_>, index: &I) {
    let mut events = pin!(events(api, which));
    feed(&mut events, index, Until::TheEnd).await;
}

/// Follows all objects of a kind into the index, as a service of the process.
pub fn follow_all<K: Kind>(
    client: &Client,
    tasks: &Tasks,
    name: &'static str,
    index: impl Index<K, Value: Send> + Send + Sync + 'static,
) {
    let api = Api::<K>::all(client.clone());
    tasks.endless(name, async move {
        follow(api, Which::All, &index).await;
    });
}

/// Like [`follow`] with all objects, but lists everything again for each order.
///
/// Such a list shows the effects of writes that others began before the order and that have taken effect
/// since. `listed` is called with the order once the index has the list; a new order that arrives before
/// then replaces it.
pub async fn follow_relisting<K, I, O>(
    api: Api<K>,
    index: &I,
    mut orders: impl Stream<Item = O> + Unpin,
    mut listed: impl FnMut(O),
) where
    K: Kind,
    I: Index<K>,
{
    let mut order = None;
    loop {
        let mut events = pin!(events(api.clone(), Which::All));
        let following = async {
            feed(&mut events, index, Until::Listed).await;
            if let Some(order) = order.take() {
                listed(order);
            }
            feed(&mut events, index, Until::TheEnd).await;
        };
        order = tokio::select! {
            Some(next) = orders.next() => Some(next),
            () = following => None,
        };
    }
}

fn events<K: Kind>(
    api: Api<K>,
    which: Which<'_>,
) -> impl Stream<Item = watcher::Result<Event<K>>> + Send + use<K> {
    let config = watcher::Config::default().list_semantic(ListSemantic::MostRecent);
    let config = match which {
        Which::All => config,
        Which::Fields(selector) => config.fields(selector),
        Which::Labels(selector) => config.labels(selector),
    };
    watcher(api, config).default_backoff()
}

/// Whether the API server does not know the kind at all.
pub fn not_served(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status)) => status.code == 404,
        _ => false,
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    Listed,
    TheEnd,
}

async fn feed<K, I: Index<K>>(
    events: &mut (impl Stream<Item = watcher::Result<Event<K>>> + Unpin),
    index: &I,
    until: Until,
) {
    let mut listing = Vec::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Apply(object)) => index.apply(index.reduce(&object)),
            Ok(Event::Delete(object)) => index.delete(index.reduce(&object)),
            Ok(Event::Init) => listing.clear(),
            Ok(Event::InitApply(object)) => listing.push(index.reduce(&object)),
            Ok(Event::InitDone) => {
                index.replace(std::mem::take(&mut listing));
                if until == Until::Listed {
                    return;
                }
            }
            Err(error) => index.interrupted(&error),
        }
    }
}

#[cfg(test)]
mod tests;
