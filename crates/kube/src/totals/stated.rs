//! What a pod states about its resources, and what follows from it.

use std::collections::{BTreeMap, BTreeSet};

use gpushare_core::Amounts;
use gpushare_core::request::{Role, peak};
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::{CPU, MEMORY, PODS, Totals, amount, is_counted, is_of_pods, is_request_the_limit};
use crate::convert::started;
use crate::slim::{self, Starts};

/// Quantities as written, by resource.
type WrittenQuantities<'a> = BTreeMap<&'a str, &'a str>;

/// What a pod states about its resources, whichever type it was read into.
#[derive(Clone, Debug, Default)]
pub struct StatedResources<'a> {
    containers: Vec<(Role, Resources<'a>)>,
    pod: Resources<'a>,
    overhead: WrittenQuantities<'a>,
}

#[derive(Clone, Debug, Default)]
struct Resources<'a> {
    requests: WrittenQuantities<'a>,
    limits: WrittenQuantities<'a>,
}

impl<'a> Resources<'a> {
    /// The API server sets a missing request to the limit.
    fn request(&self, resource: &str) -> Option<&'a str> {
        let stated = self.requests.get(resource);
        stated.or_else(|| self.limits.get(resource)).copied()
    }

    fn limit(&self, resource: &str) -> Option<&'a str> {
        self.limits.get(resource).copied()
    }
}

impl<'a> StatedResources<'a> {
    /// The most that the pod requests at any one time, including its place among the node's pods.
    pub fn requests(&self) -> Totals {
        let of = |resource: &str| (resource.to_owned(), self.request(resource));
        let mut needs: Totals = self.resources().into_iter().map(of).collect();
        needs.insert(PODS.to_owned(), 1);
        needs
    }

    /// The most of this resource that the pod requests at any one time.
    pub fn request(&self, resource: &str) -> i64 {
        let pod = || is_of_pods(resource).then_some(&self.pod);
        // The API server sets a pod's missing request to what its containers request, or else to the limit.
        let unstated = || {
            let mut containers = self.containers.iter();
            is_request_the_limit(resource)
                || containers.all(|(_, container)| container.request(resource).is_none())
        };
        let requested = pod().and_then(|pod| pod.requests.get(resource).copied());
        let limited = || pod().filter(|_| unstated())?.limit(resource);
        let stated = requested.or_else(limited);
        let inside = stated.map_or_else(
            || self.peak(resource, Resources::request),
            |stated| amount(resource, stated),
        );
        inside.saturating_add(self.overhead(resource))
    }

    /// The most of this resource that the pod may use at any one time, as far as it is limited.
    pub fn limit(&self, resource: &str) -> i64 {
        let pod = Some(&self.pod).filter(|_| is_of_pods(resource));
        let inside = pod.and_then(|pod| pod.limit(resource)).map_or_else(
            || self.peak(resource, Resources::limit),
            |stated| amount(resource, stated),
        );
        match inside {
            0 => 0,
            inside => inside.saturating_add(self.overhead(resource)),
        }
    }

    /// All resources that the pod states and kube-scheduler counts; CPU and memory in any case.
    fn resources(&self) -> BTreeSet<&'a str> {
        let stated = |resources: &Resources<'a>| {
            let (requests, limits) = (resources.requests.keys(), resources.limits.keys());
            requests.chain(limits).copied().collect::<Vec<_>>()
        };
        let containers = self.containers.iter().flat_map(|(_, all)| stated(all));
        let pod = stated(&self.pod)
            .into_iter()
            .filter(|name| is_of_pods(name));
        let all = containers.chain(pod).chain(self.overhead.keys().copied());
        all.filter(|name| is_counted(name))
            .chain([CPU, MEMORY])
            .collect()
    }

    fn peak(
        &self,
        resource: &str,
        stated: impl Fn(&Resources<'a>, &str) -> Option<&'a str>,
    ) -> i64 {
        let held = self.containers.iter().map(|(role, container)| {
            let amount = stated(container, resource).map_or(0, |text| amount(resource, text));
            (*role, Amounts::of(0, amount.unsigned_abs()))
        });
        i64::try_from(peak(held).get(0)).unwrap_or(i64::MAX)
    }

    fn overhead(&self, resource: &str) -> i64 {
        let overhead = self.overhead.get(resource);
        overhead.map_or(0, |text| amount(resource, text))
    }
}

impl<'a> From<&'a slim::PodSpec> for StatedResources<'a> {
    fn from(spec: &'a slim::PodSpec) -> Self {
        let containers = started(&spec.init_containers, &spec.containers);
        Self {
            containers: containers
                .map(|(_, container, role)| (role, (&container.resources).into()))
                .collect(),
            pod: (&spec.resources).into(),
            overhead: spec.overhead.written().collect(),
        }
    }
}

impl<'a> From<&'a slim::Resources> for Resources<'a> {
    fn from(resources: &'a slim::Resources) -> Self {
        let limits = resources.limits.iter();
        Self {
            requests: resources.requests.written().collect(),
            limits: limits
                .map(|(name, text)| (name.as_str(), text.0.as_str()))
                .collect(),
        }
    }
}

impl<'a> From<&'a core::PodSpec> for StatedResources<'a> {
    fn from(spec: &'a core::PodSpec) -> Self {
        let init = spec.init_containers.as_deref().unwrap_or_default();
        let stated = |resources: &'a Option<core::ResourceRequirements>| {
            resources.as_ref().map(Resources::from).unwrap_or_default()
        };
        Self {
            containers: started(init, &spec.containers)
                .map(|(_, container, role)| (role, stated(&container.resources)))
                .collect(),
            pod: stated(&spec.resources),
            overhead: written(spec.overhead.as_ref()),
        }
    }
}

impl<'a> From<&'a core::ResourceRequirements> for Resources<'a> {
    fn from(resources: &'a core::ResourceRequirements) -> Self {
        Self {
            requests: written(resources.requests.as_ref()),
            limits: written(resources.limits.as_ref()),
        }
    }
}

fn written(quantities: Option<&BTreeMap<String, Quantity>>) -> WrittenQuantities<'_> {
    let quantities = quantities.into_iter().flatten();
    quantities
        .map(|(name, text)| (name.as_str(), text.0.as_str()))
        .collect()
}

impl Starts for core::Container {
    fn restart_policy(&self) -> Option<&str> {
        self.restart_policy.as_deref()
    }
}
