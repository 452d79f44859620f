//! `kubectl gpushare fit`: how many more pods of a shape fit now, and where. Reads only.
//!
//! The simulator counts ([`gpushare_sim::more`]), with the code that places pods in the cluster.

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use gpushare_core::dialect::Dialects;
use gpushare_core::names::{GPU, GPU_CORE, GPU_MEM};
use gpushare_kube::convert::PodFacts;
use gpushare_kube::slim;
use gpushare_packing::Policy;
use gpushare_sim::more::{More, Now};
use k8s_openapi::api::core::v1 as core;
use serde::Serialize;
use serde_json::{Value, json};

use crate::cluster_args::ClusterArgs;
use crate::connection::{self, NODES, Only};
use crate::from_cluster::{self, add_pod, asked};
use crate::output::{Form, Output};
use crate::tabs::align;
use crate::why;

const EXAMPLES: &str = "Examples:
  kubectl gpushare fit -f deployment.yaml                       more replicas of this
  kubectl gpushare fit --mem 3072                               pods with 3072 MiB of one card
  kubectl gpushare fit --mem 3072 --cores 30 --count 2 --cpu 4 --memory 8Gi
  kubectl gpushare fit --count 1                                whole cards
  kubectl gpushare fit --mem 3072 -o json | jq .fit

Nodes that the pod may not use (cordoned, tainted, not selected) are left out, and counted separately. Quotas and
budgets are not considered: run `why -f` for one pod.

Exit status: 0 when there is an answer, also when it is 0 pods; 1 when the cluster or the file cannot be
read; 2 when the command line is wrong.";

const FORMS: [Form; 3] = [
    (
        Output::Text,
        "How many, on which nodes, and why not one more",
    ),
    (Output::Wide, "With the nodes that are left out, and why"),
    (Output::Json, "An object for programs"),
];

#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// A manifest with a pod, or with the template of a workload; - is standard input
    #[arg(short, long, value_name = "YAML", conflicts_with_all = ["mem", "cores", "count", "cpu", "memory"])]
    file: Option<PathBuf>,
    /// GPU memory on each card, in MiB; by default whole cards
    #[arg(long, value_name = "MIB", required_unless_present_any = ["file", "count"])]
    mem: Option<u64>,
    /// Compute on each card, in percent
    #[arg(long, value_name = "PERCENT", requires = "mem")]
    cores: Option<u64>,
    /// How many cards each pod takes
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// CPU of the node
    #[arg(long, value_name = "QUANTITY")]
    cpu: Option<String>,
    /// Memory of the node
    #[arg(long, value_name = "QUANTITY")]
    memory: Option<String>,
    /// Stop after this many pods
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    most: u64,
    /// How to print
    #[arg(short, long, default_value = "text", value_parser = Output::parser(&FORMS))]
    output: Output,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// The answer for programs.
#[derive(Debug, Serialize)]
struct Report {
    fit: u64,
    nodes: Vec<Taken>,
    /// Why not one more pod fits; empty if the search stopped at its limit.
    then: Vec<Refusal>,
    /// Nodes that the pod may not use, whatever is free there.
    excluded: Vec<Excluded>,
}

#[derive(Debug, Serialize)]
struct Taken {
    node: String,
    pods: u64,
}

#[derive(Debug, Serialize)]
struct Refusal {
    nodes: u64,
    reason: String,
}

#[derive(Debug, Serialize)]
struct Excluded {
    node: String,
    reason: String,
}

pub(crate) fn run(arguments: &Arguments) -> Result<String> {
    let dialects = arguments.cluster.dialects();
    let object = match &arguments.file {
        Some(file) => from_cluster::manifest_of(file)?.pod().clone(),
        None => arguments.pod(),
    };
    let pod: slim::Pod =
        serde_json::from_value(object.clone()).context("this is not a valid pod")?;
    let facts = PodFacts::proposed(&pod, &dialects);
    let ask = asked(&facts)?;
    let (now, excluded) = connection::wait_for(read(arguments, &dialects, &object))?;
    let more = now.more(ask, facts.host, arguments.most);
    let report = Report::new(&more, excluded);
    let text = |wide| report.text(&more, wide);
    arguments.output.print(&report, text)
}

impl Arguments {
    /// The pod that the flags describe, in gpushare's dialect.
    fn pod(&self) -> Value {
        let mut limits = json!({GPU: self.count.unwrap_or(1).to_string()});
        for (name, amount) in [(GPU_MEM, self.mem), (GPU_CORE, self.cores)] {
            if let (Some(limits), Some(amount)) = (limits.as_object_mut(), amount) {
                limits.insert(name.to_owned(), json!(amount.to_string()));
            }
        }
        let requests = json!({"cpu": self.cpu, "memory": self.memory});
        let container =
            json!({"name": "shape", "resources": {"limits": limits, "requests": requests}});
        json!({"metadata": {"name": "shape"}, "spec": {"containers": [container]}})
    }
}

async fn read(
    arguments: &Arguments,
    dialects: &Dialects,
    pod: &Value,
) -> Result<(Now, Vec<Excluded>)> {
    let client = arguments.cluster.connection.client().await?;
    let mut now = Now::new(dialects.classes.clone(), Policy::default());
    let mut excluded = Vec::new();
    let judge = why::Judge::new(pod, dialects)?;
    connection::each(&client, NODES, Only::Everything, |node: core::Node| {
        match judge.may_not_use(&node) {
            Some(reason) => excluded.push(Excluded {
                node: node.metadata.name.clone().unwrap_or_default(),
                reason,
            }),
            None => from_cluster::add_node(&mut now, &slim_of(&node)?, dialects)?,
        }
        Ok(())
    })
    .await?;
    connection::each_pod(&client, |pod| add_pod(&mut now, pod, dialects)).await?;
    Ok((now, excluded))
}

fn slim_of(node: &core::Node) -> Result<slim::Node> {
    let object = serde_json::to_value(node).context("a node cannot be read")?;
    serde_json::from_value(object).context("a node cannot be read")
}

impl Report {
    fn new(more: &More, excluded: Vec<Excluded>) -> Self {
        let nodes = more.nodes.iter().map(|(node, pods)| Taken {
            node: node.clone(),
            pods: *pods,
        });
        let then = more.then.iter().map(|(nodes, reason)| Refusal {
            nodes: *nodes,
            reason: reason.clone(),
        });
        Self {
            fit: more.fit,
            nodes: nodes.collect(),
            then: then.collect(),
            excluded,
        }
    }

    fn text(&self, more: &More, wide: bool) -> String {
        let mut text = more.to_string();
        let count = self.excluded.len();
        if wide && count > 0 {
            text.push_str("\nLEFT OUT\tREASON\n");
            for Excluded { node, reason } in &self.excluded {
                let _ = writeln!(text, "{node}\t{reason}");
            }
            text = align(&text);
        } else if count > 0 {
            let s = if count == 1 { "" } else { "s" };
            let _ = writeln!(
                text,
                "{count} node{s} left out: the pod may not use them (-o wide)"
            );
        }
        text.trim_end().to_owned()
    }
}
