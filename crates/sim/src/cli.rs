//! `simulate`: the command line of the simulator.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};
use gpushare_core::pack::Policy;
use thiserror::Error;

use crate::churn::{self, Demand, Load};
use crate::fill;
use crate::progress::Progress;
use crate::report::Report;
use crate::stage::StageError;
use crate::table::TableError;
use crate::trace::Trace;

/// Replay a trace of pods against a cluster and report how full it gets.
#[derive(Clone, Debug, ClapArgs)]
pub struct Args {
    /// Nodes: CSV with the columns sn, cpu_milli, memory_mib, gpu, model.
    #[arg(long, value_name = "CSV")]
    pub nodes: PathBuf,
    /// Pods: CSV with the columns name, cpu_milli, memory_mib, num_gpu, gpu_milli and, if pods name
    /// card models, gpu_spec (A|B).
    #[arg(long, value_name = "CSV")]
    pub pods: PathBuf,
    /// Order of arrival: TSV with one line for each seed: seed, pod rows, node rows in the order of
    /// ties. Without it the seed shuffles the pods.
    #[arg(long, value_name = "TSV")]
    pub arrivals: Option<PathBuf>,
    /// Which arrivals.
    #[arg(long, value_name = "N", default_value_t = 42)]
    pub seed: u64,
    /// How to choose: learned, fgd, binpack, best-fit, first-fit or spread.
    #[arg(long, value_name = "POLICY", default_value = "learned")]
    pub policy: Policy,
    /// Let pods also leave, at an offered load such as 0.9 of the cluster, and report the steady
    /// state.
    #[arg(long, value_name = "LOAD")]
    pub churn: Option<Load>,
    /// With --churn: half way, continue with these pods (columns as --pods).
    #[arg(long, value_name = "CSV", requires = "churn")]
    pub then_pods: Option<PathBuf>,
    /// The order of arrival of --then-pods, as --arrivals.
    #[arg(long, value_name = "TSV", requires = "then_pods")]
    pub then_arrivals: Option<PathBuf>,
    /// How to print the report.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    Text,
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
    #[error("the trace has no {0}: nothing to simulate")]
    Empty(&'static str),
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
    let trace = Trace::open(&args.nodes, &args.pods, args.arrivals.as_deref(), args.seed)?;
    if trace.capacity() == 0 {
        return Err(SimulateError::Empty("cards"));
    }
    if trace.arrivals.pods.is_empty() {
        return Err(SimulateError::Empty("pods"));
    }
    let Some(load) = args.churn else {
        let progress = Progress::new(trace.arrivals.pods.len(), args.policy.name);
        return Ok(fill::run(&trace, args.policy, &progress)?);
    };
    let then = match &args.then_pods {
        Some(pods) => Some(Trace::open(
            &args.nodes,
            pods,
            args.then_arrivals.as_deref(),
            args.seed,
        )?),
        None => None,
    };
    let mut demands = vec![Demand::of(&trace)];
    demands.extend(then.as_ref().map(Demand::of));
    let arrivals = churn::arrivals(&demands, load, trace.capacity());
    let progress = Progress::new(arrivals, args.policy.name);
    Ok(churn::run(&trace, &demands, args.policy, load, &progress)?)
}
