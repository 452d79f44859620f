//! A sandbox for tests, and helpers to use it.

use gpushare_sandbox::story::{Player, Story};
use gpushare_sandbox::{Options, Sandbox};
pub(crate) use gpushare_testkit::until;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::LogParams;

/// How many times faster simulated time passes.
pub(crate) const SPEED: u32 = 20;

pub(crate) async fn start() -> Sandbox {
    let options = Options {
        speed: SPEED,
        ..Options::default()
    };
    Sandbox::start(&options).await.unwrap()
}

/// Plays a story and returns what it printed.
pub(crate) async fn play(sandbox: &Sandbox, story: &Story) -> String {
    let mut told = Vec::new();
    let played = Player::new(sandbox.client(), SPEED, &mut told)
        .play(story)
        .await;
    let told = String::from_utf8(told).unwrap();
    if let Err(error) = played {
        panic!("{error}\n{told}");
    }
    told
}

/// Applies manifests and waits for what they lead to, as the steps of a story.
pub(crate) async fn act(sandbox: &Sandbox, manifests: &str, waits: &[&str]) -> String {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("story.yaml");
    let mut text = "title: test\nsteps:\n- apply: |\n".to_owned();
    for line in manifests.lines() {
        text.extend(["    ", line, "\n"]);
    }
    for wait in waits {
        text.extend(["- wait: {", wait, "}\n"]);
    }
    std::fs::write(&path, text).unwrap();
    play(sandbox, &Story::read(&path).unwrap()).await
}

pub(crate) fn pods(sandbox: &Sandbox, namespace: &str) -> Api<Pod> {
    Api::namespaced(sandbox.client(), namespace)
}

pub(crate) async fn log(sandbox: &Sandbox, namespace: &str, pod: &str) -> String {
    let pods = pods(sandbox, namespace);
    pods.logs(pod, &LogParams::default()).await.unwrap()
}

pub(crate) fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}
