//! How large a body may be: as set by a flag, or as large as the number of nodes requires.

use std::fmt;

use super::MIB;

/// For a pod, and everything else that does not grow with the cluster.
const BASE: usize = 16 * MIB;
/// For a node as kube-scheduler sends it: mostly the names of images, of which the kubelet reports 50.
const PER_NODE: usize = 32 * 1024;

pub enum Limit {
    Fixed(usize),
    /// Depends on the current number of nodes.
    ByNodes(Box<dyn Fn() -> usize + Send + Sync>),
}

/// The limit at one moment; it displays as a refusal states it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Largest {
    pub(super) bytes: usize,
    nodes: Option<usize>,
}

impl Limit {
    /// The limit for a body of this length: nodes are counted only if it is large.
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
