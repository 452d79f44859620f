//! Bind: reserve in memory, one POST, settle.

use std::collections::BTreeMap;

use gpushare_books::Reservation;
use gpushare_core::{PodAsk, Why, names};
use gpushare_kube::bind::{Answer, Bind, Outcome};
use gpushare_kube::call::CallError;
use thiserror::Error;

use super::Extender;
use super::wire::BindingArgs;
use gpushare_kube::PodRef;

/// How often a request about one pod is sent at most, if other clients keep changing the pod.
pub(super) const MOST_SENDS: usize = 4;

#[derive(Debug, Error)]
pub(super) enum BindError {
    #[error("{0}")]
    Why(Why),
    #[error("{0}")]
    NotReady(String),
    #[error("the request is invalid: {0}")]
    Invalid(String),
    #[error("the pod no longer exists")]
    Gone,
    #[error("node {0} does not exist")]
    NoNode(String),
    #[error(transparent)]
    Look(#[from] CallError),
    #[error("{0}")]
    Refused(String),
    #[error("the pod was changed while it was being bound: {0}")]
    Stale(String),
    #[error("{0}")]
    Overtaken(String),
    #[error("whether the bind took effect is not known yet: {0}")]
    Unknown(String),
}

impl BindError {
    fn unless_bound(outcome: Outcome) -> Result<(), Self> {
        match outcome {
            Outcome::Bound => Ok(()),
            Outcome::Refused(message) => Err(Self::Refused(message)),
            Outcome::Stale(message) => Err(Self::Stale(message)),
            Outcome::Overtaken(message) => Err(Self::Overtaken(message)),
            Outcome::Unknown(message) => Err(Self::Unknown(message)),
        }
    }

    /// For counting.
    pub(super) fn label(&self) -> &'static str {
        match self {
            Self::Why(_) | Self::NoNode(_) => "no_room",
            Self::NotReady(_) => "not_ready",
            Self::Invalid(_) => "invalid_request",
            Self::Gone | Self::Overtaken(_) => "overtaken",
            Self::Look(_) | Self::Refused(_) | Self::Stale(_) => "refused",
            Self::Unknown(_) => "unknown",
        }
    }
}

/// What a pod asks for, in one version of it.
struct Wanted {
    ask: Option<PodAsk>,
    version: String,
}

impl Extender {
    /// Binds a pod. Once started, it runs to its end, even if the caller has gone.
    pub(super) async fn bind(&self, args: BindingArgs) -> Result<(), BindError> {
        let term = self.open_term().await.map_err(BindError::NotReady)?;
        let pod = PodRef {
            uid: args.pod.clone(),
            namespace: args.namespace.clone(),
            name: args.name.clone(),
        };
        let mut sent = 1;
        loop {
            match self.bind_once(&pod, &args, term, sent).await {
                // The watch was behind, and the pod may ask for something else by now.
                Err(BindError::Stale(_)) if sent < MOST_SENDS => sent += 1,
                result => return result,
            }
        }
    }

    async fn bind_once(
        &self,
        pod: &PodRef,
        args: &BindingArgs,
        term: u64,
        sent: usize,
    ) -> Result<(), BindError> {
        if self
            .0
            .books
            .read()
            .nodes()
            .get(args.node.as_str())
            .is_none()
        {
            return Err(BindError::NoNode(args.node.to_string()));
        }
        let wanted = self.wanted(pod, sent > 1).await?;
        let request = Bind {
            pod: pod.clone(),
            version: wanted.version,
            node: args.node.clone(),
            annotations: BTreeMap::new(),
            timeout: self.0.config.bind_timeout,
        };
        match wanted.ask {
            Some(ask) => self.bind_to_card(pod, request, &ask, term).await,
            // A pod that asks for no card needs no record.
            None => BindError::unless_bound(self.post(pod, &request, term).await),
        }
    }

    /// What the pod asks for: as the watch showed it, or read now if the watch is behind.
    async fn wanted(&self, pod: &PodRef, behind: bool) -> Result<Wanted, BindError> {
        let known = self.0.books.read().pods().get(pod.uid.as_str()).cloned();
        // A bind that names no version of the pod could not be fenced.
        if let Some(known) = known.filter(|known| !behind && !known.version.is_empty()) {
            return Ok(Wanted {
                ask: Some(known.ask.clone()),
                version: known.version.clone(),
            });
        }
        let facts = self.read(pod).await?.ok_or(BindError::Gone)?;
        let ask = facts
            .ask
            .map_err(|violations| BindError::Invalid(violations.to_string()))?;
        Ok(Wanted {
            ask,
            version: facts.version,
        })
    }

    async fn bind_to_card(
        &self,
        pod: &PodRef,
        mut request: Bind,
        ask: &PodAsk,
        term: u64,
    ) -> Result<(), BindError> {
        let Self(shared) = self;
        let now = jiff::Timestamp::now().as_nanosecond();
        let unit = shared.config.aliyun_unit;
        let reserved = shared
            .books
            .write()
            .reserve(pod, ask, &request.node, unit, now);
        let Reservation {
            placement,
            record,
            compatible,
        } = reserved.map_err(BindError::Why)?;
        request.annotations = compatible;
        request
            .annotations
            .insert(names::ALLOCATION.to_owned(), record);
        let outcome = self.post(pod, &request, term).await;

        let followup = shared.books.write().conclude(&pod.uid, &outcome);
        let result = BindError::unless_bound(outcome);
        let cards: Vec<&str> = placement.cards().iter().map(|card| card.as_str()).collect();
        let (cards, node) = (cards.join(","), &request.node);
        match &result {
            Ok(()) => tracing::info!(%pod, uid = %pod.uid, %node, cards, "bound"),
            Err(reason) => {
                tracing::warn!(%pod, uid = %pod.uid, %node, cards, %reason, "not bound");
            }
        }
        self.follow_up(pod.clone(), followup);
        result
    }

    /// Sends the bind and finds out what became of it.
    ///
    /// The check that this replica leads comes after the version of the pod is known. The next leader fences the pod
    /// later than that, which gives the pod another version. So this bind is void from then on, however late it
    /// arrives.
    async fn post(&self, pod: &PodRef, request: &Bind, term: u64) -> Outcome {
        if let Err(reason) = self.still_leads(term) {
            return Outcome::Refused(reason);
        }
        let Err(answer) = request.send(&self.0.client).await else {
            return Outcome::Bound;
        };
        let seen = match answer {
            Answer::Refused(message) => return Outcome::Refused(message),
            Answer::Conflict(_) => match self.read(pod).await {
                // Nothing in the pod explains the conflict, so the answer leaves open what became of the bind.
                Ok(Some(seen)) if request.can_take_effect(&seen) => self.fence(pod).await,
                seen => seen,
            },
            Answer::Lost(_) => self.fence(pod).await,
        };
        match seen {
            Ok(seen) => request.judge(answer, seen.as_ref()),
            Err(error) => Outcome::Unknown(format!("{}; then {error}", answer.message())),
        }
    }
}
