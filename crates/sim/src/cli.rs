//! `simulate`: the command line of the simulator.

use std::path::{Path, PathBuf};

use clap::{Args as ClapArgs, ValueEnum};
use gpushare_packing::Policy;
use thiserror::Error;

use crate::churn::{self, Demand, Load};
use crate::fill;
use crate::progress::Progress;
use crate::report::Report;
use crate::stage::StageError;
use crate::table::TableError;
use crate::trace::Trace;

/// What `simulate --help` says after the flags.
pub const EXAMPLES: &str = "\
Examples:
  How full does the cluster of these files get, by the default policy?
    kubectl gpushare simulate --nodes nodes.csv --pods pods.csv

  The same for fragmentation gradient descent, in a recorded order of arrival, for a program:
    kubectl gpushare simulate --nodes nodes.csv --pods pods.csv --arrivals arrivals.tsv \\
        --seed 42 --policy fgd -o json

  Pods also leave, and together they ask for 90 % of the cluster:
    kubectl gpushare simulate --nodes nodes.csv --pods pods.csv --churn 0.9

  How many more replicas of this deployment fit into my cluster now, and where?
    kubectl gpushare simulate --from-cluster -f deployment.yaml

Files (other columns are ignored; rows of arrivals count from 0):
  nodes.csv     sn,cpu_milli,memory_mib,gpu,model
                node-1,96000,786432,8,V100
  pods.csv      name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec
                share,4000,8192,1,500,
                whole,96000,524288,8,1000,V100|A100
                no-card,8000,16384,0,0,
  arrivals.tsv  seed TAB pod rows TAB node rows, in which order ties are broken
                42 TAB 1,0,2,0 TAB 0

Exit status: 0 when the run ended, 1 when a file cannot be used or a decision failed the audit, 2 when
the command line is wrong.";

/// Replay a trace of pods against a cluster and report how full it gets
///
/// Pods arrive one by one and are placed by the code that serves a cluster; one that fits nowhere is
/// dropped. An independent audit checks every decision. Nothing is read from or written to a real
/// cluster.
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = "Run with --help for examples and the files' formats.", after_long_help = EXAMPLES)]
pub struct Args {
    /// Nodes: CSV with the columns sn, cpu_milli, memory_mib, gpu, model
    #[arg(long, value_name = "CSV", required_unless_present = "from_cluster")]
    pub nodes: Option<PathBuf>,
    /// Pods: CSV with the columns name, cpu_milli, memory_mib, num_gpu, gpu_milli and, if pods name
    /// card models, gpu_spec (A|B)
    #[arg(long, value_name = "CSV", required_unless_present = "from_cluster")]
    pub pods: Option<PathBuf>,
    /// Instead of files, the cluster of the kubeconfig as it is now: how many more pods like the one of
    /// --file fit, and where. Only reads; nothing is created
    #[arg(long, requires = "file", conflicts_with_all = ["nodes", "pods", "arrivals", "churn"])]
    pub from_cluster: bool,
    /// With --from-cluster: a manifest with the pod, or with the template of a workload
    #[arg(short, long, value_name = "YAML", requires = "from_cluster")]
    pub file: Option<PathBuf>,
    /// With --from-cluster: stop after this many pods
    #[arg(
        long,
        value_name = "N",
        default_value_t = 10_000,
        requires = "from_cluster"
    )]
    pub most: u64,
    /// Order of arrival: TSV with one line for each seed; by default the seed shuffles the pods repeatedly until they ask for 1.3 times the cluster
    #[arg(long, value_name = "TSV")]
    pub arrivals: Option<PathBuf>,
    /// Seed for the order of arrival and for the lifetimes of --churn
    #[arg(long, value_name = "N", default_value_t = 42)]
    pub seed: u64,
    /// How to choose: learned, fgd, binpack, best-fit, first-fit or spread
    #[arg(long, value_name = "POLICY", default_value = "learned")]
    pub policy: Policy,
    /// Let pods also leave, at an offered load such as 0.9 of the cluster, and report the steady
    /// state
    #[arg(long, value_name = "LOAD")]
    pub churn: Option<Load>,
    /// With --churn: half way, continue with these pods (columns as --pods)
    #[arg(long, value_name = "CSV", requires = "churn")]
    pub then_pods: Option<PathBuf>,
    /// The order of arrival of --then-pods, as --arrivals
    #[arg(long, value_name = "TSV", requires = "then_pods")]
    pub then_arrivals: Option<PathBuf>,
    /// How to print the report
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// A few lines for people
    Text,
    /// An object for programs
    Json,
}

#[derive(Debug, Error)]
pub enum SimulateError {
    #[error(transparent)]
    Table(#[from] TableError),
    #[error(transparent)]
    Stage(#[from] StageError),
    #[error("cannot write the report as JSON")]
    Json(#[from] serde_json::Error),
    #[error("no trace to replay: give --nodes and --pods")]
    NoFiles,
    #[error("{}: {problem}", file.display())]
    Empty {
        file: PathBuf,
        problem: &'static str,
    },
}

/// Runs the simulation and returns what to print.
pub fn run(args: &Args) -> Result<String, SimulateError> {
    let report = simulate(args)?;
    Ok(match args.output {
        Output::Text => report.to_string(),
        Output::Json => serde_json::to_string_pretty(&report)?,
    })
}

pub fn simulate(args: &Args) -> Result<Report, SimulateError> {
    let files = args.nodes.as_deref().zip(args.pods.as_deref());
    let (nodes, pods) = files.ok_or(SimulateError::NoFiles)?;
    let trace = open(args, nodes, pods, args.arrivals.as_deref())?;
    let Some(load) = args.churn else {
        let progress = Progress::new(trace.arrivals.pods.len(), args.policy.name);
        return Ok(fill::run(&trace, args.policy, &progress)?);
    };
    let then = match &args.then_pods {
        Some(pods) => Some(open(args, nodes, pods, args.then_arrivals.as_deref())?),
        None => None,
    };
    let mut demands = vec![Demand::of(&trace)];
    demands.extend(then.as_ref().map(Demand::of));
    let arrivals = churn::arrivals(&demands, load, trace.capacity());
    let progress = Progress::new(arrivals, args.policy.name);
    Ok(churn::run(&trace, &demands, args.policy, load, &progress)?)
}

/// Reads a trace; refuses one that leaves nothing to simulate.
fn open(
    args: &Args,
    nodes: &Path,
    pods: &Path,
    arrivals: Option<&Path>,
) -> Result<Trace, SimulateError> {
    let trace = Trace::open(nodes, pods, arrivals, args.seed)?;
    let empty = |file: &Path, problem| SimulateError::Empty {
        file: file.into(),
        problem,
    };
    if trace.capacity() == 0 {
        let problem = "no node has a card: add a row with at least 1 in the column gpu";
        return Err(empty(nodes, problem));
    }
    if trace.pods.is_empty() {
        return Err(empty(pods, "no pods: add a row for each pod"));
    }
    if trace.arrivals.pods.is_empty() {
        let file = arrivals.unwrap_or(pods);
        return Err(empty(
            file,
            "no pod arrives: add pod rows to the line of this seed",
        ));
    }
    if args.churn.is_some() && trace.asked() == 0 {
        let problem = "no pod asks for a card, so no load can be offered: add pods with num_gpu of at \
                       least 1, or leave out --churn";
        return Err(empty(pods, problem));
    }
    Ok(trace)
}
