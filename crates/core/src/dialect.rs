//! Dialects: the resource names and units in which families of manifests ask for cards, as data.

use std::sync::Arc;

use serde::Deserialize;

use crate::amounts::{Amounts, Classes, DeviceClass};

/// One family of resource names for cards of one class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dialect {
    pub name: Arc<str>,
    pub class: Arc<str>,
    /// The resource that counts cards; one card where there is none or it is left out.
    pub count: Option<Count>,
    pub parts: Vec<PartRule>,
    /// A part of zero is as good as none; otherwise it is a mistake.
    pub zero_is_absent: bool,
}

/// The resource that counts cards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Count {
    pub resource: Arc<str>,
    /// It is through this resource that the kubelet tells us of the container: it must not be left out.
    pub required: bool,
    /// Asking for cards and for no part of them means whole cards; otherwise it is refused.
    pub whole_alone: bool,
}

/// A resource that asks for a part of each card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartRule {
    pub resource: Arc<str>,
    /// Which dimension of the class it fills.
    pub dimension: usize,
    pub scale: Scale,
    /// What it means when neither this nor another resource of the dimension is there. The first rule of
    /// a dimension decides.
    pub absent: Absent,
}

/// What one of the users' units is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scale {
    /// So many of the dimension's units.
    Units {
        unit: Arc<str>,
        each: u64,
        /// Past this many of the dimension's units a value is a mistake of unit, not a request.
        most: u64,
    },
    /// A percent of the card, whatever its size.
    Percent,
    /// A hundredth of the dimension's 100; full hundreds are whole cards, of which the other parts then
    /// limit the use.
    Hundreds,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absent {
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
    /// How many of the users' units a card of this capacity has. What is left over is too small for one
    /// more, and a unit never lies on two cards.
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
    /// Every resource name that makes a pod ours to place.
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
                absent: Absent::Nothing,
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
