//! Logs come from the source that the server was given.

use std::sync::Arc;

use anyhow::Result;
use gpushare_apiserver::{Logs, Server};
use kube::api::LogParams;

use super::{create_pod, pods};

#[derive(Debug)]
struct OneLine;

impl Logs for OneLine {
    fn read(&self, namespace: &str, pod: &str, container: &str) -> Option<String> {
        (pod == "a").then(|| format!("first\n{namespace}/{pod}/{container}\n"))
    }
}

#[tokio::test]
async fn a_log_is_the_text_of_its_container_and_a_refusal_says_why_there_is_none() -> Result<()> {
    let server = Server::builder().logs(Arc::new(OneLine)).start().await?;
    let api = pods(server.client());
    for name in ["a", "b"] {
        create_pod(&server.client(), name).await?;
    }
    let all = LogParams::default();
    assert_eq!(api.logs("a", &all).await?, "first\ndefault/a/c\n");
    let last = LogParams {
        tail_lines: Some(1),
        ..all.clone()
    };
    assert_eq!(api.logs("a", &last).await?, "default/a/c\n");
    let early = api.logs("b", &all).await.unwrap_err().to_string();
    assert!(early.contains("waiting to start"), "{early}");
    let other = LogParams {
        container: Some("x".to_owned()),
        ..all
    };
    let wrong = api.logs("a", &other).await.unwrap_err().to_string();
    assert!(wrong.contains("container x is not valid"), "{wrong}");
    server.shutdown().await;
    Ok(())
}
