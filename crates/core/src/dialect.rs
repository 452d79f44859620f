//! Dialects: the resource names and units in which families of manifests ask for cards, as data.

use std::sync::Arc;

use serde::Deserialize;

use crate::amounts::{Amounts, Classes, DeviceClass};

/// One family of resource names for cards of one class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dialect {
    pub name: Arc<str>,
    pub class: Arc<str>,
    /// The resource that counts cards. Without one, or if it is left out, the container gets one card.
    pub count: Option<Count>,
    pub parts: Vec<PartRule>,
    /// Whether a part of zero counts as left out; otherwise it is refused.
    pub zero_is_absent: bool,
}

/// The resource that counts cards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Count {
    pub resource: Arc<str>,
    /// Whether it must be given: the kubelet calls our device plugin for a container only through this resource.
    pub required: bool,
    /// Whether asking for cards without any part means whole cards; otherwise such a request is refused.
    pub whole_alone: bool,
}

/// A resource that asks for a part of each card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartRule {
    pub resource: Arc<str>,
    /// Which dimension of the class it fills.
    pub dimension: usize,
    pub scale: Scale,
    /// What it means if the container names no resource of this dimension. The first rule of a dimension decides.
    pub absent: PartDefault,
}

/// What one unit of the resource means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scale {
    /// A fixed number of the dimension's units.
    Units {
        unit: Arc<str>,
        each: u64,
        /// A value of more than this many of the dimension's units must be in the wrong unit and is refused.
        most: u64,
    },
    /// One percent of the card, whatever its size.
    Percent,
    /// One percent of the dimension. Multiples of 100 request whole cards; the other parts then cap usage on them.
    Hundreds,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartDefault {
    Refused,
    Nothing,
    All,
}

/// What an annotation of a pod chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Chooses {
    Policy,
    Models,
    NotModels,
    /// Models that contain the text, as HAMi reads it.
    ModelsLike,
    NotModelsLike,
    Ids,
    NotIds,
}

/// An annotation with which pods choose among the cards of a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chooser {
    pub annotation: Arc<str>,
    pub class: Arc<str>,
    pub chooses: Chooses,
}

/// Everything that pods of a cluster may ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dialects {
    pub classes: Classes,
    pub dialects: Vec<Dialect>,
    pub choosers: Vec<Chooser>,
    /// The policies that a pod may name.
    pub policies: Vec<Arc<str>>,
}

impl PartRule {
    /// How many units of the resource a card of this capacity has, rounded down: a unit never spans two cards.
    pub fn units_of(&self, capacity: &Amounts) -> u64 {
        match &self.scale {
            Scale::Units { each, .. } => capacity.get(self.dimension) / (*each).max(1),
            Scale::Percent | Scale::Hundreds => 100,
        }
    }
}

impl Dialect {
    /// Every resource name of the dialect.
    pub fn resources(&self) -> impl Iterator<Item = &Arc<str>> {
        let count = self.count.as_ref().map(|count| &count.resource);
        count
            .into_iter()
            .chain(self.parts.iter().map(|part| &part.resource))
    }
}

impl Dialects {
    /// Every resource name that makes gpushare responsible for placing a pod.
    pub fn resources(&self) -> impl Iterator<Item = &Arc<str>> {
        self.dialects.iter().flat_map(Dialect::resources)
    }

    pub fn class(&self, name: &str) -> Option<&DeviceClass> {
        self.classes.get(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_has_only_whole_units_and_always_a_hundred_percent() {
        let units = |scale| {
            let rule = PartRule {
                resource: "test.io/part".into(),
                dimension: 0,
                scale,
                absent: PartDefault::Nothing,
            };
            rule.units_of(&Amounts::of(0, 15_109))
        };
        let blocks = Scale::Units {
            unit: "blocks".into(),
            each: 256,
            most: u64::MAX,
        };
        assert_eq!(units(blocks), 59);
        assert_eq!(units(Scale::Percent), 100);
        assert_eq!(units(Scale::Hundreds), 100);
    }
}
