//! The one validator: what a pod's containers ask for, or everything that is wrong with it at once.
//!
//! Webhook, extender, node agent and command line all ask here, so that a request means the same
//! everywhere.

use std::fmt;

use crate::amounts::Amounts;
use crate::dialect::{Dialect, Dialects};
use crate::quantity::{Quantity, QuantityError};
use crate::request::{ContainerAsk, PodAsk, Role};

/// A container as the edge sees it: names and quantities as text, nothing interpreted.
#[derive(Clone, Debug)]
pub struct ContainerView<'a> {
    pub name: &'a str,
    pub role: Role,
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

/// One thing wrong with a request: where, what, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub container: String,
    pub field: &'static str,
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
        write!(
            f,
            "container {container:?}: {field}: {value:?} {problem}; {fix}"
        )
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

/// The pod's request; nothing when no container asks for a device of this class.
///
/// Containers come in the pod's own order, init containers first.
pub fn validate(
    dialects: &Dialects,
    containers: &[ContainerView<'_>],
) -> Result<Option<PodAsk>, Violations> {
    let mut asks = Vec::new();
    let mut violations = Vec::new();
    for container in containers {
        match validate_container(dialects, container) {
            Ok(ask) => asks.extend(ask),
            Err(found) => violations.extend(found),
        }
    }
    if !violations.is_empty() {
        return Err(Violations(violations));
    }
    let class = dialects.class.name.clone();
    Ok((!asks.is_empty()).then_some(PodAsk {
        class,
        containers: asks,
    }))
}

fn validate_container(
    dialects: &Dialects,
    container: &ContainerView<'_>,
) -> Result<Option<ContainerAsk>, Vec<Violation>> {
    let used: Vec<&Dialect> = dialects
        .dialects
        .iter()
        .filter(|dialect| {
            container.limit(dialect.amount).is_some()
                || dialect
                    .slot
                    .is_some_and(|slot| container.limit(slot).is_some())
        })
        .collect();
    let mut violations = Vec::new();
    if let [first, second, ..] = used.as_slice() {
        violations.push(Violation {
            container: container.name.to_owned(),
            field: second.amount,
            value: container
                .limit(second.amount)
                .unwrap_or_default()
                .to_owned(),
            problem: format!("stands beside {} in one container", first.amount),
            fix: "keep the resources of one dialect only".to_owned(),
        });
    }
    let mut found = None;
    for dialect in used {
        match read(dialect, container) {
            Ok(amounts) => found = Some((dialect, amounts)),
            Err(mut more) => violations.append(&mut more),
        }
    }
    if !violations.is_empty() {
        return Err(violations);
    }
    Ok(found.map(|(dialect, amounts)| ContainerAsk {
        container: container.name.to_owned(),
        role: container.role,
        dialect: dialect.name,
        amounts,
    }))
}

fn read(dialect: &Dialect, container: &ContainerView<'_>) -> Result<Amounts, Vec<Violation>> {
    let violation = |field, value: &str, problem: String, fix: String| Violation {
        container: container.name.to_owned(),
        field,
        value: value.to_owned(),
        problem,
        fix,
    };
    let mut violations = Vec::new();
    if let Some(slot) = dialect.slot {
        let problem = match container.limit(slot).map(|text| (text, count(text))) {
            None => Some(("", "is missing".to_owned())),
            Some((_, Ok(1))) => None,
            Some((text, Ok(_))) => Some((text, "is not one card".to_owned())),
            Some((text, Err(error))) => Some((text, error.to_string())),
        };
        if let Some((value, problem)) = problem {
            let fix = format!("write {slot}: 1 beside {}", dialect.amount);
            violations.push(violation(slot, value, problem, fix));
        }
    }
    let Dialect {
        amount: field,
        unit,
        ..
    } = dialect;
    match container.limit(field) {
        None => violations.push(violation(
            field,
            "",
            "is missing".to_owned(),
            format!("write how many {unit} of the card the container needs"),
        )),
        Some(text) => match amount(dialect, text) {
            Ok(amounts) if violations.is_empty() => return Ok(amounts),
            Ok(_) => {}
            Err((problem, fix)) => violations.push(violation(field, text, problem, fix)),
        },
    }
    Err(violations)
}

fn count(text: &str) -> Result<u64, QuantityError> {
    Quantity::parse(text)?.count()
}

/// The amount on the card, or (problem, fix).
fn amount(dialect: &Dialect, text: &str) -> Result<Amounts, (String, String)> {
    let unit = dialect.unit;
    let plain = format!("write a plain number of {unit}");
    let units = count(text).map_err(|error| (error.to_string(), plain))?;
    if units == 0 {
        return Err((
            "asks for nothing".to_owned(),
            format!("write at least 1 {unit}, or remove it if the container needs no card"),
        ));
    }
    let amount = units
        .checked_mul(dialect.per_unit)
        .filter(|amount| *amount <= dialect.largest_plausible)
        .ok_or_else(|| {
            (
                format!("means {units} {unit}, more than any card has"),
                format!("the unit is {unit}: write a plain number of {unit} without a suffix"),
            )
        })?;
    Ok(Amounts::of(dialect.dimension, amount))
}

#[cfg(test)]
mod tests;
