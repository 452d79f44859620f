//! Synthetic traces from a seed: small clusters with the traits of real ones, so that tests need no
//! external data.

use crate::random::Random;
use crate::trace::{Arrivals, CARD, Node, Pod, Trace};

/// Kinds of nodes: model, cards, cores, GiB, and share in percent.
const NODES: [(&str, usize, i64, i64, usize); 4] = [
    ("large", 8, 96, 768, 45),
    ("large", 4, 64, 384, 10),
    ("small", 2, 32, 128, 35),
    ("old", 2, 64, 256, 10),
];
/// Kinds of pods: cards, thousandths of each, fewest cores, most cores, and share in percent.
const PODS: [(u32, i64, i64, i64, usize); 9] = [
    (0, 0, 4, 32, 14),
    (1, 250, 2, 5, 9),
    (1, 400, 3, 8, 8),
    (1, 460, 4, 8, 14),
    (1, 600, 4, 10, 6),
    (1, CARD, 6, 14, 42),
    (2, CARD, 12, 24, 3),
    (4, CARD, 32, 48, 2),
    (8, CARD, 64, 96, 2),
];
/// One pod in this many names the models it can use.
const PICKY: usize = 8;

/// A trace of `nodes` nodes and `pods` pods, with arrivals for the seed.
pub fn trace(nodes: usize, pods: usize, seed: u64) -> Trace {
    let mut random = Random::new(seed);
    let mut trace = Trace {
        nodes: (0..nodes).map(|index| node(&mut random, index)).collect(),
        pods: (0..pods).map(|index| pod(&mut random, index)).collect(),
        arrivals: Arrivals {
            seed,
            pods: Vec::new(),
            nodes: Vec::new(),
        },
    };
    trace.arrivals = trace.shuffled(seed);
    random.shuffle(&mut trace.arrivals.nodes);
    trace
}

/// Draws one of the kinds, weighted by `part`.
fn draw<'a, T>(random: &mut Random, kinds: &'a [T], part: impl Fn(&T) -> usize) -> Option<&'a T> {
    let mut rest = random.below(kinds.iter().map(&part).sum());
    kinds.iter().find(|kind| {
        let found = rest < part(kind);
        rest = rest.saturating_sub(part(kind));
        found
    })
}

fn node(random: &mut Random, index: usize) -> Node {
    let kind = draw(random, &NODES, |kind| kind.4);
    let (model, cards, cores, gib, _) = kind.copied().unwrap_or(("large", 8, 96, 768, 0));
    Node {
        name: format!("node-{index:03}"),
        cpu: cores * 1_000,
        memory: gib * 1_024,
        cards,
        model: model.to_owned(),
    }
}

fn pod(random: &mut Random, index: usize) -> Pod {
    let kind = draw(random, &PODS, |kind| kind.4);
    let (cards, milli, from, to, _) = kind.copied().unwrap_or((1, CARD, 8, 8, 0));
    let steps = usize::try_from((to - from) * 2 + 1).unwrap_or(1);
    let cpu = from * 1_000 + i64::try_from(random.below(steps)).unwrap_or(0) * 500;
    let picky = cards > 0 && random.below(PICKY) == 0;
    let models: &[&str] = match (picky, cards, random.below(3)) {
        (true, 0..=2, 0) => &["small"],
        (true, 0..=2, 1) => &["old", "small"],
        (true, _, _) => &["large"],
        _ => &[],
    };
    Pod {
        name: format!("pod-{index:04}"),
        cpu,
        memory: cpu / 1_000 * 4_096,
        cards,
        milli,
        models: models.iter().map(|model| (*model).to_owned()).collect(),
    }
}

pub fn nodes_csv(trace: &Trace) -> String {
    let rows = trace.nodes.iter().map(|node| {
        format!(
            "{},{},{},{},{}\n",
            node.name, node.cpu, node.memory, node.cards, node.model
        )
    });
    csv("sn,cpu_milli,memory_mib,gpu,model\n", rows)
}

pub fn pods_csv(trace: &Trace) -> String {
    let rows = trace.pods.iter().map(|pod| {
        let models = pod.models.join("|");
        format!(
            "{},{},{},{},{},{models}\n",
            pod.name, pod.cpu, pod.memory, pod.cards, pod.milli
        )
    });
    csv(
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n",
        rows,
    )
}

fn csv(header: &str, rows: impl Iterator<Item = String>) -> String {
    std::iter::once(header.to_owned()).chain(rows).collect()
}

pub fn arrivals_tsv(arrivals: &Arrivals) -> String {
    let rows = |rows: &[usize]| {
        let rows: Vec<String> = rows.iter().map(usize::to_string).collect();
        rows.join(",")
    };
    format!(
        "{}\t{}\t{}\n",
        arrivals.seed,
        rows(&arrivals.pods),
        rows(&arrivals.nodes)
    )
}
