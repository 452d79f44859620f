//! Invalid requests: the same code and reason from every API server, and nothing written.

use anyhow::Result;
use integration::objects::pod;
use integration::{Scope, in_namespace};
use kube::api::ListParams;
use serde_json::{Value, json};

async fn nothing_was_written(test: &Scope) -> Result<()> {
    let pods = test.pods().list(&ListParams::default()).await?;
    assert!(pods.items.is_empty(), "{:?}", pods.items);
    Ok(())
}

fn with_container(container: &Value) -> Value {
    json!({"metadata": {"name": "a"}, "spec": {"containers": [container]}})
}

fn with_limit(resource: &str, amount: &Value) -> Value {
    let resources = json!({"limits": {resource: amount}});
    with_container(&json!({"name": "c", "image": "i:1", "resources": resources}))
}

#[tokio::test]
async fn bodies_that_are_no_pod_are_bad_requests() -> Result<()> {
    in_namespace(async |test| {
        let path = test.path("/api/v1", "pods");
        for body in [
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"na"#.to_owned(),
            String::new(),
            "[]".to_owned(),
            "hello".to_owned(),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}).to_string(),
            json!({"apiVersion": "v1", "kind": "Unheard", "metadata": {"name": "a"}}).to_string(),
            json!({"apiVersion": "apps/v1", "kind": "Pod", "metadata": {"name": "a"}}).to_string(),
            json!({"metadata": {"name": "a"}, "spec": {"containers": "none"}}).to_string(),
            json!({"metadata": {"name": 7}}).to_string(),
            with_limit("cpu", &json!("lots")).to_string(),
            json!({"metadata": {"name": "a", "namespace": "elsewhere"}}).to_string(),
        ] {
            let answer = test.raw().post(&path, body.clone()).await?;
            assert_eq!(
                answer.verdict(),
                (400, "BadRequest"),
                "{body}: {}",
                answer.body
            );
        }
        nothing_was_written(test).await
    })
    .await
}

#[tokio::test]
async fn pods_that_make_no_sense_are_invalid_and_say_where() -> Result<()> {
    in_namespace(async |test| {
        let path = test.path("/api/v1", "pods");
        let plain = || json!({"name": "c", "image": "i:1"});
        let named = |name: &str| {
            let mut pod = with_container(&plain());
            pod["metadata"]["name"] = json!(name);
            pod
        };
        let labelled = |value: &str| {
            let mut pod = with_container(&plain());
            pod["metadata"]["labels"] = json!({"app": value});
            pod
        };
        let only_request = json!({
            "name": "c", "image": "i:1", "resources": {"requests": {"x.io/cards": "1"}},
        });
        let unequal = json!({
            "name": "c", "image": "i:1",
            "resources": {"requests": {"x.io/cards": "1"}, "limits": {"x.io/cards": "2"}},
        });
        let limits = "spec.containers[0].resources.limits[x.io/cards]";
        for (body, field) in [
            (Value::Null, "metadata.name"),
            (named(""), "metadata.name"),
            (named("Not_A_Name"), "metadata.name"),
            (labelled("-no-"), "metadata.labels"),
            (json!({"metadata": {"name": "a"}}), "spec.containers"),
            (
                with_container(&json!({"image": "i:1"})),
                "spec.containers[0].name",
            ),
            (
                with_container(&json!({"name": "c"})),
                "spec.containers[0].image",
            ),
            (with_limit("x.io/cards", &json!("1.5")), limits),
            (with_limit("x.io/cards", &json!("-1")), limits),
            (
                with_limit("cards", &json!("1")),
                "spec.containers[0].resources.limits[cards]",
            ),
            (
                with_container(&only_request),
                "spec.containers[0].resources.limits",
            ),
            (
                with_container(&unequal),
                "spec.containers[0].resources.requests",
            ),
        ] {
            let answer = test.raw().post(&path, body.to_string()).await?;
            assert_eq!(
                answer.verdict(),
                (422, "Invalid"),
                "{body}: {}",
                answer.body
            );
            assert_eq!(answer.body["details"]["kind"], "Pod");
            assert_eq!(
                answer.body["details"]["causes"][0]["field"], field,
                "{}",
                answer.body
            );
        }
        nothing_was_written(test).await
    })
    .await
}

#[tokio::test]
async fn amounts_that_only_look_wrong_are_kept_in_the_server_s_spelling() -> Result<()> {
    in_namespace(async |test| {
        let path = test.path("/api/v1", "pods");
        for (index, (sent, kept)) in [
            (json!("10G"), "10G"),
            (json!(0), "0"),
            (json!(3000), "3k"),
            (json!("1024Ki"), "1Mi"),
            (json!("1e3"), "1e3"),
            (json!("2000m"), "2"),
        ]
        .into_iter()
        .enumerate()
        {
            let mut body = with_limit("x.io/cards", &sent);
            body["metadata"]["name"] = json!(format!("p{index}"));
            body["spec"]["schedulerName"] = json!(integration::objects::NO_SCHEDULER);
            let answer = test.raw().post(&path, body.to_string()).await?;
            assert_eq!(answer.code, 201, "{sent}: {}", answer.body);
            let resources = &answer.body["spec"]["containers"][0]["resources"];
            assert_eq!(resources["limits"]["x.io/cards"], kept);
            assert_eq!(resources["requests"]["x.io/cards"], kept);
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn pods_that_name_what_does_not_exist_are_forbidden() -> Result<()> {
    in_namespace(async |test| {
        let path = test.path("/api/v1", "pods");
        for (field, value) in [
            ("serviceAccountName", "nobody"),
            ("priorityClassName", "no-class"),
        ] {
            let mut body = serde_json::to_value(pod("a").build())?;
            body["spec"][field] = json!(value);
            let answer = test.raw().post(&path, body.to_string()).await?;
            assert_eq!(
                answer.verdict(),
                (403, "Forbidden"),
                "{field}: {}",
                answer.body
            );
        }
        nothing_was_written(test).await
    })
    .await
}

#[tokio::test]
async fn paths_methods_and_content_that_are_not_served_are_refused() -> Result<()> {
    in_namespace(async |test| {
        let pods = test.path("/api/v1", "pods");
        let raw = test.raw();
        assert_eq!(
            raw.get("/api/v1/widgets").await?.verdict(),
            (404, "NotFound")
        );
        assert_eq!(raw.get("/apis/no.such.group/v1/widgets").await?.code, 404);
        assert_eq!(
            raw.get(&format!("{pods}/a/nonsense")).await?.verdict(),
            (404, "NotFound")
        );
        assert_eq!(
            raw.put(&pods, "{}").await?.verdict(),
            (405, "MethodNotAllowed")
        );
        assert_eq!(
            raw.post("/api/v1/pods", "{}").await?.verdict(),
            (405, "MethodNotAllowed")
        );
        let huge = format!(
            r#"{{"metadata": {{"name": "{}"}}}}"#,
            "x".repeat(4 * 1024 * 1024)
        );
        let answer = raw
            .patch(&format!("{pods}/a"), "application/merge-patch+json", huge)
            .await?;
        assert_eq!(answer.verdict(), (413, "RequestEntityTooLarge"));
        let answer = raw.delete(&format!("{pods}/a"), "{\"kind\":").await?;
        assert_eq!(answer.verdict(), (400, "BadRequest"));
        Ok(())
    })
    .await
}
