//! The commands of this repository: everything that a developer or CI runs, with nothing to install
//! first. One module per command.

mod bench;
mod cargo;
mod chaos;
mod cluster;
mod dashboard;
mod docs;
mod e2e;
mod fuzz;
mod interrupt;
mod nvidia_smi;
mod packing;
mod products;
mod python;
mod soak;
mod steps;
mod test;
mod tidy;
mod valgrind;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Build, test and try gpushare.
///
/// Start with `cargo xtask test`: it needs nothing but the Rust toolchain and the package
/// registries. `cargo xtask e2e` runs the same code on a real Kubernetes, which it builds itself the
/// first time (about 15 minutes on 2 cores); it needs root and Go.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Test(test::Arguments),
    E2e(e2e::Arguments),
    Chaos(chaos::Arguments),
    Soak(soak::Arguments),
    Fuzz(fuzz::Arguments),
    Bench(bench::Arguments),
    Cluster(cluster::Arguments),
    Dashboard(dashboard::Arguments),
    Packing(packing::Arguments),
    Docs(docs::Arguments),
    Tidy(tidy::Arguments),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Test(arguments) => test::run(&arguments),
        Command::E2e(arguments) => e2e::run(&arguments),
        Command::Chaos(arguments) => chaos::run(&arguments),
        Command::Soak(arguments) => soak::run(&arguments),
        Command::Fuzz(arguments) => fuzz::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Cluster(arguments) => cluster::run(&arguments),
        Command::Dashboard(arguments) => dashboard::run(&arguments),
        Command::Packing(arguments) => packing::run(&arguments),
        Command::Docs(arguments) => docs::run(&arguments),
        Command::Tidy(arguments) => tidy::run(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The chain of causes without a backtrace: it is for the user at the terminal.
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    /// Every unknown command in a text after `cargo xtask`, and every unknown flag of a known command.
    fn unknown(text: &str) -> Vec<String> {
        let ours = Arguments::command();
        let mut unknown = Vec::new();
        for mention in text.split("cargo xtask ").skip(1) {
            let line = mention.lines().next().unwrap_or_default();
            let end = line.find(['`', '#', ')', ',', ';']).unwrap_or(line.len());
            let mut words = line[..end].split_whitespace();
            let name = words
                .next()
                .unwrap_or_default()
                .trim_end_matches(['.', ':']);
            if name.is_empty() || name.starts_with('-') || name == "…" {
                continue;
            }
            let Some(command) = ours.find_subcommand(name) else {
                unknown.push(name.to_owned());
                continue;
            };
            // The arguments of `bench` are passed to another program.
            let flags = words.filter_map(|word| word.strip_prefix("--"));
            let known = |flag: &&str| {
                command
                    .get_arguments()
                    .any(|one| one.get_long() == Some(flag))
            };
            if name != "bench" {
                let strange = flags.filter(|flag| !known(flag) && *flag != "help");
                unknown.extend(strange.map(|flag| format!("{name} --{flag}")));
            }
        }
        unknown
    }

    #[test]
    fn every_command_that_the_documents_name_exists() {
        let root = cargo::workspace();
        let directories = [
            root.to_owned(),
            root.join("docs"),
            root.join("docs/reference"),
        ];
        let mut mentions = 0;
        for directory in directories {
            for entry in std::fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path.extension().is_some_and(|extension| extension == "md") {
                    let text = std::fs::read_to_string(&path).unwrap();
                    mentions += text.matches("cargo xtask ").count();
                    let none: Vec<String> = Vec::new();
                    assert_eq!(unknown(&text), none, "{}", path.display());
                }
            }
        }
        assert!(mentions > 20, "only {mentions} mentions were found");
    }

    #[test]
    fn a_command_that_does_not_exist_is_found() {
        assert_eq!(unknown("run `cargo xtask danse` now"), ["danse"]);
        assert_eq!(
            unknown("cargo xtask tidy --quick # or not"),
            ["tidy --quick"]
        );
        assert!(unknown("`cargo xtask test` and cargo xtask bench filter --list").is_empty());
    }
}
