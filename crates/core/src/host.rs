//! What pods use of a node besides its cards: CPU and memory. The scheduler decides whether they fit;
//! packing needs to know what is left, so that free cards do not end up without CPU and memory.

use crate::quantity::Quantity;

/// CPU in thousandths of a core and memory in MiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Host {
    pub cpu: i64,
    pub memory: i64,
}

const MIB: i64 = 1024 * 1024;

impl Host {
    /// CPU in thousandths of a core and memory in bytes.
    pub fn of(cpu: i64, bytes: i64) -> Self {
        Self {
            cpu,
            memory: bytes / MIB,
        }
    }

    /// Parses quantities as written in a manifest; one that cannot be parsed counts as zero.
    pub fn read(cpu: Option<&str>, memory: Option<&str>) -> Self {
        let read = |text: Option<&str>, per_unit| {
            let quantity = text.and_then(|text| Quantity::parse(text).ok());
            quantity.map_or(0, |quantity| quantity.rounded_up(per_unit))
        };
        Self::of(read(cpu, 1_000), read(memory, 1))
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_counts_as_nothing() {
        assert_eq!(Host::read(Some("many"), Some("-1Gi")), Host::default());
    }
}
