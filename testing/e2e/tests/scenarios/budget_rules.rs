//! The real API server accepts valid budgets, refuses invalid ones with a message that says what to write instead, and
//! shows budgets in readable columns.

use e2e::Kubectl;
use e2e::manifest::budget;
use e2e::world::install;
use gpushare_rig::{Options, Rig};
use serde_json::{Value, json};

/// A cluster with the GpuBudget kind.
fn cluster() -> Rig {
    let rig = Rig::start(Options::default()).unwrap();
    install(&rig, &["crd.yaml"]);
    rig
}

#[test]
fn budgets_that_make_sense_are_accepted_and_read_well() {
    let rig = cluster();
    let accepted = [
        (
            "seconds",
            json!({"amount": 72_000, "namespaces": {"names": ["a", "b"]}}),
        ),
        ("root", json!({"amount": "1d12h", "rolloverCap": "90m"})),
        (
            "team",
            json!({
                "amount": "20h", "parent": "root", "namespaces": {"team": "vision"},
                "prices": [{"model": "NVIDIA A100*", "price": "2.5"}, {"model": "Tesla T4", "price": "0.000001"}],
                "formula": {"kind": "Weighted", "memory": 1, "core": 3},
                "period": {"kind": "Week", "timeZone": "Europe/Berlin"},
                "whenExhausted": "EvictWithGrace", "graceSeconds": 300,
            }),
        ),
        (
            "rolling",
            json!({
                "amount": "20h", "period": {"kind": "Rolling", "window": "7d"},
                "namespaces": {"selector": {"matchExpressions": [{"key": "env", "operator": "In", "values": ["dev"]}]}},
            }),
        ),
    ];
    for (name, spec) in &accepted {
        rig.try_apply(&budget(name, spec)).unwrap();
    }
    let status = json!({"status": {
        "used": "12h30m", "remaining": "7h30m", "exhausted": false,
        "exhaustsAt": "2026-11-20T10:00:00Z",
        "conditions": [{"type": "Ready", "status": "True", "reason": "Charged", "message": "",
            "lastTransitionTime": "2026-11-01T00:00:00Z"}],
    }});
    rig.patch("gpubudget team --subresource=status --type=merge", &status)
        .unwrap();
    let table = rig.ctl("get gpubudgets team").unwrap();
    let columns: Vec<Vec<&str>> = table
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    let heading = "NAME AMOUNT PERIOD USED REMAINING EXHAUSTED EXHAUSTS READY AGE";
    assert_eq!(columns[0].join(" "), heading);
    let row = "team 20h Week 12h30m 7h30m false 2026-11-20T10:00:00Z True ";
    assert!(columns[1].join(" ").starts_with(row), "{table}");
    let spec = rig.get("gpubudget root").unwrap()["spec"].take();
    let (period, formula) = (&spec["period"], &spec["formula"]);
    assert_eq!(
        (&period["kind"], &period["timeZone"]),
        (&json!("Month"), &json!("UTC"))
    );
    assert_eq!(
        (&formula["kind"], &spec["whenExhausted"]),
        (&json!("Max"), &json!("Demote"))
    );
    rig.stop().unwrap();
}

#[test]
fn budgets_that_make_no_sense_are_refused_with_what_to_write_instead() {
    let rig = cluster();
    for (name, spec, part) in wrong_amounts_and_namespaces().iter().chain(&wrong_terms()) {
        let answer = rig.try_apply(&budget(name, spec));
        let message = answer.map_or_else(
            |error| format!("{error:#}"),
            |text| format!("accepted: {text}"),
        );
        assert!(message.contains(part), "{name}: {message}");
    }
    rig.stop().unwrap();
}

/// A name, a spec, and a part of the refusal.
type Refused = (&'static str, Value, &'static str);

fn wrong_amounts_and_namespaces() -> Vec<Refused> {
    vec![
        ("no-amount", json!({}), "spec.amount: Required value"),
        (
            "nothing",
            json!({"amount": 0}),
            "an amount is a positive number of GPU-seconds, or a duration",
        ),
        (
            "negative",
            json!({"amount": -5}),
            "an amount is a positive number",
        ),
        (
            "wrong-unit",
            json!({"amount": "3 weeks"}),
            "such as 20h, 1d12h or 90m",
        ),
        (
            "zero-hours",
            json!({"amount": "0h"}),
            "such as 20h, 1d12h or 90m",
        ),
        ("empty", json!({"amount": ""}), "such as 20h, 1d12h or 90m"),
        (
            "huge",
            json!({"amount": 9_000_000_000_000_i64}),
            "an amount is a positive number",
        ),
        (
            "myself",
            json!({"amount": "1h", "parent": "myself"}),
            "cannot be its own parent",
        ),
        (
            "two-ways",
            json!({"amount": "1h", "namespaces": {"names": ["a"], "team": "b"}}),
            "exactly one of names, team and selector",
        ),
        (
            "no-way",
            json!({"amount": "1h", "namespaces": {}}),
            "exactly one of names, team and selector",
        ),
        (
            "all",
            json!({"amount": "1h", "namespaces": {"selector": {}}}),
            "name at least one label",
        ),
        (
            "in-nothing",
            json!({"amount": "1h", "namespaces": {"selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}}),
            "In and NotIn need values",
        ),
    ]
}

fn wrong_terms() -> Vec<Refused> {
    vec![
        (
            "price",
            json!({"amount": "1h", "prices": [{"model": "a", "price": "2,5"}]}),
            "a price is a number in quotes",
        ),
        (
            "stars",
            json!({"amount": "1h", "prices": [{"model": "a*b*", "price": "1"}]}),
            "followed by a single *",
        ),
        (
            "twice",
            json!({"amount": "1h", "prices": [{"model": "a", "price": "1"}, {"model": "a", "price": "2"}]}),
            "Duplicate value",
        ),
        (
            "weights",
            json!({"amount": "1h", "formula": {"kind": "Weighted", "memory": 1}}),
            "Weighted needs both weights",
        ),
        (
            "no-weights",
            json!({"amount": "1h", "formula": {"kind": "Max", "memory": 1}}),
            "weights apply only with kind: Weighted",
        ),
        (
            "window",
            json!({"amount": "1h", "period": {"kind": "Rolling"}}),
            "which needs one, such as window: 7d",
        ),
        (
            "no-window",
            json!({"amount": "1h", "period": {"kind": "Day", "window": "7d"}}),
            "a window belongs to kind: Rolling",
        ),
        (
            "zone",
            json!({"amount": "1h", "period": {"timeZone": "Europe/Atlantis"}}),
            "the IANA database has no such time zone",
        ),
        (
            "offset",
            json!({"amount": "1h", "period": {"timeZone": "+02:00"}}),
            "as the IANA database names it",
        ),
        (
            "grace",
            json!({"amount": "1h", "graceSeconds": 5}),
            "write whenExhausted: EvictWithGrace",
        ),
        (
            "carry",
            json!({"amount": "1h", "rolloverCap": "1h", "period": {"kind": "Rolling", "window": "7d"}}),
            "leave rolloverCap out",
        ),
        (
            "verb",
            json!({"amount": "1h", "whenExhausted": "Delete"}),
            "Unsupported value",
        ),
    ]
}
