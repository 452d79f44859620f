//! Tables of the simulator: numbers within their ranges, rows that exist, and names that are unchanged by quoting.
//!
//! Input: the tables of nodes, of pods, and of arrivals for seed 42, with a line `--` between them.

use gpushare_sim::table::{Source, TableError};
use gpushare_sim::trace::{self, Arrivals, CARD, Node, Pod};

use super::on_text;
use crate::Verdict;

const SEED: u64 = 42;

pub(crate) fn check(data: &[u8]) -> Verdict {
    on_text(data, |text| {
        let mut parts = text.split("\n--\n").map(source);
        let (nodes, pods, arrivals) = (parts.next(), parts.next(), parts.next());
        let read = read(
            &nodes.unwrap_or_else(|| source("")),
            &pods.unwrap_or_else(|| source("")),
            &arrivals.unwrap_or_else(|| source("")),
        );
        let Ok((nodes, pods, arrivals)) = &read else {
            return Verdict::Refused;
        };
        check_ranges(nodes, pods, arrivals);
        let written: String = nodes.iter().map(line).collect();
        let written = source(&format!("sn,cpu_milli,memory_mib,gpu,model\n{written}"));
        let again = trace::read_nodes(&written).expect("what was written can be read");
        assert_eq!(*nodes, again);
        Verdict::Accepted
    })
}

fn source(text: &str) -> Source {
    Source {
        file: "input".into(),
        text: text.to_owned(),
    }
}

fn read(
    nodes: &Source,
    pods: &Source,
    arrivals: &Source,
) -> Result<(Vec<Node>, Vec<Pod>, Arrivals), TableError> {
    let nodes = trace::read_nodes(nodes)?;
    let pods = trace::read_pods(pods)?;
    let arrivals = trace::read_arrivals(arrivals, SEED, pods.len(), nodes.len())?;
    Ok((nodes, pods, arrivals))
}

fn check_ranges(nodes: &[Node], pods: &[Pod], arrivals: &Arrivals) {
    for node in nodes {
        assert!(node.cpu >= 0 && node.memory >= 0 && node.cards <= 64);
    }
    for pod in pods {
        assert!(pod.cpu >= 0 && pod.memory >= 0);
        match pod.cards {
            0 => assert_eq!(pod.milli, 0),
            1 => assert!((1..=CARD).contains(&pod.milli)),
            _ => assert_eq!(pod.milli, CARD),
        }
    }
    assert!(arrivals.pods.iter().all(|row| *row < pods.len()));
    let mut rows = arrivals.nodes.clone();
    rows.sort_unstable();
    assert!(rows.into_iter().eq(0..nodes.len()), "each node once");
}

fn line(node: &Node) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    let Node {
        name,
        cpu,
        memory,
        cards,
        model,
    } = node;
    let (name, model) = (quoted(name), quoted(model));
    format!("{name},{cpu},{memory},{cards},{model}\n")
}
