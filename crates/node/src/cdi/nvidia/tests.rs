use std::os::unix::fs::symlink;
use std::sync::mpsc;
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::json;
use tempfile::TempDir;

use super::*;

const SPEC: &str = r"
cdiVersion: 0.5.0
kind: nvidia.com/gpu
devices:
  - name: '0'
    containerEdits:
      deviceNodes: [{path: /dev/nvidia0}]
  - name: GPU-a
    containerEdits:
      deviceNodes: [{path: /dev/nvidia0}]
  - name: GPU-b
    containerEdits:
      deviceNodes: [{path: /dev/nvidia1, major: 195, minor: 1}]
containerEdits:
  env: [NVIDIA_VISIBLE_DEVICES=void, NVIDIA_CTK=1]
  deviceNodes: [{path: /dev/nvidiactl}]
  mounts:
    - {hostPath: /usr/lib/libcuda.so.1, containerPath: /usr/lib/libcuda.so.1, options: [ro, bind]}
  hooks:
    - {hookName: createContainer, path: /usr/bin/nvidia-cdi-hook, args: [nvidia-cdi-hook, update-ldcache]}
";

fn specs(files: &[(&str, &str)]) -> (TempDir, DriverSpecs) {
    let directory = TempDir::new().unwrap();
    for (name, text) in files {
        fs::write(directory.path().join(name), text).unwrap();
    }
    let absent = directory.path().join("absent");
    let directories = vec![absent, directory.path().to_owned()];
    (directory, DriverSpecs { directories })
}

fn edits(specs: &DriverSpecs, cards: &[&str]) -> Option<DriverEdits> {
    let cards: Vec<CardId> = cards.iter().map(CardId::new).collect();
    specs.edits(&cards.iter())
}

#[test]
fn a_card_brings_its_own_nodes_and_what_is_common_to_all_cards() {
    let (_directory, specs) = specs(&[("nvidia.yaml", SPEC)]);
    let found = edits(&specs, &["GPU-b"]).unwrap();
    assert_eq!(found.version, "0.6.0", "ours needs at least this");
    assert_eq!(
        found.edits.device_nodes,
        [
            json!({"path": "/dev/nvidiactl"}),
            json!({"path": "/dev/nvidia1", "major": 195, "minor": 1})
        ]
    );
    assert_eq!(found.edits.mounts.len(), 1);
    assert_eq!(found.edits.hooks.len(), 1);
}

#[test]
fn several_cards_bring_the_common_part_once() {
    let (_directory, specs) = specs(&[("nvidia.yaml", SPEC)]);
    let found = edits(&specs, &["GPU-a", "GPU-b"]).unwrap();
    assert_eq!(found.edits.device_nodes.len(), 3);
    assert_eq!(found.edits.hooks.len(), 1);
}

#[test]
fn our_environment_wins_over_the_drivers() {
    let (_directory, specs) = specs(&[("nvidia.yaml", SPEC)]);
    let ours = ContainerEdits {
        env: vec!["NVIDIA_VISIBLE_DEVICES=GPU-a".to_owned()],
        ..ContainerEdits::default()
    };
    let (_, merged) = edits(&specs, &["GPU-a"]).unwrap().beneath(&ours);
    assert_eq!(merged.env, ["NVIDIA_CTK=1", "NVIDIA_VISIBLE_DEVICES=GPU-a"]);
}

#[test]
fn a_newer_spec_keeps_its_version() {
    let newer = SPEC.replace("0.5.0", "0.10.0");
    let (_directory, specs) = specs(&[("nvidia.yaml", &newer)]);
    assert_eq!(edits(&specs, &["GPU-a"]).unwrap().version, "0.10.0");
}

#[test]
fn a_card_that_no_spec_names_by_uuid_brings_nothing() {
    let (_directory, specs) = specs(&[("nvidia.yaml", SPEC)]);
    assert_eq!(edits(&specs, &["GPU-c"]), None);
    assert_eq!(edits(&specs, &["GPU-a", "GPU-c"]), None);
}

#[test]
fn other_peoples_files_and_broken_ones_are_passed_over() {
    let json = r#"{"cdiVersion":"0.6.0","kind":"nvidia.com/gpu","devices":[{"name":"GPU-j","containerEdits":{}}]}"#;
    let (_directory, specs) = specs(&[
        ("broken.yaml", "kind: [nvidia.com/gpu"),
        ("gpushare.io-slot-x.json", json),
        ("notes.txt", SPEC),
        (
            "other.json",
            &json.replace("nvidia.com/gpu", "example.com/nvidia.com/gpu"),
        ),
        ("z.json", &json.replace("GPU-j", "GPU-z")),
    ]);
    assert_eq!(edits(&specs, &["GPU-j"]), None);
    assert!(edits(&specs, &["GPU-z"]).is_some());
}

#[test]
fn a_spec_that_is_no_file_does_not_hold_up_the_start_of_containers() {
    let (directory, specs) = specs(&[("nvidia.yaml", SPEC)]);
    let fifo = directory.path().join("earlier.yaml");
    mknodat(CWD, fifo, FileType::Fifo, Mode::RWXU, 0).unwrap();
    symlink("/dev/zero", directory.path().join("endless.json")).unwrap();
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || tell.send(edits(&specs, &["GPU-a"]).is_some()));
    // Much longer than it takes.
    let found = told.recv_timeout(Duration::from_secs(20));
    assert_eq!(found, Ok(true), "it hangs, or finds nothing");
}
