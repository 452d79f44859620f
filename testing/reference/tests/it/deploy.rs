//! The manifests of `deploy/` start the programs correctly.

use std::collections::BTreeSet;

use clap::{CommandFactory, Parser};
use serde_json::Value;

use crate::documents::root;

/// Every object of every file, with the file's name.
fn objects() -> Vec<(String, Value)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root().join("deploy")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        for text in std::fs::read_to_string(&path).unwrap().split("\n---\n") {
            found.push((name.clone(), serde_saphyr::from_str(text).unwrap()));
        }
    }
    found
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn items<'a>(value: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    let list = value.pointer(pointer).and_then(Value::as_array);
    list.into_iter().flatten()
}

/// All workloads: the file, the pod and its only container.
fn workloads(all: &[(String, Value)]) -> Vec<(&str, &Value, &Value)> {
    all.iter()
        .filter(|(_, object)| matches!(text(object, "/kind"), "Deployment" | "DaemonSet"))
        .map(|(file, object)| {
            let pod = object.pointer("/spec/template/spec").unwrap();
            (file.as_str(), pod, pod.pointer("/containers/0").unwrap())
        })
        .collect()
}

#[test]
fn every_part_is_started_with_flags_that_it_understands_and_ports_that_it_serves() {
    let all = objects();
    let mut roles = BTreeSet::new();
    for (file, _, container) in workloads(&all) {
        let flags: Vec<&str> = items(container, "/args")
            .filter_map(Value::as_str)
            .collect();
        let program = text(container, "/image").split(':').next().unwrap();
        let line = std::iter::once(program).chain(flags.iter().copied());
        let wrong = if program == "gpushare-node" {
            let named = ["--node-name", "from-the-environment"];
            gpushare_node::config::Cli::try_parse_from(line.chain(named)).err()
        } else {
            assert_eq!(program, "gpushare-control", "{file}");
            gpushare_control::cli::Cli::try_parse_from(line).err()
        };
        assert!(wrong.is_none(), "{file}: {}", wrong.unwrap());
        let served: BTreeSet<u64> = flags
            .iter()
            .filter(|flag| flag.contains("listen="))
            .filter_map(|flag| flag.rsplit(':').next()?.parse().ok())
            .collect();
        let ports: BTreeSet<u64> = items(container, "/ports")
            .filter_map(|port| port["containerPort"].as_u64())
            .collect();
        assert_eq!(ports, served, "{file}");
        roles.insert(format!("{program} {}", flags[0].trim_start_matches('-')));
    }
    assert_eq!(roles.len(), 5, "{roles:?}");
}

#[test]
fn every_account_that_a_part_runs_as_is_made() {
    let all = objects();
    let accounts: BTreeSet<&str> = all
        .iter()
        .filter(|(_, object)| text(object, "/kind") == "ServiceAccount")
        .map(|(_, object)| text(object, "/metadata/name"))
        .collect();
    for (file, pod, _) in workloads(&all) {
        let account = text(pod, "/serviceAccountName");
        assert!(accounts.contains(account), "{file}: {account}");
    }
}

#[test]
fn the_agent_gets_the_directories_that_its_flags_name() {
    let all = objects();
    let workloads = workloads(&all);
    let (_, _, agent) = workloads
        .iter()
        .find(|(file, ..)| *file == "node.yaml")
        .unwrap();
    let mounts: BTreeSet<&str> = items(agent, "/volumeMounts")
        .map(|mount| text(mount, "/mountPath"))
        .collect();
    let command = gpushare_node::config::Cli::command();
    for flag in [
        "device_plugin_dir",
        "pod_resources_socket",
        "cdi_dir",
        "driver_cdi_dir",
    ] {
        let flag = command
            .get_arguments()
            .find(|one| one.get_id() == flag)
            .unwrap();
        let path = flag.get_default_values()[0].to_str().unwrap();
        assert!(
            mounts.iter().any(|mount| path.starts_with(mount)),
            "nothing is mounted at {path}"
        );
    }
}
