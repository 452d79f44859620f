//! Traces: nodes, pods, and the order in which pods arrive.
//!
//! The format is that of the published "openb" traces: cards are counted in thousandths, and a pod asks
//! for `num_gpu` cards with `gpu_milli` of each; several cards are always whole cards.

use std::path::Path;

use crate::random::Random;
use crate::table::{Row, Source, Table, TableError};

/// Thousandths of a card.
pub const CARD: i64 = 1_000;
/// More than any machine has, and small enough that sums never overflow.
const MOST: i64 = 1 << 40;
const MOST_CARDS: i64 = 64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub name: String,
    pub cpu: i64,
    pub memory: i64,
    pub cards: usize,
    pub model: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    pub name: String,
    pub cpu: i64,
    pub memory: i64,
    pub cards: u32,
    /// Thousandths of each card.
    pub milli: i64,
    /// Allowed models; none means any.
    pub models: Vec<String>,
}

impl Pod {
    /// Thousandths of all cards together.
    pub fn gpu(&self) -> i64 {
        i64::from(self.cards) * self.milli
    }
}

/// Pod rows in the order of arrival, and node rows in the order in which ties are broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrivals {
    pub seed: u64,
    pub pods: Vec<usize>,
    pub nodes: Vec<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    pub nodes: Vec<Node>,
    pub pods: Vec<Pod>,
    pub arrivals: Arrivals,
}

impl Trace {
    /// Thousandths of all cards of all nodes.
    pub fn capacity(&self) -> i64 {
        let cards: usize = self.nodes.iter().map(|node| node.cards).sum();
        i64::try_from(cards).unwrap_or(0) * CARD
    }

    /// Thousandths of cards that all arrivals ask for together.
    pub fn asked(&self) -> i64 {
        let pods = self.arrivals.pods.iter();
        pods.filter_map(|row| self.pods.get(*row))
            .map(Pod::gpu)
            .sum()
    }

    /// Without a file of arrivals, the seed shuffles the pods repeatedly until they ask for 1.3 times
    /// the cluster.
    pub fn open(
        nodes: &Path,
        pods: &Path,
        arrivals: Option<&Path>,
        seed: u64,
    ) -> Result<Self, TableError> {
        let mut trace = Self {
            nodes: read_nodes(&Source::open(nodes)?)?,
            pods: read_pods(&Source::open(pods)?)?,
            arrivals: Arrivals {
                seed,
                pods: Vec::new(),
                nodes: Vec::new(),
            },
        };
        trace.arrivals = match arrivals {
            Some(file) => {
                let source = Source::open(file)?;
                read_arrivals(&source, seed, trace.pods.len(), trace.nodes.len())?
            }
            None => trace.shuffled(seed),
        };
        Ok(trace)
    }

    /// Arrivals drawn from the seed alone.
    pub fn shuffled(&self, seed: u64) -> Arrivals {
        let mut random = Random::new(seed);
        let mut pods = Vec::new();
        let target = self.capacity() * 13 / 10;
        let mut asked = 0;
        let all: i64 = self.pods.iter().map(Pod::gpu).sum();
        while asked <= target {
            let mut round: Vec<usize> = (0..self.pods.len()).collect();
            random.shuffle(&mut round);
            for index in round {
                pods.push(index);
                asked += self.pods.get(index).map_or(0, Pod::gpu);
                if asked > target {
                    break;
                }
            }
            if all == 0 {
                break;
            }
        }
        Arrivals {
            seed,
            pods,
            nodes: (0..self.nodes.len()).collect(),
        }
    }
}

pub fn read_nodes(source: &Source) -> Result<Vec<Node>, TableError> {
    let needed = ["sn", "cpu_milli", "memory_mib", "gpu", "model"];
    read(source, &needed, |row| {
        Ok(Node {
            name: row.text("sn").to_owned(),
            cpu: row.number("cpu_milli", 0..=MOST)?,
            memory: row.number("memory_mib", 0..=MOST)?,
            cards: usize::try_from(row.number("gpu", 0..=MOST_CARDS)?).unwrap_or(0),
            model: row.text("model").to_owned(),
        })
    })
}

pub fn read_pods(source: &Source) -> Result<Vec<Pod>, TableError> {
    let needed = ["name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"];
    read(source, &needed, |row| {
        let cards = row.number("num_gpu", 0..=MOST_CARDS)?;
        let least = i64::from(cards > 0);
        let milli = row.number("gpu_milli", least..=CARD)?;
        if cards > 1 && milli < CARD {
            let expected = "several cards are always whole: expected 1000";
            return Err(row.unexpected("gpu_milli", expected));
        }
        let models = row.text("gpu_spec").split('|');
        Ok(Pod {
            name: row.text("name").to_owned(),
            cpu: row.number("cpu_milli", 0..=MOST)?,
            memory: row.number("memory_mib", 0..=MOST)?,
            cards: u32::try_from(cards).unwrap_or(0),
            milli: if cards > 0 { milli } else { 0 },
            models: models
                .filter(|model| !model.is_empty())
                .map(str::to_owned)
                .collect(),
        })
    })
}

/// Reads something from each row of a table with these columns.
fn read<T>(
    source: &Source,
    needed: &[&str],
    of: impl Fn(Row<'_>) -> Result<T, TableError>,
) -> Result<Vec<T>, TableError> {
    Table::parse(source, needed)?.rows().map(of).collect()
}

/// Reads the line of this seed: seed, pod rows and node rows, separated by tabs; rows are counted from 0.
pub fn read_arrivals(
    source: &Source,
    seed: u64,
    pods: usize,
    nodes: usize,
) -> Result<Arrivals, TableError> {
    let mut seeds = Vec::new();
    let mut last = 1;
    for (line, text) in source.lines() {
        last = line;
        let fields: Vec<&str> = text.split('\t').collect();
        let [own, pod_rows, node_rows] = fields.as_slice() else {
            let problem = format!(
                "{} fields separated by tabs: expected seed, pod rows and node rows",
                fields.len()
            );
            return Err(source.problem(line, problem));
        };
        let Ok(own) = own.trim().parse::<u64>() else {
            return Err(source.unexpected(line, "seed", "expected a whole number", own));
        };
        if own != seed {
            seeds.push(own.to_string());
            continue;
        }
        let nodes_in_order = rows(source, line, "nodes", node_rows, nodes)?;
        let mut sorted = nodes_in_order.clone();
        sorted.sort_unstable();
        sorted.dedup();
        if sorted.len() != nodes || nodes_in_order.len() != nodes {
            let (found, distinct) = (nodes_in_order.len(), sorted.len());
            let problem =
                format!("{found} node rows, {distinct} distinct: expected each of {nodes} once");
            return Err(source.problem(line, problem));
        }
        return Ok(Arrivals {
            seed,
            pods: rows(source, line, "pods", pod_rows, pods)?,
            nodes: nodes_in_order,
        });
    }
    let problem = if seeds.is_empty() {
        format!("empty: expected a line {seed} TAB pod rows TAB node rows")
    } else {
        let seeds = seeds.join(", ");
        format!("no line for seed {seed}: add one, or give --seed one of {seeds}")
    };
    Err(source.problem(last, problem))
}

fn rows(
    source: &Source,
    line: usize,
    column: &str,
    text: &str,
    count: usize,
) -> Result<Vec<usize>, TableError> {
    text.split(',')
        .map(str::trim)
        .filter(|field| !field.is_empty())
        .map(|field| match field.parse() {
            Ok(row) if row < count => Ok(row),
            _ => {
                let expected = format!("expected a row below {count}");
                Err(source.unexpected(line, column, expected, field))
            }
        })
        .collect()
}
