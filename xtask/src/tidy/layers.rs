//! Who may depend on whom, as ARCHITECTURE.md draws it. Tests may use more; what is shipped may not.

use std::collections::BTreeMap;

/// The crates of this repository that each crate may use.
const MAY_USE: [(&str, &[&str]); 15] = [
    ("apiserver", &[]),
    ("browser", &["rig"]),
    ("cli", &["core", "kube", "sim"]),
    (
        "control",
        &["core", "daemon", "dashboard", "kube", "timekeeper"],
    ),
    ("core", &[]),
    ("daemon", &[]),
    ("dashboard", &["core", "daemon", "kube"]),
    ("fake-nvml", &[]),
    ("kube", &["core"]),
    ("kubelet-api", &[]),
    ("node", &["core", "daemon", "kube", "kubelet-api"]),
    ("rig", &[]),
    (
        "sandbox",
        &[
            "apiserver",
            "cli",
            "control",
            "core",
            "daemon",
            "dashboard",
            "kube",
            "kubelet-api",
            "node",
            "timekeeper",
        ],
    ),
    ("sim", &["core"]),
    ("timekeeper", &["core", "kube"]),
];

/// All that the pure core may use of others: no clock, network or async can come in behind these.
const OF_THE_CORE: [&str; 3] = ["serde", "serde_json", "thiserror"];

/// What is wrong with the dependencies in a crate's `Cargo.toml`.
pub(super) fn examine(file: &str, text: &str) -> Vec<String> {
    let Some(name) = file
        .strip_prefix("crates/")
        .and_then(|rest| rest.strip_suffix("/Cargo.toml"))
    else {
        return Vec::new();
    };
    let may_use = BTreeMap::from(MAY_USE);
    let Some(allowed) = may_use.get(name) else {
        return vec![format!(
            "{file}: xtask/src/tidy/layers.rs does not say what this crate may use"
        )];
    };
    let mut violations = Vec::new();
    for dependency in dependencies(text) {
        let ours = match dependency {
            "kubectl-gpushare" => Some("cli"),
            other => other.strip_prefix("gpushare-"),
        };
        let allowed_here = match ours {
            Some(ours) => allowed.contains(&ours),
            None => name != "core" || OF_THE_CORE.contains(&dependency),
        };
        if !allowed_here {
            violations.push(format!("{file}: {name} must not depend on {dependency}"));
        }
    }
    violations
}

/// The names under `[dependencies]`, without those of tests.
fn dependencies(text: &str) -> Vec<&str> {
    let mut inside = false;
    let mut names = Vec::new();
    for line in text.lines() {
        if line.starts_with('[') {
            inside = line == "[dependencies]";
        } else if inside && line.starts_with(|c: char| c.is_ascii_alphabetic()) {
            names.extend(line.split(['.', ' ', '=']).next());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrows_point_down_only() {
        let kube = "[dependencies]\ngpushare-core.workspace = true\n";
        assert!(examine("crates/kube/Cargo.toml", kube).is_empty());
        let upwards = "[dependencies]\ngpushare-control.workspace = true\n";
        let found = examine("crates/kube/Cargo.toml", upwards);
        assert_eq!(
            found,
            ["crates/kube/Cargo.toml: kube must not depend on gpushare-control"]
        );
        let in_tests = "[dev-dependencies]\ngpushare-control.workspace = true\n";
        assert!(examine("crates/kube/Cargo.toml", in_tests).is_empty());
    }

    #[test]
    fn the_core_knows_no_runtime_and_a_new_crate_has_a_place() {
        let clock = "[dependencies]\nserde = { workspace = true }\ntokio.workspace = true\n";
        let found = examine("crates/core/Cargo.toml", clock);
        assert_eq!(
            found,
            ["crates/core/Cargo.toml: core must not depend on tokio"]
        );
        assert_eq!(examine("crates/new/Cargo.toml", "").len(), 1);
        assert!(examine("bench/Cargo.toml", clock).is_empty());
    }
}
