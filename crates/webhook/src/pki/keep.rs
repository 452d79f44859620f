//! Keeps the certificates up to date: watches the Secret and the configurations, and does what the plan says.
//!
//! One loop does everything in sequence. Replicas need no leader: the Secret is written only if no other
//! replica has written it meanwhile, and all publish the same.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use gpushare_daemon::Tasks;
use gpushare_daemon::tls::Slot;
use gpushare_kube::document::{Document, Place, Secret, WriteError};
use gpushare_kube::trust::{
    self, Configuration, MutatingWebhookConfiguration, Trust, ValidatingWebhookConfiguration,
};
use gpushare_kube::watch::{Index, Which, follow};
use jiff::Timestamp;
use kube::runtime::watcher;
use kube::{Api, Client};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::plan::{self, CertificateSpec, PublicationTimes};
use super::{Lifetimes, Pki};

/// The entry of the Secret that holds everything.
const ENTRY: &str = "pki.json";
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
const SHORTEST_PAUSE: Duration = Duration::from_millis(250);

/// What the operator has configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub namespace: String,
    pub secret: String,
    /// The name of the webhook configurations, of either kind, that trust these certificates.
    pub configuration: String,
    /// The names by which the API server calls us.
    pub names: Vec<String>,
    pub lifetimes: Lifetimes,
}

/// Clones share the same keeper.
#[derive(Clone)]
pub(crate) struct Keeper(Arc<Inner>);

struct Inner {
    client: Client,
    place: Place,
    configuration: String,
    spec: CertificateSpec,
    slot: Slot,
    seen: Mutex<Seen>,
    changed: Notify,
}

/// What the watches have shown.
#[derive(Default)]
struct Seen {
    stored: Stored,
    mutating: Option<BTreeMap<String, Trust>>,
    validating: Option<BTreeMap<String, Trust>>,
    /// Since when each authority is published, by our own clock and since our own start.
    published: PublicationTimes,
    /// The certificate that is presented.
    shown: String,
}

/// The Secret.
#[derive(Clone, Default)]
enum Stored {
    /// Not listed yet.
    #[default]
    Unknown,
    Absent,
    Here(Document),
}

/// What to do: decided under the lock and done without it.
#[derive(Default)]
struct Todo {
    write: Option<(Option<Document>, Pki)>,
    mutating: Vec<(Trust, String)>,
    validating: Vec<(Trust, String)>,
}

impl Keeper {
    pub(crate) fn new(settings: Settings, client: Client, slot: Slot) -> Self {
        let Settings {
            namespace,
            secret,
            configuration,
            names,
            lifetimes,
        } = settings;
        Self(Arc::new(Inner {
            client,
            place: Place {
                namespace,
                name: secret,
                entry: ENTRY,
            },
            configuration,
            spec: CertificateSpec { names, lifetimes },
            slot,
            seen: Mutex::default(),
            changed: Notify::new(),
        }))
    }

    /// Watches and renews as services of the process.
    pub(crate) fn start(&self, tasks: &Tasks) {
        let Inner {
            client,
            place,
            configuration,
            ..
        } = &*self.0;
        let selector = |name: &str| format!("metadata.name={name}");
        let one = |name: &str| (self.clone(), selector(name));
        let (keeper, fields) = one(&place.name);
        let secrets = place.api(client);
        tasks.endless("the watch of the Secret", async move {
            follow(secrets, Which::Fields(&fields), &Secrets(&keeper)).await;
        });
        let (keeper, fields) = one(configuration);
        let api: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
        tasks.endless("the watch of the mutating configuration", async move {
            let index = Configurations(&keeper, |seen| &mut seen.mutating);
            follow(api, Which::Fields(&fields), &index).await;
        });
        let (keeper, fields) = one(configuration);
        let api: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
        tasks.endless("the watch of the validating configuration", async move {
            let index = Configurations(&keeper, |seen| &mut seen.validating);
            follow(api, Which::Fields(&fields), &index).await;
        });
        let keeper = self.clone();
        tasks.endless("the certificates", async move {
            keeper.keep().await;
        });
    }

    /// Whether API servers can call us: there is a certificate, and they trust it.
    pub(crate) fn ready(&self) -> Result<(), String> {
        let seen = self.0.seen.lock();
        let Some(pki) = seen.pki() else {
            return Err("there is no certificate yet".to_owned());
        };
        let authority = pki.serving.as_ref().map(|serving| &serving.authority);
        match authority {
            _ if self.0.slot.is_empty() => Err("there is no certificate yet".to_owned()),
            Some(authority) if seen.published.contains_key(authority) => Ok(()),
            _ => Err("the caBundle of the webhook configurations is not written yet".to_owned()),
        }
    }

    async fn keep(&self) {
        let overlap = self.0.spec.lifetimes.overlap;
        let pause = (overlap / 4).clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
        loop {
            let todo = self.look(Timestamp::now().as_second());
            if !self.act(todo).await {
                let _or_in_a_while = tokio::time::timeout(pause, self.0.changed.notified()).await;
            }
        }
    }

    /// Compares the actual state with the desired one.
    fn look(&self, now: i64) -> Todo {
        let mut seen = self.0.seen.lock();
        let before = match &seen.stored {
            Stored::Unknown => return Todo::default(),
            Stored::Absent => None,
            Stored::Here(document) => Some(document.clone()),
        };
        let pki = seen.pki().unwrap_or_default();
        self.show(&pki, &mut seen);
        seen.note_published(&pki, now);
        let mut next = pki.clone();
        while let Some(step) = plan::next(&next, &self.0.spec, &seen.published, now) {
            match next.clone().after(&step, &self.0.spec, now) {
                Ok(after) => next = after,
                Err(error) => {
                    tracing::error!(%error, ?step, "the certificates cannot be renewed");
                    break;
                }
            }
        }
        if next != pki {
            return Todo {
                write: Some((before, next)),
                ..Todo::default()
            };
        }
        let bundle = pki.bundle();
        let outdated = |trusts: &Option<BTreeMap<String, Trust>>| {
            let all = trusts.iter().flat_map(BTreeMap::values);
            let outdated = all.filter(|trust| !trust.is(&bundle));
            outdated
                .map(|trust| (trust.clone(), bundle.clone()))
                .collect()
        };
        Todo {
            write: None,
            mutating: outdated(&seen.mutating),
            validating: outdated(&seen.validating),
        }
    }

    fn show(&self, pki: &Pki, seen: &mut Seen) {
        let Some(serving) = &pki.serving else {
            return;
        };
        if seen.shown == serving.certificate {
            return;
        }
        match self.0.slot.put(&serving.certificate, &serving.key) {
            Ok(()) => {
                tracing::info!(
                    authority = serving.authority,
                    expires = serving.expires,
                    "new certificate"
                );
                seen.shown.clone_from(&serving.certificate);
            }
            Err(error) => tracing::error!(%error, "keeping the old certificate"),
        }
    }

    /// Returns whether something was done, so that there may be more to do.
    async fn act(&self, todo: Todo) -> bool {
        let mut acted = false;
        if let Some((document, pki)) = todo.write {
            acted |= self.write(document.as_ref(), &pki).await;
        }
        for (trust, bundle) in todo.mutating {
            let published = self.publish::<MutatingWebhookConfiguration>(&trust, &bundle, |seen| {
                &mut seen.mutating
            });
            acted |= published.await;
        }
        for (trust, bundle) in todo.validating {
            let published =
                self.publish::<ValidatingWebhookConfiguration>(&trust, &bundle, |seen| {
                    &mut seen.validating
                });
            acted |= published.await;
        }
        acted
    }

    async fn write(&self, document: Option<&Document>, pki: &Pki) -> bool {
        let content = match serde_json::to_vec(pki) {
            Ok(content) => content,
            Err(error) => {
                tracing::error!(%error, "the certificates cannot be written");
                return false;
            }
        };
        let Inner { client, place, .. } = &*self.0;
        match place.write(client, document, content).await {
            Ok(document) => {
                self.0.seen.lock().stored = Stored::Here(document);
                true
            }
            Err(error @ WriteError::Overtaken { .. }) => {
                tracing::debug!(%error, "reading it again");
                false
            }
            Err(error) => {
                tracing::warn!(%error, "the certificates could not be stored; trying again");
                false
            }
        }
    }

    async fn publish<K: Configuration>(
        &self,
        seen: &Trust,
        bundle: &str,
        place: fn(&mut Seen) -> &mut Option<BTreeMap<String, Trust>>,
    ) -> bool {
        match trust::publish::<K>(&self.0.client, seen, bundle).await {
            Ok(trust) => {
                tracing::info!(configuration = trust.name, "the caBundle is written");
                let mut seen = self.0.seen.lock();
                place(&mut seen)
                    .get_or_insert_default()
                    .insert(trust.name.clone(), trust);
                true
            }
            Err(error) => {
                let configuration = &seen.name;
                tracing::warn!(%error, configuration, "the caBundle could not be written; trying again");
                false
            }
        }
    }
}

impl Seen {
    fn pki(&self) -> Option<Pki> {
        let Stored::Here(document) = &self.stored else {
            return None;
        };
        let parsed = serde_json::from_slice(document.content.as_deref()?);
        parsed
            .inspect_err(|error| {
                tracing::error!(%error, "the Secret holds no certificates that can be read; making new ones");
            })
            .ok()
    }

    fn note_published(&mut self, pki: &Pki, now: i64) {
        let (Some(mutating), Some(validating)) = (&self.mutating, &self.validating) else {
            return;
        };
        let believed = |certificate: &str| {
            let mut trusts = mutating.values().chain(validating.values());
            trusts.all(|trust| trust.includes(certificate))
        };
        let mut published = PublicationTimes::new();
        for authority in &pki.authorities {
            if believed(&authority.certificate) {
                let since = self.published.get(&authority.name).copied().unwrap_or(now);
                published.insert(authority.name.clone(), since);
            }
        }
        self.published = published;
    }
}

/// Receives what the watch of the Secret shows.
struct Secrets<'a>(&'a Keeper);

impl Secrets<'_> {
    fn set(&self, stored: Stored) {
        self.0.0.seen.lock().stored = stored;
        self.0.0.changed.notify_one();
    }
}

impl Index<Secret> for Secrets<'_> {
    type Value = Document;

    fn reduce(&self, secret: &Secret) -> Document {
        self.0.0.place.read(secret)
    }

    fn apply(&self, document: Document) {
        self.set(Stored::Here(document));
    }

    fn delete(&self, _gone: Document) {
        self.set(Stored::Absent);
    }

    fn replace(&self, documents: Vec<Document>) {
        let first = documents.into_iter().next();
        self.set(first.map_or(Stored::Absent, Stored::Here));
    }

    fn interrupted(&self, error: &watcher::Error) {
        tracing::warn!(%error, "the watch of the Secret was interrupted; taking it up again");
    }
}

/// Receives what the watches of the configurations show.
struct Configurations<'a>(
    &'a Keeper,
    fn(&mut Seen) -> &mut Option<BTreeMap<String, Trust>>,
);

impl Configurations<'_> {
    fn change(&self, change: impl FnOnce(&mut BTreeMap<String, Trust>)) {
        let Self(keeper, place) = self;
        change(place(&mut keeper.0.seen.lock()).get_or_insert_default());
        keeper.0.changed.notify_one();
    }
}

impl<K: Configuration> Index<K> for Configurations<'_> {
    type Value = Trust;

    fn reduce(&self, configuration: &K) -> Trust {
        Trust::of(configuration)
    }

    fn apply(&self, trust: Trust) {
        self.change(|all| {
            all.insert(trust.name.clone(), trust);
        });
    }

    fn delete(&self, trust: Trust) {
        self.change(|all| {
            all.remove(&trust.name);
        });
    }

    fn replace(&self, trusts: Vec<Trust>) {
        self.change(|all| {
            *all = trusts
                .into_iter()
                .map(|trust| (trust.name.clone(), trust))
                .collect();
        });
    }

    fn interrupted(&self, error: &watcher::Error) {
        tracing::warn!(%error, "the watch of a webhook configuration was interrupted; taking it up again");
    }
}
