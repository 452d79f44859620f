//! Which container is starting: from device ids to one pod and the containers that may be meant.
//!
//! The kubelet does not name the pod when it starts a container. The answer is in two places, its
//! checkpoint and its PodResources service; both must agree, and any doubt is a refusal.
//! Nothing here looks at cards.

pub mod checkpoint;
pub mod podresources;

use std::collections::BTreeSet;

use gpushare_core::request::Role;
use gpushare_core::{PodUid, gpu};
use gpushare_kube::convert::PodFacts;
use thiserror::Error;

use crate::cdi::SlotName;
use crate::plugin::devices::Division;
use checkpoint::Holder;
use podresources::ListedContainer;

/// One pod, and each of its containers that holds the ids. There are several when an app container
/// was given the ids of a finished init container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub pod: PodUid,
    pub containers: Vec<Container>,
    /// Namespace and name, if PodResources knows the pod.
    pub name: Option<(String, String)>,
    /// How many ids there are.
    held: u64,
    listed: BTreeSet<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    pub name: String,
    pub slot: SlotName,
}

#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Doubt {
    #[error(
        "the kubelet's checkpoint has no container with these devices; delete the pod, so that it is allocated again"
    )]
    Nobody,
    #[error("the kubelet gave the same devices to pods {0} and {1}; delete one of them")]
    TwoPods(PodUid, PodUid),
    #[error("the kubelet shows the devices in {0} and in {1} at once; delete one of them")]
    TwoListed(String, String),
    #[error(
        "the kubelet shows container {container:?} of {pod} with these devices, but its checkpoint does not"
    )]
    OnlyListed { pod: String, container: String },
    #[error(
        "the kubelet's checkpoint gives the devices to pod {checkpoint}, its PodResources to {listed}"
    )]
    Disagree { checkpoint: String, listed: String },
    #[error(
        "container {0:?} holds these devices by the kubelet's checkpoint, but PodResources does not show it"
    )]
    NotListed(String),
    #[error(
        "container {container:?} holds {held} of {resource} by the kubelet's checkpoint, but asks for {asked}; \
         delete the pod, so that it is allocated again"
    )]
    OtherNumber {
        container: String,
        resource: &'static str,
        held: u64,
        asked: u64,
    },
}

/// Combines what the two sources say about the holders of `held` ids.
pub fn identify(
    held: usize,
    holders: Vec<Holder>,
    listed: &[ListedContainer],
) -> Result<Identity, Doubt> {
    let pod = match holders.as_slice() {
        [] => return Err(Doubt::Nobody),
        [first, rest @ ..] => match rest.iter().find(|other| other.pod != first.pod) {
            Some(other) => return Err(Doubt::TwoPods(first.pod.clone(), other.pod.clone())),
            None => first.pod.clone(),
        },
    };
    let full_name = |listed: &ListedContainer| format!("{}/{}", listed.namespace, listed.pod);
    let name = match listed {
        [] => None,
        [first, rest @ ..] => {
            let same = |other: &&ListedContainer| {
                (&other.namespace, &other.pod) != (&first.namespace, &first.pod)
            };
            if let Some(other) = rest.iter().find(same) {
                return Err(Doubt::TwoListed(full_name(first), full_name(other)));
            }
            Some((first.namespace.clone(), first.pod.clone()))
        }
    };
    if let Some(extra) = listed.iter().find(|listed| {
        holders
            .iter()
            .all(|holder| holder.container != listed.container)
    }) {
        return Err(Doubt::OnlyListed {
            pod: full_name(extra),
            container: extra.container.clone(),
        });
    }
    Ok(Identity {
        pod,
        containers: holders
            .into_iter()
            .map(|holder| Container {
                name: holder.container,
                slot: holder.slot,
            })
            .collect(),
        name,
        held: held as u64,
        listed: listed
            .iter()
            .map(|listed| listed.container.clone())
            .collect(),
    })
}

impl Identity {
    /// Checks what needs the pod itself: its name, that only ordinary init containers are missing from
    /// PodResources (which never shows those), and that each container asks for as many devices as it
    /// holds.
    pub fn check(&self, pod: &PodFacts, division: Division) -> Result<(), Doubt> {
        if let Some((namespace, name)) = &self.name
            && (namespace, name) != (&pod.namespace, &pod.name)
        {
            return Err(Doubt::Disagree {
                checkpoint: format!("{}/{}", pod.namespace, pod.name),
                listed: format!("{namespace}/{name}"),
            });
        }
        let ask = pod.ask.as_ref().ok().and_then(Option::as_ref);
        let asking = |name: &str| ask.and_then(|ask| ask.container(gpu::CLASS, name));
        let is_init = |name: &str| asking(name).is_some_and(|ask| ask.role == Role::Init);
        let missing = self
            .containers
            .iter()
            .find(|container| !self.listed.contains(&container.name) && !is_init(&container.name));
        if let Some(container) = missing {
            return Err(Doubt::NotListed(container.name.clone()));
        }
        for Container { name, .. } in &self.containers {
            let asked = asking(name).map_or(0, |ask| division.asked(ask));
            if asked != self.held {
                return Err(Doubt::OtherNumber {
                    container: name.clone(),
                    resource: division.resource(),
                    held: self.held,
                    asked,
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
