//! A pod's limits and annotations: an accepted request means what was written, a refused one is explained.
//!
//! Input: lines. `app NAME`, `init NAME` and `sidecar NAME` begin a container, `RESOURCE=QUANTITY` is one
//! of its limits, `@NAME=VALUE` an annotation of the pod; other lines are ignored.

use std::collections::BTreeMap;

use gpushare_core::Amounts;
use gpushare_core::gpu::{self, AliyunUnit, CORE, MEMORY, Reading};
use gpushare_core::request::{ContainerAsk, Role, Want};
use gpushare_core::validate::{ContainerView, PodView, Violations, validate};

use super::on_text;
use crate::Verdict;
use crate::oracle::request::{Ask, Meaning, chooses_well, meaning};

#[derive(Default)]
struct Pod<'a> {
    containers: Vec<Container<'a>>,
    annotations: BTreeMap<&'a str, &'a str>,
}

struct Container<'a> {
    name: &'a str,
    role: Role,
    limits: BTreeMap<&'a str, &'a str>,
}

pub(crate) fn check(data: &[u8]) -> Verdict {
    on_text(data, |text| {
        let pod = Pod::read(text);
        let dialects = gpu::read(Reading {
            aliyun: AliyunUnit::GiB,
            hami: true,
        });
        let found = validate(&dialects, &pod.view(false));
        let turned = validate(&dialects, &pod.view(true));
        assert_eq!(found, turned, "the order of limits or annotations matters");

        let asking: Vec<(&Container<'_>, Meaning)> = pod
            .containers
            .iter()
            .filter_map(|container| Some((container, meaning(&container.limits)?)))
            .collect();
        let chosen = pod.annotations.iter();
        let well_chosen = chosen.fold(true, |all, (name, value)| all & chooses_well(name, value));
        match &found {
            Ok(None) => assert!(asking.is_empty(), "a request was overlooked"),
            Ok(Some(ask)) => {
                assert!(well_chosen, "a choice that makes no sense was accepted");
                assert_eq!(ask.containers.len(), asking.len());
                for (ask, (container, meant)) in ask.containers.iter().zip(asking) {
                    let written = (container.name, container.role);
                    assert_eq!((&*ask.container, ask.role), written);
                    assert_eq!(Some(understood(ask)), meant);
                }
            }
            Err(violations) => {
                let sensible = asking.iter().all(|(_, meant)| meant.is_some());
                let cards = asking
                    .iter()
                    .filter_map(|(_, meant)| Some(meant.as_ref()?.cards));
                let few = asking.len() <= 32 && cards.sum::<u64>() <= 256;
                assert!(!(sensible && well_chosen && few), "refused: {violations}");
                pod.is_told(violations);
            }
        }
        Verdict::of(&found)
    })
}

/// The validated request as the oracle's type.
fn understood(ask: &ContainerAsk) -> Ask {
    let (whole, part) = match ask.want {
        Want::Whole => (true, None),
        Want::Share(part) => (false, Some(part)),
    };
    let amounts = part.map_or(Amounts::ZERO, |part| part.amounts);
    Ask {
        cards: ask.cards.into(),
        whole,
        memory: amounts.get(MEMORY),
        memory_percent: part.map_or(0, |part| part.percent.get(MEMORY)),
        core: amounts.get(CORE),
        memory_limit: ask.limit.get(MEMORY),
    }
}

impl<'a> Pod<'a> {
    fn read(text: &'a str) -> Self {
        let mut pod = Self::default();
        for line in text.lines() {
            let role = match line.split_once(' ') {
                Some(("app", name)) => Some((Role::App, name)),
                Some(("init", name)) => Some((Role::Init, name)),
                Some(("sidecar", name)) => Some((Role::Sidecar, name)),
                _ => None,
            };
            if let Some((role, name)) = role {
                // Kubernetes allows no two containers of a pod with the same name.
                if pod.containers.iter().all(|other| other.name != name) {
                    let limits = BTreeMap::new();
                    pod.containers.push(Container { name, role, limits });
                }
            } else if let Some((name, value)) = line.split_once('=') {
                match (name.strip_prefix('@'), pod.containers.last_mut()) {
                    (Some(name), _) => {
                        pod.annotations.insert(name, value);
                    }
                    (None, Some(container)) => {
                        container.limits.insert(name, value);
                    }
                    (None, None) => {}
                }
            }
        }
        pod
    }

    fn view(&self, turned: bool) -> PodView<'_> {
        let pairs = |map: &BTreeMap<&'a str, &'a str>| {
            let mut pairs: Vec<(&'a str, &'a str)> = map.iter().map(|(k, v)| (*k, *v)).collect();
            if turned {
                pairs.reverse();
            }
            pairs
        };
        let containers = self.containers.iter().zip(0..);
        PodView {
            containers: containers
                .map(|(container, index)| ContainerView {
                    name: container.name,
                    role: container.role,
                    index,
                    limits: pairs(&container.limits),
                })
                .collect(),
            annotations: pairs(&self.annotations),
        }
    }

    /// Every violation names a container or annotation of the pod, what is wrong and what to do.
    fn is_told(&self, violations: &Violations) {
        assert!(!violations.0.is_empty());
        let message = violations.to_string();
        for violation in &violations.0 {
            let known = match &violation.container {
                Some(name) => self.containers.iter().any(|other| other.name == name),
                None => self.annotations.contains_key(&*violation.field),
            };
            assert!(known, "{violation:?} is about nothing of this pod");
            assert!(!violation.problem.is_empty() && !violation.fix.is_empty());
            assert!(message.contains(&*violation.field) && message.contains(&violation.fix));
        }
    }
}
