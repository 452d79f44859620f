//! Refusals, lost answers and held requests.

use std::time::Duration;

use anyhow::Result;
use gpushare_apiserver::{Answer, On, Server, Times, Verb};
use kube::api::ListParams;

use super::{
    bind, code, configs, create_config, create_pod, node_of, plain_client, pods, soon, start,
    start_bind,
};

const BUSY: Answer = Answer::TooManyRequests {
    retry_after_seconds: 1,
};

#[tokio::test]
async fn each_refusal_is_given_as_often_as_asked_and_writes_nothing() -> Result<()> {
    let (server, client) = start().await?;
    for (answer, expected) in [
        (Answer::Conflict, 409),
        (BUSY, 429),
        (Answer::InternalError, 500),
        (Answer::Unavailable, 503),
    ] {
        let on = On::any().verb(Verb::Create).resource("configmaps");
        let fault = server.faults().answer(on, Times::Next(2), answer);
        for _ in 0..2 {
            let refused = create_config(&client, "a").await;
            assert_eq!(code(refused)?, Some(expected));
        }
        assert_eq!(fault.hits(), 2);
        assert!(configs(client.clone()).get_opt("a").await?.is_none());
        create_config(&client, &format!("after-{expected}")).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_client_that_tries_again_gets_through_after_a_busy_answer() -> Result<()> {
    let server = Server::start().await?;
    let fault = server.faults().answer(On::any(), Times::Next(1), BUSY);
    create_config(&server.client(), "a").await?;
    assert_eq!(fault.hits(), 1);
    assert_eq!(server.requests().count(Verb::Create, "configmaps"), 2);
    Ok(())
}

#[tokio::test]
async fn a_fault_strikes_only_what_it_is_aimed_at() -> Result<()> {
    let (server, client) = start().await?;
    for name in ["a", "b"] {
        create_pod(&client, name).await?;
    }
    let on = On::any()
        .resource("pods/binding")
        .namespace("default")
        .name("a");
    let fault = server
        .faults()
        .answer(on, Times::Always, Answer::Unavailable);
    assert_eq!(code(bind(&client, "a", "n1").await)?, Some(503));
    bind(&client, "b", "n1").await?;
    pods(client.clone()).get("a").await?;
    fault.clear();
    bind(&client, "a", "n1").await?;
    assert_eq!(fault.hits(), 1);
    Ok(())
}

#[tokio::test]
async fn a_connection_cut_before_the_write_leaves_no_trace() -> Result<()> {
    let (server, client) = start().await?;
    let fault = server
        .faults()
        .cut_before(On::any().verb(Verb::Create), Times::Next(1));
    let lost = create_config(&client, "a").await;
    assert_eq!(code(lost)?, None, "no answer at all");
    assert_eq!(fault.hits(), 1);
    assert!(configs(client.clone()).get_opt("a").await?.is_none());
    create_config(&client, "a").await?;
    Ok(())
}

#[tokio::test]
async fn a_binding_whose_answer_is_lost_is_done_all_the_same() -> Result<()> {
    let (server, client) = start().await?;
    create_pod(&client, "a").await?;
    server
        .faults()
        .cut_after(On::any().resource("pods/binding"), Times::Next(1));
    let lost = bind(&client, "a", "n1").await;
    assert_eq!(code(lost)?, None, "no answer at all");
    assert_eq!(node_of(&client, "a").await?.as_deref(), Some("n1"));
    assert_eq!(code(bind(&client, "a", "n2").await)?, Some(409));
    assert_eq!(node_of(&client, "a").await?.as_deref(), Some("n1"));
    Ok(())
}

#[tokio::test]
async fn requests_wait_at_a_gate_before_or_after_they_take_effect() -> Result<()> {
    let (server, client) = start().await?;
    create_pod(&client, "a").await?;
    create_pod(&client, "b").await?;
    let on = On::any().resource("pods/binding");

    let before = server.faults().hold_before(on.clone());
    let held = start_bind(&client, "a", "n1");
    soon("reaching the gate", before.reached(1)).await?;
    assert_eq!(node_of(&client, "a").await?, None);
    before.release();
    soon("the released binding", held).await???;
    assert_eq!(node_of(&client, "a").await?.as_deref(), Some("n1"));

    let after = server.faults().hold_after(on);
    let held = start_bind(&client, "b", "n1");
    soon("reaching the gate", after.reached(1)).await?;
    let node = node_of(&client, "b").await?;
    assert_eq!(node.as_deref(), Some("n1"), "done, but not answered");
    assert!(!held.is_finished());
    drop(after);
    soon("the released binding", held).await???;
    Ok(())
}

#[tokio::test]
async fn a_program_that_dies_at_a_gate_before_the_write_has_written_nothing() -> Result<()> {
    let (server, client) = start().await?;
    create_pod(&client, "a").await?;
    let gate = server
        .faults()
        .hold_before(On::any().resource("pods/binding"));
    let doomed = start_bind(&plain_client(&server)?, "a", "n1");
    soon("reaching the gate", gate.reached(1)).await?;
    doomed.abort();
    assert!(soon("the death", doomed).await?.is_err());
    soon("the server noticing it", gate.emptied()).await?;
    gate.release();
    assert_eq!(node_of(&client, "a").await?, None);
    bind(&client, "a", "n2").await?;
    Ok(())
}

#[tokio::test]
async fn a_delayed_request_is_overtaken_by_a_later_one() -> Result<()> {
    let (server, client) = start().await?;
    let delay = Duration::from_millis(300);
    let lists = On::any().verb(Verb::List).resource("pods");
    server.faults().delay(lists, Times::Always, delay);
    let slow = async {
        pods(client.clone()).list(&ListParams::default()).await?;
        anyhow::Ok("slow")
    };
    let quick = async {
        create_config(&client, "a").await?;
        anyhow::Ok("quick")
    };
    let (first, _) = futures::future::select(Box::pin(slow), Box::pin(quick))
        .await
        .factor_first();
    assert_eq!(first?, "quick");
    Ok(())
}

#[tokio::test]
async fn requests_are_counted_by_verb_and_resource() -> Result<()> {
    let (server, client) = start().await?;
    create_pod(&client, "a").await?;
    server.requests().reset();
    bind(&client, "a", "n1").await?;
    pods(client.clone()).get("a").await?;
    pods(client.clone()).get("a").await?;
    pods(client.clone()).list(&ListParams::default()).await?;
    let requests = server.requests();
    assert_eq!(requests.count(Verb::Create, "pods/binding"), 1);
    assert_eq!(requests.count(Verb::Get, "pods"), 2);
    assert_eq!(requests.count(Verb::List, "pods"), 1);
    assert_eq!(requests.writes(), 1);
    assert_eq!(requests.total(), 4, "{:?}", requests.by_resource());
    Ok(())
}
