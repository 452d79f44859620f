//! The packing policy through the real kube-scheduler: as good as in the simulator, whatever the scheduler itself
//! would have preferred.
//!
//! Pods of a trace arrive one by one at a cluster of Node objects; each is bound or refused before the next
//! comes. `GPUSHARE_TRACE` names a directory with a published trace, of which a sample is taken; without it
//! the trace is synthetic.

use std::path::{Path, PathBuf};

use e2e::fleet::{Fleet, Outcome};
use gpushare_packing::policy::{self, Policy};
use gpushare_sim::progress::Progress;
use gpushare_sim::trace::{Pod, Trace};
use gpushare_sim::{fill, synth};

const NODES: usize = 60;
/// What all pods together ask for, in percent of the cluster's capacity.
const DEMAND_PERCENT: i64 = 130;

/// A sample: some nodes, and the pods that arrive at them.
fn sample() -> Trace {
    let all = match std::env::var_os("GPUSHARE_TRACE") {
        Some(directory) => published(&PathBuf::from(directory)),
        None => synth::trace(NODES, 2_000, 7),
    };
    let rows: Vec<usize> = all.arrivals.nodes.iter().copied().take(NODES).collect();
    let mut sample = Trace {
        nodes: rows.iter().map(|row| all.nodes[*row].clone()).collect(),
        pods: Vec::new(),
        arrivals: all.arrivals.clone(),
    };
    let wanted = sample.capacity() * DEMAND_PERCENT / 100;
    let mut arrived = 0;
    for row in &all.arrivals.pods {
        if arrived >= wanted {
            break;
        }
        arrived += all.pods[*row].gpu();
        sample.pods.push(all.pods[*row].clone());
    }
    sample.arrivals.pods = (0..sample.pods.len()).collect();
    sample.arrivals.nodes = (0..NODES).collect();
    assert!(sample.pods.len() >= 300, "{} pods", sample.pods.len());
    sample
}

fn published(directory: &Path) -> Trace {
    let nodes = directory.join("openb_node_list_gpu_node.csv");
    let pods = directory.join("openb_pod_list_default.csv");
    let arrivals = directory.join("arrivals/default.tsv");
    Trace::open(&nodes, &pods, Some(&arrivals), 42).unwrap()
}

/// The part of the cards that the pods got, in percent.
fn allocated(trace: &Trace, placed: impl Iterator<Item = bool>) -> f64 {
    let pods = trace.pods.iter().zip(placed);
    let sum: i64 = pods
        .filter(|(_, placed)| *placed)
        .map(|(pod, _)| pod.gpu())
        .sum();
    let percent = |part: i64| f64::from(i32::try_from(part).unwrap()) * 100.0;
    percent(sum) / f64::from(i32::try_from(trace.capacity()).unwrap())
}

fn simulated(trace: &Trace, policy: Policy) -> f64 {
    let progress = Progress::new(trace.pods.len(), policy.name);
    let report = fill::run(trace, policy, &progress).unwrap();
    let (_, last) = report.curve.last().unwrap();
    *last
}

fn scheduled(trace: &Trace, policy: Policy) -> f64 {
    let mut fleet = Fleet::start(&trace.nodes, &["--policy", policy.name]);
    let mut placed = Vec::new();
    for pod in &trace.pods {
        placed.push(matches!(fleet.arrive(pod), Outcome::Bound(_)));
    }
    fleet.assert_alive();
    allocated(trace, placed.into_iter())
}

#[test]
fn the_schedulers_cluster_gets_as_full_as_the_simulators() {
    let trace = sample();
    let expected = simulated(&trace, policy::LEARNED);
    let found = scheduled(&trace, policy::LEARNED);
    eprintln!(
        "{} pods on {NODES} nodes: simulator {expected:.2} %, kube-scheduler {found:.2} %",
        trace.pods.len()
    );
    assert!(
        (expected - found).abs() <= 0.3,
        "{expected:.2} and {found:.2}"
    );
}

fn small(cards: usize) -> Trace {
    let mut trace = synth::trace(6, 1, 1);
    for node in &mut trace.nodes {
        node.cards = cards;
        (node.cpu, node.memory) = (64_000, 256 * 1_024);
        "A10".clone_into(&mut node.model);
    }
    trace
}

fn share(name: &str) -> Pod {
    Pod {
        name: name.to_owned(),
        cpu: 1_000,
        memory: 1_024,
        cards: 1,
        milli: 300,
        models: Vec::new(),
    }
}

/// The nodes on which successive pods land.
fn nodes_of(policy: &str) -> Vec<String> {
    let mut fleet = Fleet::start(&small(2).nodes, &["--policy", policy]);
    let pods = (0..6).map(|number| share(&format!("p{number}")));
    let mut nodes: Vec<String> = pods
        .map(|pod| match fleet.arrive(&pod) {
            Outcome::Bound(node) => Ok(node),
            Outcome::Refused => Err(pod.name),
        })
        .collect::<Result<_, _>>()
        .unwrap();
    nodes.dedup();
    nodes
}

#[test]
fn binpack_fills_one_node_and_spread_uses_all_of_them() {
    assert_eq!(nodes_of("binpack").len(), 1);
    let mut spread = nodes_of("spread");
    spread.sort();
    spread.dedup();
    assert_eq!(spread.len(), 6);
}
