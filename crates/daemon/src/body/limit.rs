//! How large a body may be: as a flag says, or as large as a cluster of so many nodes needs.

use std::fmt;

use super::MIB;

/// A pod, and what else does not grow with the cluster.
const BASE: usize = 16 * MIB;
/// A node as kube-scheduler sends it: mostly the names of images, of which the kubelet reports 50.
const PER_NODE: usize = 32 * 1024;

pub enum Limit {
    Fixed(usize),
    /// By how many nodes there are now.
    ByNodes(Box<dyn Fn() -> usize + Send + Sync>),
}

/// The limit at some moment; written as a refusal names it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Largest {
    pub(super) bytes: usize,
    nodes: Option<usize>,
}

impl Limit {
    /// The limit as far as it matters for a body of this length: nodes are counted for large ones only.
    pub(super) fn for_length(&self, length: usize) -> Largest {
        match self {
            Self::Fixed(bytes) => Largest {
                bytes: *bytes,
                nodes: None,
            },
            Self::ByNodes(count) => {
                let nodes = if length > BASE { count() } else { 0 };
                Largest {
                    bytes: PER_NODE.saturating_mul(nodes).saturating_add(BASE),
                    nodes: Some(nodes),
                }
            }
        }
    }
}

impl fmt::Debug for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(bytes) => f.debug_tuple("Fixed").field(bytes).finish(),
            Self::ByNodes(_) => f.write_str("ByNodes"),
        }
    }
}

impl fmt::Display for Largest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kib = self.bytes / 1024;
        match self.nodes {
            None => write!(f, "{kib} KiB (--max-body-mib)"),
            Some(nodes) => write!(
                f,
                "{kib} KiB, which is {} MiB and {} KiB for each of {nodes} nodes (--max-body-mib sets another limit)",
                BASE / MIB,
                PER_NODE / 1024
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_of_many_nodes_may_send_them_all_and_a_small_one_as_much_as_it_has() {
        let largest = |nodes| Limit::ByNodes(Box::new(move || nodes)).for_length(usize::MAX);
        assert_eq!(largest(0).bytes, 16 * MIB);
        assert_eq!(largest(5000).bytes, 16 * MIB + 5000 * 32 * 1024);
        assert_eq!(
            largest(2).to_string(),
            "16448 KiB, which is 16 MiB and 32 KiB for each of 2 nodes (--max-body-mib sets another limit)"
        );
        assert_eq!(
            Limit::Fixed(MIB).for_length(1).to_string(),
            "1024 KiB (--max-body-mib)"
        );
    }
}
