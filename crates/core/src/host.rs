//! What pods use of a node besides its cards: CPU and memory. The scheduler decides whether they fit;
//! packing needs to know what is left, so that free cards do not end up without CPU and memory.

use crate::amounts::Amounts;
use crate::quantity::Quantity;
use crate::request::{Role, peak};

/// CPU in thousandths of a core and memory in MiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Host {
    pub cpu: i64,
    pub memory: i64,
}

const CPU: usize = 0;
const BYTES: usize = 1;
const MIB: i64 = 1024 * 1024;

impl Host {
    /// Parses quantities as written in a manifest; one that cannot be parsed counts as zero.
    pub fn read(cpu: Option<&str>, memory: Option<&str>) -> Self {
        Self::of(&amounts(cpu, memory))
    }

    /// The most that a pod uses at any moment: `containers` in the order in which they start, with
    /// their CPU and memory requests, plus the `overhead` of the runtime.
    pub fn peak<'a>(
        containers: impl Iterator<Item = (Role, Option<&'a str>, Option<&'a str>)>,
        overhead: Self,
    ) -> Self {
        let held = containers.map(|(role, cpu, memory)| (role, amounts(cpu, memory)));
        Self::of(&peak(held)).plus(overhead)
    }

    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            cpu: self.cpu.saturating_add(other.cpu),
            memory: self.memory.saturating_add(other.memory),
        }
    }

    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self {
            cpu: self.cpu.saturating_sub(other.cpu),
            memory: self.memory.saturating_sub(other.memory),
        }
    }

    fn of(amounts: &Amounts) -> Self {
        let number = |dimension| i64::try_from(amounts.get(dimension)).unwrap_or(i64::MAX);
        Self {
            cpu: number(CPU),
            memory: number(BYTES) / MIB,
        }
    }
}

fn amounts(cpu: Option<&str>, memory: Option<&str>) -> Amounts {
    let read = |text: Option<&str>, per_unit| {
        let quantity = text.and_then(|text| Quantity::parse(text).ok());
        quantity.map_or(0, |quantity| quantity.rounded_up(per_unit).unsigned_abs())
    };
    Amounts::of(CPU, read(cpu, 1_000)).with(BYTES, read(memory, 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_takes_the_peak_of_its_containers_and_the_overhead() {
        let containers = [
            (Role::Init, Some("3"), Some("1Gi")),
            (Role::App, Some("500m"), Some("2Gi")),
            (Role::App, Some("1"), None),
        ];
        let overhead = Host {
            cpu: 10,
            memory: 16,
        };
        let expected = Host {
            cpu: 3_010,
            memory: 2_064,
        };
        assert_eq!(Host::peak(containers.into_iter(), overhead), expected);
    }

    #[test]
    fn what_cannot_be_read_counts_as_nothing() {
        assert_eq!(Host::read(Some("many"), Some("-1Gi")), Host::default());
    }
}
