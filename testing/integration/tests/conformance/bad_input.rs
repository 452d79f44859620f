//! Invalid requests: the same code and reason from every API server, and nothing written.

use anyhow::Result;
use integration::objects::{NO_SCHEDULER, pod};
use integration::verdict::{BAD_REQUEST, CREATED, FORBIDDEN, INVALID, NOT_ALLOWED, NOT_FOUND};
use integration::{Answer, Scope, in_namespace};
use kube::api::ListParams;
use serde_json::{Value, json};

async fn post_pod(test: &Scope, body: impl ToString) -> Result<Answer> {
    let path = test.path("/api/v1", "pods");
    test.raw().post(&path, body.to_string()).await
}

async fn nothing_was_written(test: &Scope) -> Result<()> {
    let pods = test.pods().names(&ListParams::default()).await?;
    assert!(pods.is_empty(), "{pods:?}");
    Ok(())
}

fn with_container(container: &Value) -> Value {
    json!({"metadata": {"name": "a"}, "spec": {"containers": [container]}})
}

fn with_resources(resources: &Value) -> Value {
    with_container(&json!({"name": "c", "image": "i:1", "resources": resources}))
}

fn with_limit(resource: &str, amount: &Value) -> Value {
    with_resources(&json!({"limits": {resource: amount}}))
}

#[test]
fn bodies_that_are_no_pod_are_bad_requests() -> Result<()> {
    in_namespace(async |test| {
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
            post_pod(test, body).await?.must_be(BAD_REQUEST);
        }
        nothing_was_written(test).await
    })
}

#[test]
fn pods_that_make_no_sense_are_invalid_and_say_where() -> Result<()> {
    in_namespace(async |test| {
        let described = |metadata: Value| {
            let mut pod = with_resources(&json!({}));
            pod["metadata"] = metadata;
            pod
        };
        let mislabelled = json!({"name": "a", "labels": {"app": "-no-"}});
        let nameless = with_container(&json!({"image": "i:1"}));
        let imageless = with_container(&json!({"name": "c"}));
        let one = json!({"x.io/cards": "1"});
        let only_request = with_resources(&json!({"requests": one}));
        let unequal = json!({"requests": one, "limits": {"x.io/cards": "2"}});
        let limits = "resources.limits[x.io/cards]";
        let container = |field: &str| format!("spec.containers[0].{field}");
        for (body, field) in [
            (Value::Null, "metadata.name".to_owned()),
            (described(json!({"name": ""})), "metadata.name".to_owned()),
            (
                described(json!({"name": "Not_A_Name"})),
                "metadata.name".to_owned(),
            ),
            (described(mislabelled), "metadata.labels".to_owned()),
            (
                json!({"metadata": {"name": "a"}}),
                "spec.containers".to_owned(),
            ),
            (nameless, container("name")),
            (imageless, container("image")),
            (with_limit("x.io/cards", &json!("1.5")), container(limits)),
            (with_limit("x.io/cards", &json!("-1")), container(limits)),
            (
                with_limit("cards", &json!("1")),
                container("resources.limits[cards]"),
            ),
            (only_request, container("resources.limits")),
            (with_resources(&unequal), container("resources.requests")),
        ] {
            let answer = post_pod(test, body).await?;
            answer.must_be(INVALID);
            assert_eq!(answer.detail("kind"), "Pod");
            assert_eq!(answer.detail("causes/0/field"), field, "{}", answer.body);
        }
        nothing_was_written(test).await
    })
}

#[test]
fn amounts_that_only_look_wrong_are_kept_in_the_server_s_spelling() -> Result<()> {
    in_namespace(async |test| {
        let amounts = [
            (json!("10G"), "10G"),
            (json!(0), "0"),
            (json!(3000), "3k"),
            (json!("1024Ki"), "1Mi"),
            (json!("1e3"), "1e3"),
            (json!("2000m"), "2"),
        ];
        for (index, (sent, kept)) in amounts.into_iter().enumerate() {
            let mut body = with_limit("x.io/cards", &sent);
            body["metadata"]["name"] = json!(format!("p{index}"));
            body["spec"]["schedulerName"] = json!(NO_SCHEDULER);
            let answer = post_pod(test, body).await?;
            answer.must_be(CREATED);
            let resources = &answer.body["spec"]["containers"][0]["resources"];
            assert_eq!(resources["limits"]["x.io/cards"], kept);
            assert_eq!(resources["requests"]["x.io/cards"], kept);
        }
        Ok(())
    })
}

#[test]
fn pods_that_name_what_does_not_exist_are_forbidden() -> Result<()> {
    in_namespace(async |test| {
        for (field, value) in [
            ("serviceAccountName", "nobody"),
            ("priorityClassName", "no-class"),
        ] {
            let mut body = serde_json::to_value(pod("a").build())?;
            body["spec"][field] = json!(value);
            post_pod(test, body).await?.must_be(FORBIDDEN);
        }
        nothing_was_written(test).await
    })
}

#[test]
fn paths_methods_and_content_that_are_not_served_are_refused() -> Result<()> {
    in_namespace(async |test| {
        let raw = test.raw();
        let pods = test.path("/api/v1", "pods");
        let pod = format!("{pods}/a");
        let nonsense = format!("{pod}/nonsense");
        raw.get("/api/v1/widgets").await?.must_be(NOT_FOUND);
        assert_eq!(raw.get("/apis/no.such.group/v1/widgets").await?.code, 404);
        raw.get(&nonsense).await?.must_be(NOT_FOUND);
        raw.put(&pods, "{}").await?.must_be(NOT_ALLOWED);
        let everywhere = raw.post("/api/v1/pods", "{}").await?;
        everywhere.must_be(NOT_ALLOWED);
        let huge = json!({"metadata": {"name": "x".repeat(4 * 1024 * 1024)}}).to_string();
        let huge = raw
            .patch(&pod, "application/merge-patch+json", huge)
            .await?;
        huge.must_be((413, "RequestEntityTooLarge"));
        let cut = raw.delete(&pod, "{\"kind\":").await?;
        cut.must_be(BAD_REQUEST);
        Ok(())
    })
}
