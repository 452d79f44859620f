//! What a container and old tools are told about a decision: environment and annotations, as the
//! predecessors set them.

use crate::card::Card;
use crate::gpu::{AliyunUnit, MEMORY};
use crate::ids::CardId;
use crate::names::aliyun;
use crate::placement::{ContainerPlacement, Placement};
use crate::request::{PodAsk, Role};

pub const ALIYUN_DIALECT: &str = "aliyun";

/// The environment of one container. `card` finds a card of the node by id.
pub fn container_env<'a>(
    ask: &PodAsk,
    placed: &ContainerPlacement,
    unit: AliyunUnit,
    card: impl Fn(&CardId) -> Option<&'a Card>,
) -> Vec<(String, String)> {
    let ids: Vec<&str> = placed
        .shares
        .iter()
        .map(|share| share.card.as_str())
        .collect();
    let memory: u64 = placed
        .shares
        .first()
        .map_or(0, |share| share.amounts.get(MEMORY));
    let mut env = vec![
        ("NVIDIA_VISIBLE_DEVICES".to_owned(), ids.join(",")),
        ("GPUSHARE_CARDS".to_owned(), ids.join(",")),
        ("GPUSHARE_MEMORY_MIB".to_owned(), memory.to_string()),
    ];
    let theirs = ask
        .container(&placed.container)
        .is_some_and(|ask| ask.dialect == ALIYUN_DIALECT);
    let first = placed.shares.first().and_then(|share| card(&share.card));
    if let (true, Some(card)) = (theirs, first) {
        let units = |mib: u64| (mib / unit.mib()).to_string();
        env.extend([
            (aliyun::IDX.to_owned(), card.index.to_string()),
            (aliyun::POD.to_owned(), units(pod_memory(ask))),
            (aliyun::CONTAINER.to_owned(), units(memory)),
            (aliyun::DEV.to_owned(), units(card.capacity.get(MEMORY))),
        ]);
    }
    env
}

/// The annotations that Aliyun's tools expect on a bound pod; none for other dialects.
///
/// They mark the card as assigned at once: the decision is final with the bind, and nothing patches the
/// pod later.
pub fn aliyun_annotations<'a>(
    ask: &PodAsk,
    placement: &Placement,
    unit: AliyunUnit,
    assume_time_nanos: i128,
    card: impl Fn(&CardId) -> Option<&'a Card>,
) -> Vec<(&'static str, String)> {
    if !ask
        .containers
        .iter()
        .any(|ask| ask.dialect == ALIYUN_DIALECT)
    {
        return Vec::new();
    }
    let mut shares = placement
        .containers
        .iter()
        .flat_map(|placed| &placed.shares);
    let Some(card) = shares.next().and_then(|share| card(&share.card)) else {
        return Vec::new();
    };
    let units = |mib: u64| (mib / unit.mib()).to_string();
    vec![
        (aliyun::IDX, card.index.to_string()),
        (aliyun::POD, units(pod_memory(ask))),
        (aliyun::DEV, units(card.capacity.get(MEMORY))),
        (aliyun::ASSIGNED, "true".to_owned()),
        (aliyun::ASSUME_TIME, assume_time_nanos.to_string()),
    ]
}

/// What the predecessor calls the pod's memory: the sum over its app containers.
fn pod_memory(ask: &PodAsk) -> u64 {
    ask.containers
        .iter()
        .filter(|ask| ask.role == Role::App)
        .fold(0, |sum, ask| sum.saturating_add(ask.amounts.get(MEMORY)))
}
