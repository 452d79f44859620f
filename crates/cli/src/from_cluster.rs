//! `simulate --from-cluster`: reads nodes and pods once and asks the simulator. Writes nothing.

use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, bail};
use clap::Args;
use gpushare_core::dialect::Dialects;
use gpushare_core::gpu::{self, AliyunUnit, Reading};
use gpushare_core::names::GPU_MEM;
use gpushare_core::{NodeName, PodAsk};
use gpushare_kube::convert::{self, PodFacts};
use gpushare_kube::manifest::Manifest;
use gpushare_kube::slim;
use gpushare_sim::cli::{Args as Simulate, Output};
use gpushare_sim::more::{More, Now};

use crate::connection::{self, Connection, NODES, Only};

/// Which cluster, and how its requests are read.
#[derive(Args, Clone, Debug)]
pub(crate) struct Cluster {
    #[command(flatten)]
    pub(crate) connection: Connection,
    /// With --from-cluster: what one aliyun.com/gpu-mem means there, GiB or MiB
    #[arg(long, value_name = "UNIT", default_value = "GiB")]
    aliyun_memory_unit: AliyunUnit,
    /// With --from-cluster: The cluster also serves HAMi's nvidia.com/gpu, gpumem, gpumem-percentage and gpucores
    #[arg(long, requires = "from_cluster")]
    hami: bool,
}

pub(crate) fn run(args: &Simulate, cluster: &Cluster) -> Result<String> {
    let file = args.file.as_deref().context("give --file with the pod")?;
    let dialects = gpu::read(Reading {
        aliyun: cluster.aliyun_memory_unit,
        hami: cluster.hami,
    });
    let pod = PodFacts::proposed(&pod_of(file)?, &dialects);
    let ask = asked(&pod).with_context(|| file.display().to_string())?;
    let now = connection::wait_for(read(args, cluster, &dialects))?;
    let more = now.more(ask, pod.host, args.most);
    print(&more, args.output)
}

/// The cards that a proposed pod asks for.
pub(crate) fn asked(pod: &PodFacts) -> Result<&PodAsk> {
    match &pod.ask {
        Ok(Some(ask)) => Ok(ask),
        Ok(None) => bail!(
            "the pod asks for no card; name one of its resources under limits, such as {GPU_MEM}"
        ),
        Err(violations) => bail!("{violations}"),
    }
}

fn print(more: &More, output: Output) -> Result<String> {
    Ok(match output {
        Output::Text => more.to_string().trim_end().to_owned(),
        Output::Json => serde_json::to_string_pretty(more)?,
    })
}

/// The cluster as it is: every node that takes pods, and what runs on each.
async fn read(args: &Simulate, cluster: &Cluster, dialects: &Dialects) -> Result<Now> {
    let client = cluster.connection.client().await?;
    let mut now = Now::new(dialects.classes.clone(), args.policy);
    connection::each(&client, NODES, Only::Everything, |node: slim::Node| {
        if !node.spec.unschedulable {
            add_node(&mut now, &node, dialects)?;
        }
        Ok(())
    })
    .await?;
    connection::each_pod(&client, |pod| add_pod(&mut now, pod, dialects)).await?;
    Ok(now)
}

pub(crate) fn add_node(now: &mut Now, node: &slim::Node, dialects: &Dialects) -> Result<()> {
    let name = node.metadata.name.as_deref().unwrap_or_default();
    let cards = convert::cards(node, &dialects.classes)
        .with_context(|| format!("node {name}"))?
        .unwrap_or_default();
    let held = convert::held(node, &dialects.classes).with_context(|| format!("node {name}"))?;
    now.add_node(NodeName::new(name), cards, convert::allocatable(node));
    now.add_held(&NodeName::new(name), held);
    Ok(())
}

pub(crate) fn add_pod(now: &mut Now, pod: &slim::Pod, dialects: &Dialects) {
    let facts = PodFacts::new(pod, dialects);
    if let (Some(node), false) = (&facts.node, facts.ended) {
        let booking = facts.bound(&dialects.classes).and_then(Result::ok);
        now.add_pod(&facts.uid, node, facts.host, booking);
    }
}

/// A manifest with a pod in it; `-` is standard input.
pub(crate) fn manifest_of(file: &Path) -> Result<Manifest> {
    let mut text = String::new();
    if file == Path::new("-") {
        let read = std::io::stdin().read_to_string(&mut text);
        read.context("cannot read standard input")?;
    } else {
        text = std::fs::read_to_string(file)
            .with_context(|| format!("cannot read {}", file.display()))?;
    }
    Manifest::read(&text).with_context(|| format!("cannot use {}", file.display()))
}

fn pod_of(file: &Path) -> Result<slim::Pod> {
    let pod = manifest_of(file)?.slim_pod();
    pod.with_context(|| format!("cannot use {}", file.display()))
}
