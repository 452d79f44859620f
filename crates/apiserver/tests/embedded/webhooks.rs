//! Admission webhooks are called before an object exists. The e2e tests check that with the real server and our own
//! webhook; this file checks how this server handles the answers.

use std::convert::Infallible;
use std::net::SocketAddr;

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gpushare_apiserver::Server;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::{create_pod, pods, soon, start};

/// Serves one answer, with the uid of each question inserted. Ends with the runtime of the test.
async fn hook(answer: Value) -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let answer = answer.clone();
            let service = service_fn(move |request: Request<Incoming>| {
                let answer = answer.clone();
                async move { Ok::<_, Infallible>(reply(request, answer).await) }
            });
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });
    Ok(address)
}

async fn reply(request: Request<Incoming>, mut answer: Value) -> Response<Full<Bytes>> {
    let body = request.into_body().collect().await;
    let body = body.map(http_body_util::Collected::to_bytes);
    let body = body.unwrap_or_default();
    let question: Value = serde_json::from_slice(&body).unwrap_or_default();
    let at = |path: &str| question.pointer(path).cloned();
    // An object that does not exist yet has no uid of its own.
    if at("/request/object/metadata/uid").is_none()
        && let Some(answer) = answer.as_object_mut()
    {
        answer.insert("uid".to_owned(), at("/request/uid").unwrap_or_default());
    }
    let review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer,
    });
    Response::new(Full::new(Bytes::from(review.to_string())))
}

fn configuration(address: SocketAddr, more: &Value) -> Value {
    let mut hook = json!({
        "name": "hook.example.com",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": format!("http://{address}/mutate")},
        "rules": [{
            "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"],
        }],
    });
    if let (Some(hook), Some(more)) = (hook.as_object_mut(), more.as_object()) {
        hook.extend(more.clone());
    }
    json!({"metadata": {"name": "hooks"}, "webhooks": [hook]})
}

async fn with_hook(answer: Value, more: Value) -> Result<Server> {
    let server = Server::start().await?;
    let address = hook(answer).await?;
    let made: MutatingWebhookConfiguration = serde_json::from_value(configuration(address, &more))?;
    let api: Api<MutatingWebhookConfiguration> = Api::all(server.client());
    api.create(&PostParams::default(), &made).await?;
    Ok(server)
}

fn labelling() -> Value {
    let patch = json!([{"op": "add", "path": "/metadata/labels", "value": {"seen": "yes"}}]);
    let patch = STANDARD.encode(patch.to_string());
    json!({"allowed": true, "patchType": "JSONPatch", "patch": patch})
}

#[tokio::test]
async fn what_a_webhook_changes_is_stored_however_the_pod_is_made() -> Result<()> {
    let server = with_hook(labelling(), json!({})).await?;
    let client = server.client();
    let posted = soon("create", create_pod(&client, "a")).await??;
    assert_eq!(posted.metadata.labels.context("no labels")?["seen"], "yes");
    let manifest = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "b"},
        "spec": {"containers": [{"name": "c", "image": "i:1"}]},
    });
    let params = PatchParams::apply("test");
    let applied = pods(client)
        .patch("b", &params, &Patch::Apply(manifest))
        .await?;
    assert_eq!(applied.metadata.labels.context("no labels")?["seen"], "yes");
    server.shutdown().await;
    Ok(())
}

#[tokio::test]
async fn a_refusal_is_passed_on_with_its_words_and_nothing_is_made() -> Result<()> {
    let no = json!({"allowed": false, "status": {"code": 422, "message": "too much"}});
    let server = with_hook(no, json!({})).await?;
    let client = server.client();
    let refused = create_pod(&client, "a").await;
    let Err(kube::Error::Api(status)) = refused else {
        anyhow::bail!("{refused:?}")
    };
    assert_eq!(status.code, 422);
    let expected = "admission webhook \"hook.example.com\" denied the request: too much";
    assert_eq!(status.message, expected);
    assert!(pods(client).get_opt("a").await?.is_none());
    server.shutdown().await;
    Ok(())
}

#[tokio::test]
async fn selectors_decide_who_is_asked() -> Result<()> {
    let no = json!({"allowed": false});
    let elsewhere = json!({"namespaceSelector": {"matchExpressions": [{
        "key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["default"],
    }]}});
    let server = with_hook(no, elsewhere).await?;
    let made = create_pod(&server.client(), "a").await;
    assert!(made.is_ok(), "{made:?}");
    server.shutdown().await;
    Ok(())
}

#[tokio::test]
async fn a_webhook_that_does_not_answer_refuses_only_where_it_must_be_heard() -> Result<()> {
    for (policy, made) in [("Fail", false), ("Ignore", true)] {
        let (server, client) = start().await?;
        // Bound and closed again, so nothing listens there.
        let gone = TcpListener::bind("127.0.0.1:0").await?.local_addr()?;
        let more = json!({ "failurePolicy": policy });
        let hooks: ValidatingWebhookConfiguration =
            serde_json::from_value(configuration(gone, &more))?;
        let api: Api<ValidatingWebhookConfiguration> = Api::all(server.client());
        api.create(&PostParams::default(), &hooks).await?;
        let created = create_pod(&client, "a").await;
        assert_eq!(created.is_ok(), made, "{policy}: {created:?}");
        if let Err(error) = created {
            let text = error.to_string();
            assert!(text.contains("failed calling webhook"), "{text}");
        }
        server.shutdown().await;
    }
    Ok(())
}
