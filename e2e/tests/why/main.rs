//! `kubectl gpushare why` on a real scheduler: for each of a table of pods that wait, the reason is right, and every change
//! that it proposes, carried out to the letter, lets the pod be scheduled. Run by `cargo xtask e2e`.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests stop at the first surprise"
)]

mod carry_out;
mod cases;

use std::collections::BTreeSet;

use carry_out::Stage;
use e2e::paper::Paper;

/// As many as were promised.
const AT_LEAST: usize = 20;

#[test]
fn every_proposed_change_lets_the_pod_be_scheduled() {
    let mut paper = Paper::start();
    let cases = cases::all();
    assert!(cases.len() >= AT_LEAST);
    let names: BTreeSet<&str> = cases.iter().map(|case| case.name).collect();
    assert_eq!(names.len(), cases.len(), "two cases have one name");
    let (mut carried_out, mut by_hand) = (0, 0);
    for case in &cases {
        let mut number = 0;
        loop {
            let stage = Stage::set(&paper, case);
            let answer = stage.ask();
            assert_eq!(answer["reason"], case.reason, "{}: {answer:#}", case.name);
            let message = answer["message"].as_str().unwrap();
            assert!(message.contains(case.says), "{}: {message}", case.name);
            let help = answer["help"].as_array().unwrap().clone();
            assert!(!help.is_empty(), "{}: no help in {answer:#}", case.name);
            assert_eq!(help[number]["certain"], true, "{}: {answer:#}", case.name);
            eprintln!("{}: {}", case.name, help[number]["text"].as_str().unwrap());
            by_hand += stage.carry_out(&help[number]);
            stage.wait_scheduled();
            stage.clear();
            paper.assert_alive();
            carried_out += 1;
            number += 1;
            if number == help.len() {
                break;
            }
        }
    }
    eprintln!(
        "{} cases, {carried_out} proposals carried out, {by_hand} steps in them by hand",
        cases.len()
    );
}
