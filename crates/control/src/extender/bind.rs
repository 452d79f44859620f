//! Bind: reserve in memory, one POST, settle.

use std::collections::BTreeMap;
use std::time::Instant;

use gpushare_core::{PodAsk, Why, names};
use gpushare_kube::bind::{Bind, Outcome, ReadError, bind, surely_over};
use thiserror::Error;

use super::Extender;
use super::state::{Followup, PodRef, Reservation};
use super::wire::BindingArgs;

#[derive(Debug, Error)]
pub(super) enum BindError {
    #[error("{0}")]
    Why(Why),
    #[error("{0}")]
    NotReady(String),
    #[error("the request is invalid: {0}")]
    Invalid(String),
    #[error("the pod does not exist any more")]
    Gone,
    #[error("node {0} does not exist")]
    NoNode(String),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("{0}")]
    Refused(String),
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
            Self::Read(_) | Self::Refused(_) => "refused",
            Self::Unknown(_) => "unknown",
        }
    }
}

impl Extender {
    /// Binds a pod. Runs to its end once started, also if the caller has gone.
    pub(super) async fn bind(&self, args: BindingArgs) -> Result<(), BindError> {
        let Self(shared) = self;
        let term = self.open_term().await.map_err(BindError::NotReady)?;
        let pod = PodRef {
            uid: args.pod.clone(),
            namespace: args.namespace.clone(),
            name: args.name.clone(),
        };
        let ask = self.ask_of(&pod).await?;
        if !shared.state.read().has_node(args.node.as_str()) {
            return Err(BindError::NoNode(args.node.to_string()));
        }
        match ask {
            Some(ask) => self.bind_to_card(pod, &args, &ask, term).await,
            None => self.bind_plainly(&args, term).await,
        }
    }

    /// What the pod asks for: as the watch showed it, or read now if the watch is behind.
    async fn ask_of(&self, pod: &PodRef) -> Result<Option<PodAsk>, BindError> {
        let known = self.0.state.read().pod(pod.uid.as_str()).cloned();
        if let Some(known) = known {
            return Ok(Some(known.ask));
        }
        let facts = self.read(pod).await?.ok_or(BindError::Gone)?;
        facts
            .ask
            .map_err(|violations| BindError::Invalid(violations.to_string()))
    }

    async fn bind_to_card(
        &self,
        pod: PodRef,
        args: &BindingArgs,
        ask: &PodAsk,
        term: u64,
    ) -> Result<(), BindError> {
        let Self(shared) = self;
        let now = jiff::Timestamp::now().as_nanosecond();
        let unit = shared.config.aliyun_unit;
        let reserved = shared
            .state
            .write()
            .reserve(&pod, ask, &args.node, term, unit, now);
        let Reservation {
            placement,
            record,
            compatible,
        } = reserved.map_err(BindError::Why)?;
        let mut annotations = compatible;
        annotations.insert(names::ALLOCATION.to_owned(), record);
        let outcome = self.post(args, annotations, term).await;

        let until = Instant::now() + surely_over(shared.config.bind_timeout);
        let followup = shared.state.write().conclude(&args.pod, &outcome, until);
        let result = BindError::unless_bound(outcome);
        let cards: Vec<&str> = placement.cards().iter().map(|card| card.as_str()).collect();
        let (cards, node) = (cards.join(","), &args.node);
        let name = format_args!("{}/{}", args.namespace, args.name);
        match &result {
            Ok(()) => tracing::info!(pod = %name, uid = %args.pod, %node, cards, "bound"),
            Err(reason) => {
                tracing::warn!(pod = %name, uid = %args.pod, %node, cards, %reason, "not bound");
            }
        }
        if followup != Followup::Nothing {
            self.follow_up(pod, followup);
        }
        result
    }

    /// A pod that reaches us without asking for a card needs no record.
    async fn bind_plainly(&self, args: &BindingArgs, term: u64) -> Result<(), BindError> {
        BindError::unless_bound(self.post(args, BTreeMap::new(), term).await)
    }

    async fn post(
        &self,
        args: &BindingArgs,
        annotations: BTreeMap<String, String>,
        term: u64,
    ) -> Outcome {
        if let Err(reason) = self.still_leads(term) {
            return Outcome::Refused(reason);
        }
        let request = Bind {
            pod: args.pod.clone(),
            namespace: args.namespace.clone(),
            name: args.name.clone(),
            node: args.node.clone(),
            annotations,
            timeout: self.0.config.bind_timeout,
        };
        bind(&self.0.client, &self.0.dialects, &request).await
    }
}
