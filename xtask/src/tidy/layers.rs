//! Which crate may depend on which, as ARCHITECTURE.md draws it. Tests may use more than shipped code.

use std::collections::BTreeMap;

/// What is shipped, and which crates of this repository each one may use.
const SHIPPED: [(&str, &[&str]); 18] = [
    ("apiserver", &[]),
    ("books", &["core", "kube", "packing"]),
    ("cli", &["core", "kube", "packing", "sim"]),
    (
        "control",
        &[
            "daemon",
            "dashboard",
            "extender",
            "sidecar",
            "timekeeper",
            "webhook",
        ],
    ),
    ("core", &[]),
    ("daemon", &[]),
    ("dashboard", &["core", "daemon", "kube"]),
    ("extender", &["books", "core", "daemon", "kube", "packing"]),
    ("kube", &["core", "daemon"]),
    ("kubelet-api", &[]),
    ("ledger", &["core", "daemon", "kube"]),
    ("node", &["core", "daemon", "kube", "kubelet-api"]),
    ("packing", &["core"]),
    (
        "sandbox",
        &[
            "apiserver",
            "cli",
            "core",
            "daemon",
            "dashboard",
            "extender",
            "kube",
            "kubelet-api",
            "ledger",
            "node",
            "timekeeper",
            "webhook",
        ],
    ),
    ("sidecar", &["daemon"]),
    ("sim", &["core", "packing"]),
    ("timekeeper", &["core", "daemon", "kube", "ledger"]),
    ("webhook", &["core", "daemon", "kube", "sidecar"]),
];

/// Test tools, which know nothing of the product or no more than its model. The other crates in `testing` may use everything.
const TOOLS: [(&str, &[&str]); 4] = [
    ("browser", &["rig"]),
    ("fake-nvml", &[]),
    ("rig", &[]),
    ("testkit", &["core"]),
];

/// Crates that know no clock, network or async.
const PURE: [&str; 2] = ["core", "packing"];

/// The only foreign crates that a pure crate may use. None of them brings in a clock, network or async.
const OF_PURE_CRATES: [&str; 3] = ["serde", "serde_json", "thiserror"];

/// What is wrong with the dependencies in a crate's `Cargo.toml`.
pub(super) fn examine(file: &str, text: &str) -> Vec<String> {
    let Some((place, name)) = file
        .strip_suffix("/Cargo.toml")
        .and_then(|directory| directory.split_once('/'))
    else {
        return Vec::new();
    };
    let allowed = match place {
        "crates" => BTreeMap::from(SHIPPED).get(name).copied(),
        _ => match BTreeMap::from(TOOLS).get(name) {
            Some(allowed) => Some(*allowed),
            None => return Vec::new(),
        },
    };
    let Some(allowed) = allowed else {
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
            None => !PURE.contains(&name) || OF_PURE_CRATES.contains(&dependency),
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
        assert!(examine("testing/bench/Cargo.toml", clock).is_empty());
    }

    #[test]
    fn what_is_shipped_uses_no_test_tool_and_a_test_tool_knows_nothing_of_the_product() {
        let rig = "[dependencies]\ngpushare-rig.workspace = true\n";
        assert_eq!(
            examine("crates/node/Cargo.toml", rig),
            ["crates/node/Cargo.toml: node must not depend on gpushare-rig"]
        );
        assert!(examine("testing/browser/Cargo.toml", rig).is_empty());
        assert!(examine("testing/e2e/Cargo.toml", rig).is_empty());
        let core = "[dependencies]\ngpushare-core.workspace = true\n";
        assert_eq!(
            examine("testing/rig/Cargo.toml", core),
            ["testing/rig/Cargo.toml: rig must not depend on gpushare-core"]
        );
    }
}
