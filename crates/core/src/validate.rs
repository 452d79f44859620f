//! The only validator: returns what a pod's containers ask for, or everything that is wrong with it at once.
//!
//! Webhook, extender, node agent and command line all use it, so that a request means the same everywhere.

mod choose;
mod fill;
mod read;

use std::fmt;
use std::sync::Arc;

use crate::dialect::{Dialect, Dialects};
use crate::request::{ContainerAsk, MOST_ASKING, MOST_CARDS_IN_ALL, PodAsk, Role};

pub use fill::{ONE_CARD, left_out};

/// A container as the caller reads it from the pod: names and quantities as text, not interpreted.
#[derive(Clone, Debug)]
pub struct ContainerView<'a> {
    pub name: &'a str,
    pub role: Role,
    /// Its place among the pod's containers, or among its init containers.
    pub index: u32,
    pub limits: Vec<(&'a str, &'a str)>,
}

impl ContainerView<'_> {
    fn limit(&self, resource: &str) -> Option<&str> {
        self.limits
            .iter()
            .find(|(name, _)| *name == resource)
            .map(|(_, value)| *value)
    }
}

/// A pod as the caller reads it. Containers are in the pod's own order, init containers first.
#[derive(Clone, Debug, Default)]
pub struct PodView<'a> {
    pub containers: Vec<ContainerView<'a>>,
    /// Must include at least the annotations that choosers name.
    pub annotations: Vec<(&'a str, &'a str)>,
}

/// One thing wrong with a request: where, what, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// `None` for an annotation of the pod.
    pub container: Option<String>,
    pub field: Arc<str>,
    pub value: String,
    pub problem: String,
    pub fix: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            container,
            field,
            value,
            problem,
            fix,
        } = self;
        match container {
            Some(container) => write!(f, "container {container:?}: ")?,
            None => f.write_str("annotation ")?,
        }
        write!(f, "{field}: {value:?} {problem}; {fix}")
    }
}

/// Everything wrong with one pod's request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violations(pub Vec<Violation>);

impl fmt::Display for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, violation) in self.0.iter().enumerate() {
            let separator = if position == 0 { "" } else { ". " };
            write!(f, "{separator}{violation}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Violations {}

/// The request of a pod that has no node yet; `None` if no container asks for a device.
pub fn validate(dialects: &Dialects, pod: &PodView<'_>) -> Result<Option<PodAsk>, Violations> {
    let (mut asks, mut violations) = read_containers(dialects, &pod.containers);
    violations.extend(too_many(dialects, pod, &asks));
    // Do not check the annotations of a pod that asks for no device.
    if asks.is_empty() && violations.is_empty() {
        return Ok(None);
    }
    for class in dialects.classes.iter() {
        match choose::choice(dialects, &class.name, &pod.annotations) {
            Ok(choice) => {
                let choice = Arc::new(choice);
                let of_class = asks.iter_mut().filter(|ask| ask.class == class.name);
                for ask in of_class {
                    ask.choice = choice.clone();
                }
            }
            Err(found) => violations.extend(found),
        }
    }
    request(asks, violations)
}

/// The request of a pod that has a node. Annotations that choose cards were read before the bind and are not read here:
/// the tenant may change them at any time, but the containers keep their cards.
pub fn validate_bound(
    dialects: &Dialects,
    containers: &[ContainerView<'_>],
) -> Result<Option<PodAsk>, Violations> {
    let (asks, violations) = read_containers(dialects, containers);
    request(asks, violations)
}

fn request(
    asks: Vec<ContainerAsk>,
    violations: Vec<Violation>,
) -> Result<Option<PodAsk>, Violations> {
    if !violations.is_empty() {
        return Err(Violations(violations));
    }
    Ok((!asks.is_empty()).then(|| PodAsk {
        containers: asks.into(),
    }))
}

fn read_containers(
    dialects: &Dialects,
    containers: &[ContainerView<'_>],
) -> (Vec<ContainerAsk>, Vec<Violation>) {
    let mut asks = Vec::new();
    let mut violations = Vec::new();
    for container in containers {
        for class in dialects.classes.iter() {
            let of_class = dialects
                .dialects
                .iter()
                .filter(|dialect| dialect.class == class.name);
            match validate_container(of_class, container) {
                Ok(ask) => asks.extend(ask),
                Err(found) => violations.extend(found),
            }
        }
    }
    (asks, violations)
}

/// The violation if the pod asks for more than can be placed without delaying other pods.
fn too_many(dialects: &Dialects, pod: &PodView<'_>, asks: &[ContainerAsk]) -> Option<Violation> {
    let mut cards = 0_usize;
    let too_much = |ask: &&ContainerAsk| {
        cards = cards.saturating_add(usize::try_from(ask.cards).unwrap_or(usize::MAX));
        cards > MOST_CARDS_IN_ALL
    };
    let (ask, problem, fix) = if let Some(ask) = asks.get(MOST_ASKING) {
        let fix = format!("ask in at most {MOST_ASKING} containers of a pod");
        (
            ask,
            format!("is the request number {}", MOST_ASKING + 1),
            fix,
        )
    } else {
        let ask = asks.iter().find(too_much)?;
        let fix = format!("ask for at most {MOST_CARDS_IN_ALL} in all containers together");
        (ask, format!("brings the pod to {cards} cards"), fix)
    };
    let mut containers = pod.containers.iter();
    let container = containers.find(|container| *container.name == *ask.container)?;
    let dialect = dialects
        .dialects
        .iter()
        .find(|one| one.name == ask.dialect)?;
    let field = dialect
        .resources()
        .find(|name| container.limit(name).is_some())?;
    Some(Violation {
        container: Some(container.name.to_owned()),
        field: field.clone(),
        value: container.limit(field).unwrap_or_default().to_owned(),
        problem,
        fix,
    })
}

fn validate_container<'a>(
    dialects: impl Iterator<Item = &'a Dialect>,
    container: &ContainerView<'_>,
) -> Result<Option<ContainerAsk>, Vec<Violation>> {
    let names = |dialect: &Dialect| {
        let mut resources = dialect.resources();
        resources
            .find(|name| container.limit(name).is_some())
            .cloned()
    };
    let used: Vec<(&Dialect, Arc<str>)> = dialects
        .filter_map(|dialect| Some((dialect, names(dialect)?)))
        .collect();
    let mut violations = Vec::new();
    if let [(_, first), (_, second), ..] = used.as_slice() {
        violations.push(Violation {
            container: Some(container.name.to_owned()),
            field: second.clone(),
            value: container.limit(second).unwrap_or_default().to_owned(),
            problem: format!("must not be combined with {first} in one container"),
            fix: "keep the resources of one dialect only".to_owned(),
        });
    }
    if container.role == Role::Ephemeral
        && let Some((_, field)) = used.first()
    {
        violations.push(Violation {
            container: Some(container.name.to_owned()),
            field: field.clone(),
            value: container.limit(field).unwrap_or_default().to_owned(),
            problem: "is asked for by an ephemeral container, which the kubelet gives no devices"
                .to_owned(),
            fix: "ask in a container of the pod, whose cards are fixed when it starts".to_owned(),
        });
    }
    let mut found = None;
    for (dialect, _) in used {
        match read::read(dialect, container) {
            Ok(ask) => found = Some(ask),
            Err(more) => violations.extend(more),
        }
    }
    if violations.is_empty() {
        Ok(found)
    } else {
        Err(violations)
    }
}

#[cfg(test)]
mod tests;
