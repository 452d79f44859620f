//! Starting and ending a server.

use anyhow::Result;
use gpushare_apiserver::{On, Server};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{
    ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams, WatchParams,
};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio::net::TcpStream;

use super::{configs, create_config, soon, start};

#[tokio::test]
async fn a_server_leaves_no_task_behind() -> Result<()> {
    let tasks = || {
        tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks()
    };
    assert_eq!(tasks(), 0);
    let (server, client) = start().await?;
    let address = server.address();
    create_config(&client, "a").await?;
    let watch = configs(client.clone())
        .watch(&WatchParams::default(), "0")
        .await?;
    let gate = server.faults().hold_before(On::any().resource("pods"));
    let held = tokio::spawn({
        let client = client.clone();
        async move { super::pods(client).list(&ListParams::default()).await }
    });
    soon("reaching the gate", gate.reached(1)).await?;
    soon("the shutdown", server.shutdown()).await?;
    assert!(soon("the held request", held).await??.is_err());
    drop((watch, client, gate));
    soon("the end of every task", async {
        while tasks() > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await?;
    let connected = TcpStream::connect(address).await;
    assert!(connected.is_err(), "nobody listens any more");
    Ok(())
}

#[tokio::test]
async fn dropping_a_server_ends_it() -> Result<()> {
    let server = Server::start().await?;
    let address = server.address();
    drop(server);
    soon("the end", async {
        while TcpStream::connect(address).await.is_ok() {
            tokio::task::yield_now().await;
        }
    })
    .await
}

#[tokio::test]
async fn two_servers_do_not_know_each_other() -> Result<()> {
    let (one, two) = (Server::start().await?, Server::start().await?);
    create_config(&one.client(), "a").await?;
    assert!(configs(two.client()).get_opt("a").await?.is_none());
    let namespaces: Api<Namespace> = Api::all(two.client());
    let namespaces = namespaces.list(&ListParams::default()).await?;
    let names: Vec<String> = namespaces.iter().map(ResourceExt::name_any).collect();
    let first = ["default", "kube-node-lease", "kube-public", "kube-system"];
    assert_eq!(names, first);
    Ok(())
}

#[tokio::test]
async fn a_token_is_checked_where_one_is_set_and_ignored_otherwise() -> Result<()> {
    let guarded = Server::builder().token("secret").start().await?;
    create_config(&guarded.client(), "a").await?;
    let stranger = Client::try_from(kube::Config::new(guarded.url().parse()?))?;
    assert_eq!(super::code(configs(stranger).get("a").await)?, Some(401));
    let open = Server::start().await?;
    let mut config = open.config();
    config.auth_info.token = Some("whatever".to_owned().into());
    create_config(&Client::try_from(config)?, "a").await?;
    Ok(())
}

#[tokio::test]
async fn a_custom_resource_is_served_as_its_definition_says() -> Result<()> {
    let definition = serde_json::from_value(json!({
        "metadata": {"name": "budgets.gpushare.io"},
        "spec": {
            "group": "gpushare.io", "scope": "Namespaced",
            "names": {"plural": "budgets", "kind": "Budget"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}}, "subresources": {"status": {}}}],
        },
    }))?;
    let server = Server::builder().crd(definition).start().await?;
    let kind = ApiResource {
        group: "gpushare.io".to_owned(),
        version: "v1".to_owned(),
        api_version: "gpushare.io/v1".to_owned(),
        kind: "Budget".to_owned(),
        plural: "budgets".to_owned(),
    };
    let budgets: Api<DynamicObject> = Api::namespaced_with(server.client(), "default", &kind);
    let budget = DynamicObject::new("team", &kind).data(json!({"spec": {"seconds": 60}}));
    let created = budgets.create(&PostParams::default(), &budget).await?;
    assert_eq!(created.metadata.generation, Some(1));
    let params = PatchParams::default();
    let patch = Patch::Merge(json!({"spec": {"seconds": 90}, "status": {"used": 1}}));
    let patched = budgets.patch("team", &params, &patch).await?;
    assert_eq!(patched.data, json!({"spec": {"seconds": 90}}));
    assert_eq!(patched.metadata.generation, Some(2));
    let status = Patch::Merge(json!({"spec": {"seconds": 1}, "status": {"used": 1}}));
    let patched = budgets.patch_status("team", &params, &status).await?;
    assert_eq!(
        patched.data,
        json!({"spec": {"seconds": 90}, "status": {"used": 1}})
    );
    assert_eq!(patched.metadata.generation, Some(2));
    Ok(())
}
