//! The agent and the API server: what it publishes on its Node, and how it learns of pods.

use std::collections::BTreeMap;

use gpushare_apiserver::{Answer, Gate, On, Server, Times, Verb};
use gpushare_core::gpu::{self, AliyunUnit};
use gpushare_core::placement::{Hold, Placement};
use gpushare_core::record::Record;
use gpushare_core::{Amounts, held, inventory, names};
use gpushare_kube::convert::PodFacts;
use gpushare_kube::slim;
use gpushare_testkit::cluster::Objects;
use gpushare_testkit::{assert_contains, until};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::support::{NODE, World};

fn nodes(server: &Server) -> Api<Node> {
    Api::all(server.client())
}

async fn create_node(server: &Server) {
    nodes(server).add(json!({"metadata": {"name": NODE}})).await;
}

/// A server with the Node, and its agent at work with cards of these sizes in GiB.
async fn connected(gib: &[u64]) -> (Server, World) {
    let server = Server::start().await.unwrap();
    create_node(&server).await;
    let world = World::with_api(gib, server.client()).await;
    (server, world)
}

async fn end(server: Server, world: World) {
    world.end().await;
    server.shutdown().await;
}

/// The healthy card ids in the Node's annotation and the totals in its status, if they are there.
async fn published(server: &Server) -> Option<(Vec<String>, String, String)> {
    let nodes: Api<Node> = Api::all(server.client());
    let node = nodes.get_opt(NODE).await.unwrap()?;
    let text = node.metadata.annotations?.remove(names::CARDS)?;
    let cards = inventory::decode(&gpu::classes(), &text).unwrap();
    let healthy = cards.into_iter().filter(|card| card.healthy);
    let ids = healthy.map(|card| card.id.to_string()).collect();
    let status = node.status?;
    let capacity = status.capacity?;
    assert_eq!(capacity, status.allocatable?);
    Some((
        ids,
        capacity.get(names::GPU_MEM)?.0.clone(),
        capacity.get(names::ALIYUN_GPU_COUNT)?.0.clone(),
    ))
}

async fn until_published(server: &Server, expected: &(Vec<String>, String, String)) {
    until("the cards to be published", async || {
        let published = published(server).await;
        (published.as_ref() == Some(expected))
            .then_some(())
            .ok_or(published)
    })
    .await;
}

async fn until_ready(world: &World) {
    until("the agent to be ready", async || {
        match world.page("/readyz").await {
            (200, _) => Ok(()),
            other => Err(other),
        }
    })
    .await;
}

#[tokio::test]
async fn the_cards_stand_on_the_node_also_when_it_is_edited_or_made_anew() {
    let (server, world) = connected(&[16, 8]).await;
    let cards = vec![world.card(0), world.card(1)];
    let expected = (cards, "24576".to_owned(), "2".to_owned());
    until_published(&server, &expected).await;

    let removed = json!({names::CARDS: null});
    nodes(&server).annotate(NODE, removed).await;
    until_published(&server, &expected).await;

    nodes(&server).delete_now(NODE).await;
    create_node(&server).await;
    until_published(&server, &expected).await;

    let card = world.card(1);
    world.change_hardware(|hardware| hardware.card_mut(&card).unwrap().lost = true);
    let sick = (vec![world.card(0)], "24576".to_owned(), "2".to_owned());
    until_published(&server, &sick).await;
    end(server, world).await;
}

async fn until_not_published(world: &World) {
    until(
        "the agent to say that its cards are not on the Node",
        async || match world.page("/readyz").await {
            (503, reason) if reason.contains("not published") => Ok(()),
            other => Err(other),
        },
    )
    .await;
}

#[tokio::test]
async fn an_agent_is_ready_again_when_its_cards_stand_on_the_node_that_replaced_its_own() {
    let (server, world) = connected(&[16]).await;
    let expected = (vec![world.card(0)], "16384".to_owned(), "1".to_owned());
    until_ready(&world).await;

    nodes(&server).delete_now(NODE).await;
    until_not_published(&world).await;

    // A token that was bound to the deleted Node is refused like this.
    let writes = On::any().verb(Verb::Patch).resource("nodes");
    let refused = server
        .faults()
        .answer(writes, Times::Always, Answer::Unauthorized);
    create_node(&server).await;
    until("the agent to be refused", async || refused.hits() > 0).await;
    until_not_published(&world).await;

    refused.clear();
    until_published(&server, &expected).await;
    until_ready(&world).await;
    end(server, world).await;
}

/// Breaks all watches, and holds the next one of these objects back.
async fn hold_watch(server: &Server, resource: &str) -> Gate {
    let watch = On::any().verb(Verb::Watch).resource(resource);
    let gate = server.faults().hold_before(watch);
    server.faults().cut_watches();
    gate.reached(1).await;
    gate
}

#[tokio::test]
async fn a_node_that_went_while_the_watch_was_broken_is_missed_too() {
    let (server, world) = connected(&[16]).await;
    until_ready(&world).await;
    let gate = hold_watch(&server, "nodes").await;
    nodes(&server).delete_now(NODE).await;
    // The watch cannot resume where it was: it begins with a list, in which the Node is missing.
    server.faults().expire_history();
    gate.release();
    until_not_published(&world).await;
    end(server, world).await;
}

#[tokio::test]
async fn an_agent_whose_token_has_ended_is_not_ready_until_it_is_known_again() {
    let (server, world) = connected(&[16]).await;
    until_ready(&world).await;
    let nodes = On::any().resource("nodes");
    let answer = Answer::Unauthorized;
    let refused = server.faults().answer(nodes, Times::Always, answer);
    server.faults().cut_watches();
    until_not_published(&world).await;
    refused.clear();
    until_ready(&world).await;
    end(server, world).await;
}

/// The totals of the Node's status, by name.
async fn totals(server: &Server) -> BTreeMap<String, String> {
    let nodes: Api<Node> = Api::all(server.client());
    let status = nodes.get(NODE).await.unwrap().status.unwrap();
    let capacity = status.capacity.unwrap_or_default();
    assert_eq!(capacity, status.allocatable.unwrap_or_default());
    let text = |(name, amount): (String, Quantity)| (name, amount.0);
    capacity.into_iter().map(text).collect()
}

async fn until_totals(server: &Server, expected: &[(&str, &str)]) {
    let expected: BTreeMap<String, String> = expected
        .iter()
        .map(|(name, amount)| ((*name).to_owned(), (*amount).to_owned()))
        .collect();
    until("the totals", async || {
        let found = totals(server).await;
        (found == expected).then_some(()).ok_or(found)
    })
    .await;
}

#[tokio::test]
async fn every_dialects_totals_stand_on_the_node_and_go_when_the_dialect_is_switched_off() {
    let server = Server::start().await.unwrap();
    create_node(&server).await;
    let others = json!({"cpu": "8", "example.com/other": "3"});
    let others = json!({"capacity": others, "allocatable": others});
    nodes(&server).merge_status(NODE, others).await;
    let always = [
        ("cpu", "8"),
        ("example.com/other", "3"),
        ("aliyun.com/gpu-count", "2"),
        ("gpushare.io/gpu-core", "200"),
        ("gpushare.io/gpu-mem", "24576"),
        ("tencent.com/vcuda-memory", "96"),
    ];
    let hamis = [
        ("nvidia.com/gpucores", "200"),
        ("nvidia.com/gpumem", "24576"),
        ("nvidia.com/gpumem-percentage", "200"),
    ];
    let mut world = World::with_api_and(&[16, 8], server.client(), |config| {
        config.reading.hami = true;
    })
    .await;
    until_totals(&server, &[&always[..], &hamis].concat()).await;

    world.stop_agent().await;
    world.reconfigure(|config| config.reading.hami = false);
    world.start_agent_unlisted();
    until_totals(&server, &always).await;
    end(server, world).await;
}

#[tokio::test]
async fn a_node_that_is_up_to_date_is_not_written_again() {
    let (server, world) = connected(&[16]).await;
    let expected = (vec![world.card(0)], "16384".to_owned(), "1".to_owned());
    until_published(&server, &expected).await;
    let writes = server.requests().writes();
    for number in 0..5 {
        let edit = json!({"metadata": {"labels": {"number": number.to_string()}}});
        nodes(&server).merge(NODE, edit).await;
    }
    until_ready(&world).await;
    let before_us = 1;
    assert_eq!(
        writes,
        before_us + 2,
        "one write each for annotation and status"
    );
    assert_eq!(server.requests().writes(), writes + 5, "only ours");
    end(server, world).await;
}

/// Creates a pod and binds it with its record in one write, as the extender does. Returns its uid.
async fn bind(server: &Server, name: &str, gib: u64, card: &str) -> String {
    let limits = json!({names::ALIYUN_GPU_MEM: gib.to_string()});
    let container = json!({"name": "main", "image": "busybox", "resources": {"limits": limits}});
    let pods: Api<Pod> = Api::namespaced(server.client(), "default");
    let pod = json!({"metadata": {"name": name}, "spec": {"containers": [container]}});
    pods.add(pod).await;

    let pods: Api<slim::Pod> = Api::namespaced(server.client(), "default");
    let facts = PodFacts::new(
        &pods.get(name).await.unwrap(),
        &gpu::dialects(AliyunUnit::GiB),
    );
    let ask = facts.ask.unwrap().unwrap();
    let placement = Placement::on_one_card(&ask, &card.into());
    let record = Record::new(facts.uid.clone(), NODE.into(), &gpu::classes(), &placement).encode();
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding",
        "metadata": {"name": name, "annotations": {names::ALLOCATION: record}},
        "target": {"apiVersion": "v1", "kind": "Node", "name": NODE},
    });
    let answer: Value = pods
        .create_subresource("binding", name, &PostParams::default(), &binding)
        .await
        .unwrap();
    assert_eq!(answer["status"], "Success");
    facts.uid.to_string()
}

async fn admit(world: &World, server: &Server, name: &str, gib: u64) {
    let uid = bind(server, name, gib, &world.card(0)).await;
    world.kubelet.learn_uid(name, uid);
    world.admit(name, gib).await;
}

async fn delete_by_force(server: &Server, name: &str) {
    let pods: Api<Pod> = Api::namespaced(server.client(), "default");
    pods.delete_now(name).await;
}

/// Waits until the Node says that containers without pods hold something, or nothing, and returns what it says.
async fn until_held(server: &Server, something: bool) -> Option<String> {
    let nodes: Api<Node> = Api::all(server.client());
    until("what is held without a pod", async || {
        let node = nodes.get(NODE).await.unwrap();
        let annotations = node.metadata.annotations.unwrap_or_default();
        let held = annotations.get(names::HELD).cloned();
        if held.is_some() == something {
            Ok(held)
        } else {
            Err(held)
        }
    })
    .await
}

#[tokio::test]
async fn a_bound_pod_starts_and_its_file_goes_when_its_containers_have_ended() {
    let (server, world) = connected(&[16]).await;
    admit(&world, &server, "a", 3).await;
    let env = world.started("a", "main").await;
    assert_eq!(env["NVIDIA_VISIBLE_DEVICES"], world.card(0));

    server.faults().cut_watches();
    delete_by_force(&server, "a").await;
    // Its container still runs, and the extender must know of it.
    let told = until_held(&server, true).await;
    let held = held::decode(&gpu::classes(), &told.unwrap()).unwrap();
    assert_eq!(held.len(), 1);
    assert_eq!(&*held[0].name, "default/a");
    let memory = Amounts::of(gpu::MEMORY, 3072);
    let card = world.card(0).as_str().into();
    assert_eq!(held[0].charges.get(&card), Some(&Hold::Part(memory)));
    assert_eq!(world.cdi_files().len(), 1);
    world.kubelet.end_processes("a");
    until("the file to go", async || world.cdi_files().is_empty()).await;
    until_held(&server, false).await;
    end(server, world).await;
}

#[tokio::test]
async fn a_pod_that_the_watch_does_not_show_is_looked_up_by_name_and_uid_and_holds_its_card() {
    let (server, world) = connected(&[16]).await;
    until_ready(&world).await;
    let gate = hold_watch(&server, "pods").await;
    admit(&world, &server, "a", 3).await;
    // The same name with another uid is another pod.
    let other = bind(&server, "b", 3, &world.card(0)).await;
    world.admit("b", 3).await;
    let (_, refusal) = tokio::join!(world.started("a", "main"), world.refusal("b"));
    assert_contains(&refusal, "uid-b");
    assert_eq!(world.cdi_files().len(), 1);

    // The watch begins with a list, so it never shows the pod, although its container runs.
    delete_by_force(&server, "a").await;
    server.faults().expire_history();
    gate.release();
    let state = &world.agent().state;
    let other = other.as_str().into();
    until("the list", async || state.pod(&other).is_some()).await;
    until_held(&server, true).await;
    assert_eq!(world.cdi_files().len(), 1);
    world.kubelet.end_processes("a");
    until_held(&server, false).await;
    end(server, world).await;
}
