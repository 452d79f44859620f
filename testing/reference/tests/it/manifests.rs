//! Every manifest in the documents works: it is applied in the sandbox, through the real webhook and extender, and runs.

use std::collections::BTreeSet;

use gpushare_core::devices::Devices;
use gpushare_core::gpu::{self, AliyunUnit, Reading};
use gpushare_sandbox::story::{Player, Story};
use gpushare_sandbox::{Options, Sandbox};
use k8s_openapi::api::core::v1::Container;
use serde_json::{Value, json};

use crate::documents::{Block, Document, documents, root};

const SPEED: u32 = 50;
/// kube-scheduler's configuration tells it to ignore this resource.
const NOT_OURS: &str = "nvidia.com/priority";

fn blocks() -> Vec<Block> {
    documents()
        .iter()
        .flat_map(Document::blocks)
        .filter(|block| block.language == "yaml")
        .collect()
}

fn objects(block: &Block) -> Vec<Value> {
    let documents = block.text.split("\n---\n");
    documents
        .map(|text| {
            serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{}: {error}", block.place))
        })
        .collect()
}

fn every_dialect() -> gpu::Reading {
    Reading {
        aliyun: AliyunUnit::default(),
        hami: true,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_manifest_in_the_documents_runs() {
    let options = Options {
        speed: SPEED,
        ..Options::default()
    };
    let sandbox = Sandbox::start(&options).await.unwrap();
    let mut played = 0;
    for block in blocks() {
        let story = match objects(&block).as_slice() {
            [only] if only["steps"].is_array() => block.text.clone(),
            all if all.iter().all(|object| object["kind"].is_string()) => match lifecycle(all) {
                steps if steps.is_empty() => continue,
                steps => story(&steps),
            },
            [part] if asks_for_cards(part) => story(&lifecycle(&[pod_with(part)])),
            _ => continue,
        };
        played += 1;
        play(&sandbox, &block.place, &story).await;
    }
    sandbox.stop().await.unwrap();
    assert!(played > 12, "only {played} manifests were found");
}

/// Whether the sandbox can run this part of a manifest: resources of a container with our cards.
fn asks_for_cards(part: &Value) -> bool {
    let ours: BTreeSet<String> = gpu::read(every_dialect())
        .resources()
        .map(ToString::to_string)
        .collect();
    let limits = part.pointer("/resources/limits").and_then(Value::as_object);
    limits.is_some_and(|limits| limits.keys().all(|resource| ours.contains(resource)))
}

fn pod_with(part: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "from-the-documents"},
        "spec": {"containers": [{
            "name": "app", "image": "example/app:1", "resources": part["resources"].clone(),
        }]},
    })
}

/// Steps that apply objects, wait until they work, and remove them. Empty if an object is of an unknown kind.
fn lifecycle(objects: &[Value]) -> Vec<Value> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut steps = Vec::new();
    let mut ends = Vec::new();
    for object in objects {
        let (kind, name) = (text(&object["kind"]), text(&object["metadata"]["name"]));
        let namespace = object["metadata"]["namespace"]
            .as_str()
            .unwrap_or("default");
        let whole = format!("{namespace}/{name}");
        let mut target = json!({
            "apiVersion": object["apiVersion"], "kind": kind, "name": name,
        });
        let expected = match kind.as_str() {
            "Pod" => Some(json!({"running": whole})),
            "Deployment" => Some(json!({"available": whole})),
            "StatefulSet" => Some(json!({"running": format!("{whole}-0")})),
            "GpuBudget" => Some(json!({"funded": name})),
            "ResourceQuota" | "Namespace" | "Job" => None,
            _ => return Vec::new(),
        };
        if !matches!(kind.as_str(), "GpuBudget" | "Namespace") {
            let home =
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
            steps.push(json!({"apply": home.to_string()}));
            target["namespace"] = json!(namespace);
        }
        steps.push(json!({"apply": object.to_string()}));
        steps.extend(expected.map(|expected| json!({"wait": expected})));
        if kind != "Namespace" {
            ends.push(json!({"delete": target}));
        }
        if kind == "Pod" {
            ends.push(json!({"wait": {"gone": whole}}));
        }
    }
    steps.extend(ends);
    steps
}

fn story(steps: &[Value]) -> String {
    json!({"title": "What the documents say", "steps": steps}).to_string()
}

async fn play(sandbox: &Sandbox, place: &str, story: &str) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("story.yaml");
    std::fs::write(&file, story).unwrap();
    let story = Story::read(&file).unwrap_or_else(|error| panic!("{place}: {error}"));
    let mut told = Vec::new();
    let played = Player::new(sandbox.client(), SPEED, &mut told)
        .play(&story)
        .await;
    if let Err(error) = played {
        panic!("{place}: {error}\n{}", String::from_utf8_lossy(&told));
    }
}

/// Checks every piece of YAML that the previous test does not run.
#[test]
fn every_other_piece_of_yaml_is_what_it_is_said_to_be() {
    let mut classes = None;
    for block in blocks() {
        for object in objects(&block) {
            let place = &block.place;
            if object["kind"] == "KubeSchedulerConfiguration" {
                scheduler_names_every_resource(place, &object);
            } else if object["apiVersion"] == "cert-manager.io/v1" {
                goes_into_the_secret_of_the_timekeeper(place, &object);
            } else if object["classes"].is_array() {
                let devices: Devices = serde_saphyr::from_str(&block.text).unwrap();
                classes = Some(devices.add_to(gpu::read(every_dialect())).unwrap());
            } else if object["readinessProbe"].is_object() {
                let mut container = object;
                container["name"] = json!("app");
                let parsed: Result<Container, _> = serde_json::from_value(container);
                assert!(parsed.is_ok(), "{place}: {parsed:?}");
            } else if let Some(extenders) = object.as_array() {
                assert!(
                    extenders.iter().all(|one| one["urlPrefix"].is_string()),
                    "{place}"
                );
            } else if let Some(limits) = object.pointer("/resources/limits") {
                if !asks_for_cards(&object) {
                    let known = classes.as_ref().expect("the class comes first");
                    for resource in limits.as_object().unwrap().keys() {
                        assert!(
                            known.resources().any(|other| **other == **resource),
                            "{place}: {resource}"
                        );
                    }
                }
            } else {
                let runs = object["steps"].is_array() || !lifecycle(&[object]).is_empty();
                assert!(runs, "{place}: no test knows what this is");
            }
        }
    }
}

fn goes_into_the_secret_of_the_timekeeper(place: &str, certificate: &Value) {
    let file = std::fs::read_to_string(root().join("deploy/timekeeper.yaml")).unwrap();
    for field in ["/spec/secretName", "/spec/dnsNames/0"] {
        let value = certificate.pointer(field).and_then(Value::as_str);
        let value = value.unwrap_or_else(|| panic!("{place}: no {field}"));
        assert!(file.contains(value), "{place}: {value}");
    }
}

fn scheduler_names_every_resource(place: &str, configuration: &Value) {
    let managed = configuration
        .pointer("/extenders/0/managedResources")
        .and_then(Value::as_array)
        .unwrap_or_else(|| panic!("{place}: no managedResources"));
    let named: BTreeSet<&str> = managed
        .iter()
        .filter_map(|resource| resource["name"].as_str())
        .filter(|name| *name != NOT_OURS)
        .collect();
    let dialects = gpu::read(every_dialect());
    let ours: BTreeSet<&str> = dialects.resources().map(|resource| &**resource).collect();
    assert_eq!(named, ours, "{place}");
}
