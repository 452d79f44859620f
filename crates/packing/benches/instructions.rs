//! How many instructions the pure decision takes: `cargo bench -p gpushare-packing --bench instructions [NAME]`.
//!
//! Prints a name and a count on each line. The counts come from valgrind's callgrind and, unlike times, are the same on
//! a busy machine. This program starts itself again under valgrind once for each name and counts only what happens
//! inside [`measured`]. That is all the benchmark harness we need, and it needs no second program of a matching
//! version.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a measurement that cannot be made must stop"
)]

mod cluster;

use std::hint::black_box;
use std::process::Command;

use cluster::{NODES, fleet, share, taught, whole, without_cards};
use gpushare_packing::{Fleet, Shape};

/// Environment variable for the program under valgrind: the name of the case to measure.
const CASE: &str = "GPUSHARE_BENCH_CASE";

/// What is measured: a name, the fleet, and what is done with it.
type Case = (&'static str, fn() -> Fleet, fn(&mut Fleet));

const CASES: [Case; 7] = [
    ("choose/share", taught, |fleet| choose(fleet, &share())),
    ("choose/whole-node", taught, |fleet| {
        choose(fleet, &whole(8));
    }),
    ("choose/cpu-only", taught, |fleet| {
        choose(fleet, &without_cards());
    }),
    ("rank/500", taught, |fleet| rank(fleet, NODES / 10)),
    ("rank/5000", taught, |fleet| rank(fleet, NODES)),
    ("observe/without-lesson", taught, |fleet| {
        fleet.observe(&share());
    }),
    ("observe/with-lesson", fleet, |fleet| {
        fleet.observe(&share());
    }),
];

fn choose(fleet: &Fleet, shape: &Shape) {
    black_box(fleet.choose(shape)).expect("the shape fits somewhere");
}

fn rank(fleet: &Fleet, nodes: usize) {
    assert!(!black_box(fleet.rank(&share(), 0..nodes)).is_empty());
}

/// The one function inside which valgrind counts; its name is on the command line below.
#[inline(never)]
fn measured(case: fn(&mut Fleet), fleet: &mut Fleet) {
    case(black_box(fleet));
    black_box(fleet);
}

fn main() {
    if let Ok(name) = std::env::var(CASE) {
        let case = CASES.iter().find(|(known, ..)| *known == name);
        let (_, start, case) = case.expect("a known name");
        measured(*case, &mut start());
        return;
    }
    // Cargo adds flags; the first other argument filters the names.
    let filter = std::env::args().skip(1).find(|word| !word.starts_with('-'));
    let filter = filter.unwrap_or_default();
    for (name, ..) in CASES.iter().filter(|(name, ..)| name.contains(&filter)) {
        println!("{name:24} {:>12}", count(name));
    }
}

fn count(name: &str) -> u64 {
    let program = std::env::current_exe().expect("the program's own path");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .args(["--collect-atstart=no", "--toggle-collect=*::measured"])
        .arg(program)
        .env(CASE, name)
        .output()
        .unwrap_or_else(|error| {
            panic!(
                "cannot start valgrind: {error}; install it, Debian's package is called valgrind"
            )
        });
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "measuring {name}: {said}");
    // ==PID== Collected : 12345
    let collected = said.lines().find_map(|line| line.split_once("Collected :"));
    let count = collected.and_then(|(_, count)| count.trim().parse().ok());
    match count {
        Some(count) if count > 0 => count,
        _ => panic!("valgrind counted nothing for {name}: {said}"),
    }
}
