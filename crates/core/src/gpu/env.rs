//! How containers and older tools learn about a decision: environment variables and annotations, as
//! gpushare's predecessors set them. They are written for other programs and never read back.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::card::Card;
use crate::gpu::{ALIYUN, AliyunUnit, CLASS, CORE, HAMI, MEMORY, TENCENT};
use crate::ids::{CardId, NodeName};
use crate::names::{aliyun, hami, tencent, variable};
use crate::placement::{ContainerPlacement, Placement};
use crate::request::{ContainerAsk, PodAsk, Role};

/// A container's request for GPUs with the cards it got.
struct Given<'a> {
    ask: &'a ContainerAsk,
    cards: Vec<&'a Card>,
}

impl Given<'_> {
    /// How much of each card the container may use in one dimension.
    fn usable(&self, dimension: usize) -> Vec<u64> {
        let usable = |card: &&Card| self.ask.usable(&card.capacity).get(dimension);
        self.cards.iter().map(usable).collect()
    }

    fn indexes(&self) -> String {
        let indexes: Vec<String> = self.cards.iter().map(|c| c.index.to_string()).collect();
        indexes.join(",")
    }
}

/// The environment of one container. `card` finds a card of the node by id.
pub fn container_env<'a>(
    ask: &'a PodAsk,
    placed: &ContainerPlacement,
    unit: AliyunUnit,
    card: impl Fn(&CardId) -> Option<&'a Card>,
) -> Vec<(String, String)> {
    let ids: Vec<&str> = placed
        .shares
        .iter()
        .map(|share| share.card.as_str())
        .collect();
    let mut env = vec![
        (variable::VISIBLE_DEVICES.to_owned(), ids.join(",")),
        (variable::CARDS.to_owned(), ids.join(",")),
    ];
    let Some(given) = given(ask, placed, &card) else {
        return env;
    };
    let (memory, core) = (given.usable(MEMORY), given.usable(CORE));
    env.push((variable::MEMORY_MIB.to_owned(), one_or_each(&memory)));
    if core.iter().any(|percent| *percent > 0) {
        env.push((variable::CORE_PERCENT.to_owned(), one_or_each(&core)));
    }
    match &*given.ask.dialect {
        ALIYUN => {
            let units = |mib: u64| (mib / unit.mib()).to_string();
            let size = given
                .cards
                .first()
                .map_or(0, |card| card.capacity.get(MEMORY));
            env.extend([
                (aliyun::IDX.to_owned(), given.indexes()),
                (aliyun::POD.to_owned(), units(pod_memory(ask))),
                (
                    aliyun::CONTAINER.to_owned(),
                    units(memory.first().copied().unwrap_or(0)),
                ),
                (aliyun::DEV.to_owned(), units(size)),
            ]);
        }
        HAMI => {
            let limits = memory.iter().enumerate();
            env.extend(limits.map(|(at, mib)| {
                (
                    format!("{}{at}", variable::HAMI_MEMORY_LIMIT),
                    format!("{mib}m"),
                )
            }));
            let core = core.first().copied().unwrap_or(0).to_string();
            env.push((variable::HAMI_SM_LIMIT.to_owned(), core));
        }
        _ => {}
    }
    env
}

fn given<'a>(
    ask: &'a PodAsk,
    placed: &ContainerPlacement,
    card: &impl Fn(&CardId) -> Option<&'a Card>,
) -> Option<Given<'a>> {
    let ask = ask.container(&placed.class, &placed.container)?;
    let cards = placed.shares.iter().filter_map(|share| card(&share.card));
    let cards: Vec<&Card> = cards.collect();
    (*placed.class == *CLASS && !cards.is_empty()).then_some(Given { ask, cards })
}

/// One number if all cards agree, otherwise one for each card.
fn one_or_each(amounts: &[u64]) -> String {
    let each: Vec<String> = match amounts {
        [first, rest @ ..] if rest.iter().all(|amount| amount == first) => vec![first.to_string()],
        all => all.iter().map(u64::to_string).collect(),
    };
    each.join(",")
}

/// The annotations that the predecessors' tools expect on a bound pod, depending on the dialects it uses.
///
/// They mark cards as assigned at once, because the decision is final with the bind and nothing patches
/// the pod later.
pub fn annotations<'a>(
    ask: &'a PodAsk,
    placement: &Placement,
    node: &NodeName,
    unit: AliyunUnit,
    now_nanos: i128,
    card: impl Fn(&CardId) -> Option<&'a Card>,
) -> BTreeMap<String, String> {
    let placed = placement.containers.iter();
    let given: Vec<Given<'a>> = placed
        .filter_map(|placed| given(ask, placed, &card))
        .collect();
    let of = |dialect: &str| -> Vec<&Given<'a>> {
        let same = |given: &&Given<'a>| *given.ask.dialect == *dialect;
        given.iter().filter(same).collect()
    };
    let mut annotations = BTreeMap::new();
    annotations.extend(for_aliyun(ask, &of(ALIYUN), unit, now_nanos));
    annotations.extend(for_tencent(&of(TENCENT), node, now_nanos));
    annotations.extend(for_hami(&of(HAMI), node));
    annotations
}

fn for_aliyun(
    ask: &PodAsk,
    given: &[&Given<'_>],
    unit: AliyunUnit,
    now_nanos: i128,
) -> Vec<(String, String)> {
    let Some((first, card)) = given
        .first()
        .and_then(|first| Some((first, first.cards.first()?)))
    else {
        return Vec::new();
    };
    let units = |mib: u64| mib / unit.mib();
    let mut annotations = vec![
        (aliyun::IDX, card.index.to_string()),
        (aliyun::POD, units(pod_memory(ask)).to_string()),
        (aliyun::DEV, units(card.capacity.get(MEMORY)).to_string()),
        (aliyun::ASSIGNED, "true".to_owned()),
        (aliyun::ASSUME_TIME, now_nanos.to_string()),
    ];
    if given.len() > 1 || first.cards.len() > 1 {
        let apps = given.iter().filter(|given| given.ask.role == Role::App);
        let allocation: BTreeMap<u32, BTreeMap<u32, u64>> = apps
            .map(|given| {
                let cards = given.cards.iter().map(|card| card.index);
                let units = given.usable(MEMORY).into_iter().map(units);
                (given.ask.index, cards.zip(units).collect())
            })
            .collect();
        let allocation = serde_json::to_string(&allocation);
        annotations.extend(allocation.ok().map(|json| (aliyun::ALLOCATION, json)));
    }
    owned(annotations)
}

fn for_tencent(given: &[&Given<'_>], node: &NodeName, now_nanos: i128) -> Vec<(String, String)> {
    if given.is_empty() {
        return Vec::new();
    }
    let mut annotations = owned(vec![
        (tencent::PREDICATE_NODE, node.to_string()),
        (tencent::PREDICATE_TIME, now_nanos.to_string()),
        (tencent::GPU_ASSIGNED, "true".to_owned()),
    ]);
    let apps = given.iter().filter(|given| given.ask.role == Role::App);
    annotations.extend(apps.map(|given| {
        let name = format!("{}{}", tencent::PREDICATE_GPU_IDX, given.ask.index);
        (name, given.indexes())
    }));
    annotations
}

fn for_hami(given: &[&Given<'_>], node: &NodeName) -> Vec<(String, String)> {
    if given.is_empty() {
        return Vec::new();
    }
    let mut devices = String::new();
    for given in given {
        let shares = given.usable(MEMORY).into_iter().zip(given.usable(CORE));
        for (card, (memory, core)) in given.cards.iter().zip(shares) {
            let _ = write!(devices, "{},NVIDIA,{memory},{core}:", card.id);
        }
        devices.push(';');
    }
    owned(vec![
        (hami::VGPU_NODE, node.to_string()),
        (hami::DEVICES_ALLOCATED, devices),
    ])
}

fn owned(annotations: Vec<(&str, String)>) -> Vec<(String, String)> {
    let owned = |(name, value): (&str, String)| (name.to_owned(), value);
    annotations.into_iter().map(owned).collect()
}

/// What Aliyun's tools call the pod's memory: the sum over its app containers, counting one card each.
fn pod_memory(ask: &PodAsk) -> u64 {
    ask.of_class(CLASS)
        .filter(|ask| ask.role == Role::App && *ask.dialect == *ALIYUN)
        .fold(0, |sum, ask| {
            sum.saturating_add(ask.want.on(&crate::Amounts::ZERO).get(MEMORY))
        })
}
