//! A dialect: the resource names and units in which one family of manifests asks for a share of a card.

use crate::amounts::DeviceClass;

/// How one resource of a pod's limits turns into an amount on one card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dialect {
    pub name: &'static str,
    /// The resource that carries the amount.
    pub amount: &'static str,
    /// The dimension of the class that it fills.
    pub dimension: usize,
    /// The unit users count in, for messages.
    pub unit: &'static str,
    /// How many of the dimension's units one of the users' is.
    pub per_unit: u64,
    /// Past this many of the dimension's units a value is a mistake of unit, not a request.
    pub largest_plausible: u64,
    /// The resource through which the kubelet tells us of the container, where the amount itself is not
    /// served by the device plugin. It must stand beside the amount.
    pub slot: Option<&'static str>,
}

/// The dialects of one device class, as configured for a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dialects {
    pub class: DeviceClass,
    pub dialects: Vec<Dialect>,
}

impl Dialects {
    pub fn get(&self, name: &str) -> Option<&Dialect> {
        self.dialects.iter().find(|dialect| dialect.name == name)
    }

    /// Every resource name that makes a pod ours to place.
    pub fn resources(&self) -> impl Iterator<Item = &'static str> {
        self.dialects
            .iter()
            .flat_map(|dialect| [Some(dialect.amount), dialect.slot])
            .flatten()
    }
}
