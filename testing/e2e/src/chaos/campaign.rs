//! Runs a campaign for one seed from beginning to end, and for several seeds.

use std::fmt::Write as _;
use std::fs;
use std::time::Instant;

use anyhow::Result;

use super::drive::Cluster;
use super::judge::{Harvest, MeteredPods, barren, charges, crowded, lives, overbooked};
use super::plan::{METERED, Plan, plan};
use super::tally::Tally;
use super::{ledger, parts};
use crate::interrupt;

/// Runs every seed on its own cluster. Panics at the end if any of them had a violation.
pub fn run(seeds: &[u64], minutes: u64) {
    assert!(!seeds.is_empty(), "without a seed nothing is tried");
    interrupt::watch();
    let mut tally = Tally::default();
    let mut failed = Vec::new();
    for seed in seeds {
        let wrong = one(*seed, minutes, &mut tally);
        if !wrong.is_empty() {
            failed.push(format!("seed {seed}:\n  {}", wrong.join("\n  ")));
            println!("seed {seed} again: cargo xtask chaos --seed {seed} --minutes {minutes}");
        }
    }
    tally.print();
    println!("\n{} seeds, {} with violations", seeds.len(), failed.len());
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Every violation with one seed.
fn one(seed: u64, minutes: u64, sum: &mut Tally) -> Vec<String> {
    let began = Instant::now();
    let plan = plan(seed, minutes);
    let mut cluster = Cluster::start();
    let logs = cluster.rig().logs();
    println!(
        "seed {seed}: {} rounds, logs and plan in {}",
        plan.rounds.len(),
        logs.display()
    );
    fs::write(logs.join("plan.txt"), written(&plan)).expect("the plan is written");
    let mut wrong = Vec::new();
    for (number, steps) in (1..).zip(&plan.rounds) {
        println!("seed {seed}, round {number} of {}", plan.rounds.len());
        cluster.round(seed ^ (number << 32), steps);
        let calm = cluster.calm();
        println!(
            "calm after {:.0} s: {}",
            began.elapsed().as_secs_f64(),
            verdict(&calm)
        );
        wrong.extend(
            calm.into_iter()
                .map(|what| format!("round {number}: {what}")),
        );
        if !wrong.is_empty() {
            // The next rounds would only repeat the violation.
            break;
        }
    }
    if wrong.is_empty() {
        wrong.extend(cluster.clean());
        wrong.extend(told(paid(&mut cluster)));
    }
    // Ctrl-C also reaches our parts and ends them, so the next checks would report them as violations.
    interrupt::check();
    wrong.extend(moments(&cluster));
    wrong.extend(told(cluster.parts.ended()));
    if wrong.is_empty() {
        wrong.extend(told(harvest(&cluster, &plan).map(barren)));
    }
    count(&mut cluster, minutes);
    sum.add(&cluster.tally);
    fs::write(logs.join("seen.txt"), seen(&cluster)).expect("what was seen is written");
    println!(
        "seed {seed}: {} after {:.0} s",
        verdict(&wrong),
        began.elapsed().as_secs_f64()
    );
    for what in &wrong {
        println!("  {what}");
    }
    wrong
}

/// A check that could not be made counts as a violation.
fn told(judged: Result<Vec<String>>) -> Vec<String> {
    judged.unwrap_or_else(|error| vec![format!("{error:#}")])
}

/// How much there was to check.
fn harvest(cluster: &Cluster, plan: &Plan) -> Result<Harvest> {
    let ledger = ledger::charged(&parts::database(&cluster.world), METERED)?;
    Ok(Harvest {
        bound: cluster.recorder.notes().names.len(),
        ran: lives(&cluster.glimpses.all()).len(),
        charged: plan.begins_with_metered_pods().then_some(ledger.len()),
        requests: cluster.proxy.fates().values().sum(),
    })
}

/// Checks that no card was ever overbooked, neither in the records nor by the containers that really ran.
fn moments(cluster: &Cluster) -> Vec<String> {
    let sizes = cluster.world.card_sizes();
    let mut wrong = overbooked(&cluster.recorder.notes().history, &sizes);
    wrong.extend(crowded(&cluster.glimpses.all(), &sizes));
    wrong
}

/// Compares the ledger with what really ran, once everything has ended.
fn paid(cluster: &mut Cluster) -> Result<Vec<String>> {
    let database = parts::database(&cluster.world);
    let notes = cluster.recorder.notes();
    let names = notes.names.into_iter();
    let names = names.filter(|(_, name)| name.starts_with(&format!("{METERED}/")));
    let metered = MeteredPods {
        names: names.collect(),
        booked: notes.booked,
        held: notes.held,
        lives: lives(&cluster.glimpses.all()),
        gaps: notes.gaps,
        sizes: cluster.world.card_sizes(),
    };
    let ledger = ledger::charged(&database, METERED)?;
    let mut wrong = charges(&metered, &ledger);
    wrong.extend(ledger::contradictions(&database)?);
    let seconds: i64 = ledger.values().map(|one| one.seconds).sum();
    let seconds = usize::try_from(seconds).unwrap_or(0);
    let unpriced = ledger.values().filter(|one| one.unpriced > 0).count();
    let tally = &mut cluster.tally;
    tally.checked(
        "metered pods: charged as long as they ran, for what they held",
        metered.names.len(),
    );
    tally.checked("GPU time charged, seconds of pods", seconds);
    tally.checked("pods with time whose cards nobody knew", unpriced);
    Ok(wrong)
}

fn count(cluster: &mut Cluster, minutes: u64) {
    let (notes, glimpses) = (cluster.recorder.notes(), cluster.glimpses.all());
    let fates = cluster.proxy.fates();
    let tally = &mut cluster.tally;
    tally.injected(
        "minutes of injections",
        usize::try_from(minutes).unwrap_or(0),
    );
    for (fate, times) in fates {
        tally.injected(fate, times);
    }
    tally.checked(
        "states of the watch history: no card overbooked",
        notes.history.len(),
    );
    tally.checked("looks at all containers: no card overused", glimpses.len());
    tally.checked("pods bound with a record", notes.names.len());
    tally.checked("pods seen running on cards", lives(&glimpses).len());
    tally.checked(
        "gaps of the watch history (API server restarted)",
        notes.gaps.len(),
    );
}

fn verdict(wrong: &[String]) -> String {
    match wrong.len() {
        0 => "all holds".to_owned(),
        some => format!("{some} violations"),
    }
}

fn written(plan: &Plan) -> String {
    let mut text = format!("seed {}\n", plan.seed);
    for (number, steps) in (1..).zip(&plan.rounds) {
        let _ = writeln!(text, "round {number}");
        for step in steps {
            let _ = writeln!(text, "{:>7.1} s  {}", step.at.as_secs_f64(), step.action);
        }
    }
    text
}

/// What the checks saw, for anyone who looks for a cause.
fn seen(cluster: &Cluster) -> String {
    let notes = cluster.recorder.notes();
    let mut text = String::new();
    for seen in &notes.history {
        let _ = writeln!(text, "{seen:?}");
    }
    for (pod, life) in lives(&cluster.glimpses.all()) {
        let name = notes.names.get(&pod);
        let held = notes.held.get(&pod);
        let _ = writeln!(text, "{name:?} {pod}: ran {life:?}, held {held:?}");
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    #[should_panic(expected = "without a seed nothing is tried")]
    fn a_campaign_without_seeds_is_no_success() {
        super::run(&[], 1);
    }
}
