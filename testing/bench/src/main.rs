//! `cargo xtask bench`: how fast gpushare is, each figure beside the minimum that the same work costs.
//!
//! Every figure and its floor are measured in one run, in turns, so that a busy machine slows both alike. The measured
//! programs are the real ones, in their own processes. [`rows`] has one file for each kind of figure; to add a figure,
//! write a function there and name it in [`rows::ALL`].

#![expect(
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    reason = "JSON values of our own making are read by name, and figures have few digits that count"
)]

mod client;
mod floor;
mod helper;
mod lab;
mod measure;
mod objects;
mod process;
mod report;
mod rows;
mod stub;
mod tenants;

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, ensure};
use clap::{Parser, ValueEnum};

use lab::Lab;
use report::{Report, Row};
use rows::Bench;

/// Measure gpushare and print one table of figures, floors and limits
#[derive(Parser)]
#[command(name = "bench")]
struct Arguments {
    /// Measure only what has this in its name, such as `filter`; `--list` shows the names
    filter: Option<String>,
    /// Show what can be measured and end
    #[arg(long)]
    list: bool,
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    /// What this program does when it starts itself as a helper
    #[command(subcommand)]
    helper: Option<helper::Helper>,
}

#[derive(Clone, Copy, Default, ValueEnum)]
enum Output {
    #[default]
    Table,
    Json,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<ExitCode> {
    if let Some(helper) = &arguments.helper {
        return helper.run().map(|()| ExitCode::SUCCESS);
    }
    let chosen: Vec<&Bench> = rows::ALL
        .iter()
        .filter(|bench| {
            let wanted = arguments.filter.as_deref().unwrap_or_default();
            bench.name.contains(wanted)
        })
        .collect();
    ensure!(
        !chosen.is_empty(),
        "nothing is measured under that name; `--list` shows the names"
    );
    if arguments.list {
        for bench in chosen {
            println!("{:width$}  {}", bench.name, bench.about, width = 20);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let mut report = Report::begin();
    let mut lab = Lab::default();
    for (number, bench) in (1..).zip(&chosen) {
        eprintln!(
            "[{number}/{}] {}: {}",
            chosen.len(),
            bench.name,
            bench.about
        );
        let began = Instant::now();
        let rows = (bench.run)(&mut lab)
            .unwrap_or_else(|error| vec![Row::not_measured(bench.name, &error)]);
        eprintln!("      {:.1} s", began.elapsed().as_secs_f64());
        report.extend(rows);
    }
    drop(lab);
    match arguments.output {
        Output::Table => print!("{report}"),
        Output::Json => println!("{}", report.json()),
    }
    Ok(if report.good() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
