//! Explain: why the nodes of a cluster cannot take a pod, grouped so that a person can read it and a
//! program can act on it.
//!
//! Nodes with the same kind of reason form one group. The group keeps the numbers of the node that
//! lacks least, because they tell the user the smallest change that would help.

mod help;
mod report;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::ids::NodeName;
use crate::why::Why;

pub use report::{CardDetail, GroupReport, Kind, Lack, Obstacle, Report};

/// How many node names a group keeps; the other nodes are only counted.
pub const MOST_NAMED: usize = 20;
/// An explanation must fit into an Event, which holds 1024 bytes.
const LONGEST_TEXT: usize = 900;

/// Collects the answers of the nodes one by one.
#[derive(Debug, Default)]
pub struct Tally {
    nodes: usize,
    fitting: Names,
    groups: BTreeMap<Why, Gathered>,
}

#[derive(Debug)]
struct Gathered {
    best: Why,
    same: bool,
    nodes: Names,
}

/// How many nodes, and the names of those that lack least.
#[derive(Debug, Default)]
struct Names {
    count: usize,
    first: BTreeSet<(u64, NodeName)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// How many nodes were looked at.
    pub nodes: usize,
    /// The nodes that can take the pod.
    pub fitting: Nodes,
    /// The largest group first.
    pub groups: Vec<Group>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nodes {
    pub count: usize,
    /// At most [`MOST_NAMED`]; those that lack least come first.
    pub names: Vec<NodeName>,
}

/// Nodes that do not take the pod for the same kind of reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The reason of the node that lacks least.
    pub why: Why,
    /// Whether all nodes have exactly this reason.
    pub same: bool,
    pub nodes: Nodes,
}

impl Names {
    fn add(&mut self, lack: u64, node: &NodeName) {
        self.count += 1;
        self.first.insert((lack, node.clone()));
        if self.first.len() > MOST_NAMED {
            self.first.pop_last();
        }
    }

    fn finish(self) -> Nodes {
        Nodes {
            count: self.count,
            names: self.first.into_iter().map(|(_, name)| name).collect(),
        }
    }
}

impl Tally {
    /// Adds a node: that it can take the pod, or why not. Call it once per node, in any order.
    pub fn add(&mut self, node: &NodeName, verdict: Result<(), Why>) {
        self.nodes += 1;
        let Err(why) = verdict else {
            self.fitting.add(0, node);
            return;
        };
        let (why, lack) = (why.as_said(), why.lack());
        let group = self.groups.entry(why.kind()).or_insert_with(|| Gathered {
            best: why.clone(),
            same: true,
            nodes: Names::default(),
        });
        group.nodes.add(lack, node);
        group.same &= why == group.best;
        // Compare the reasons too if both lack the same, so that the order of nodes does not decide.
        if (lack, &why) < (group.best.lack(), &group.best) {
            group.best = why;
        }
    }

    pub fn finish(self) -> Explanation {
        let mut groups: Vec<Group> = self
            .groups
            .into_values()
            .map(|Gathered { best, same, nodes }| Group {
                why: best,
                same,
                nodes: nodes.finish(),
            })
            .collect();
        groups.sort_by(|a, b| {
            let size = |group: &Group| group.nodes.count;
            size(b).cmp(&size(a)).then_with(|| a.why.cmp(&b.why))
        });
        Explanation {
            nodes: self.nodes,
            fitting: self.fitting.finish(),
            groups,
        }
    }
}

impl Group {
    /// The reason, worded for all nodes of the group.
    pub fn reason(&self) -> String {
        if self.same {
            self.why.to_string()
        } else {
            self.why.of_several()
        }
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", counted(self.nodes.count), self.reason())
    }
}

/// One line; groups that do not fit are only counted.
impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = match (self.nodes, self.fitting.count) {
            (0, _) => "no node is known".to_owned(),
            (_, 0) => String::new(),
            (_, fitting) => format!("{}: can take the pod", counted(fitting)),
        };
        let mut groups = self.groups.iter();
        for group in groups.by_ref() {
            let next = group.to_string();
            if !text.is_empty() && text.len() + next.len() > LONGEST_TEXT {
                let left: usize = groups.map(|group| group.nodes.count).sum();
                let left = counted(left + group.nodes.count);
                text.extend(["; ", &left, ": other reasons"]);
                break;
            }
            if !text.is_empty() {
                text.push_str("; ");
            }
            text.push_str(&next);
        }
        f.write_str(&text)
    }
}

fn counted(nodes: usize) -> String {
    format!("{nodes} node{}", if nodes == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests;
