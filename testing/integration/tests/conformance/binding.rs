//! Binding: one write that gives a pod its node and our record, or a conflict that says why not.

use anyhow::{Context, Result};
use integration::objects::pod;
use integration::{Answer, Scope, in_namespace};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

const RECORD: &str = "gpushare.io/test-record";

fn binding(name: &str, node: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    })
}

async fn bind(test: &Scope, name: &str, binding: &Value) -> Result<Answer> {
    let path = format!("{}/{name}/binding", test.path("/api/v1", "pods"));
    test.raw().post(&path, binding.to_string()).await
}

async fn bind_to(test: &Scope, name: &str, node: &str) -> Result<Answer> {
    bind(test, name, &binding(name, node)).await
}

fn condition(pod: &Pod) -> Option<(&str, &str)> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    conditions
        .first()
        .map(|c| (c.type_.as_str(), c.status.as_str()))
}

#[tokio::test]
async fn node_annotations_labels_and_condition_arrive_in_one_change() -> Result<()> {
    in_namespace(async |test| {
        let wanted = pod("a")
            .annotation("user/keep", "1")
            .annotation(RECORD, "old")
            .build();
        test.create_pod(&wanted).await?;
        let nominated = Patch::Merge(json!({"status": {"nominatedNodeName": "elsewhere"}}));
        let created = test
            .pods()
            .patch_status("a", &PatchParams::default(), &nominated)
            .await?;
        let version = created.resource_version().context("no version")?;
        let mut changes = test.watch::<Pod>().after(&version).start().await?;

        let node = test.unique("node");
        let mut body = binding("a", &node);
        body["metadata"]["uid"] = json!(created.uid());
        body["metadata"]["resourceVersion"] = json!(version);
        body["metadata"]["annotations"] = json!({RECORD: "new"});
        body["metadata"]["labels"] = json!({"bound": "yes"});
        let answer = bind(test, "a", &body).await?;
        assert_eq!(answer.code, 201, "{}", answer.body);
        assert_eq!(answer.body["status"], "Success");

        let (kind, bound) = changes.object().await?;
        assert_eq!(kind, "MODIFIED");
        let spec = bound.spec.clone().context("no spec")?;
        assert_eq!(spec.node_name.as_deref(), Some(node.as_str()));
        assert_eq!(bound.annotations()[RECORD], "new");
        assert_eq!(bound.annotations()["user/keep"], "1");
        assert_eq!(bound.labels()["bound"], "yes");
        assert_eq!(condition(&bound), Some(("PodScheduled", "True")));
        let status = bound.status.clone().context("no status")?;
        assert_eq!(status.nominated_node_name, None);

        // Nothing else happened: the next change is the one that the test makes here.
        let mark = Patch::Merge(json!({"metadata": {"labels": {"marked": "yes"}}}));
        let marked = test
            .pods()
            .patch("a", &PatchParams::default(), &mark)
            .await?;
        let (_, next) = changes.object().await?;
        assert_eq!(next.resource_version(), marked.resource_version());
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_wrong_identity_or_a_stale_version_is_a_conflict_and_changes_nothing() -> Result<()> {
    in_namespace(async |test| {
        let created = test.pod("a").await?;
        let touch = Patch::Merge(json!({"metadata": {"labels": {"touched": "yes"}}}));
        test.pods()
            .patch("a", &PatchParams::default(), &touch)
            .await?;
        for (field, value, says) in [
            (
                "uid",
                "11111111-1111-1111-1111-111111111111",
                "Precondition failed: UID in precondition: 1111",
            ),
            (
                "resourceVersion",
                &created.resource_version().context("no version")?,
                "Precondition failed: ResourceVersion in precondition",
            ),
        ] {
            let mut body = binding("a", "n1");
            body["metadata"][field] = json!(value);
            body["metadata"]["annotations"] = json!({RECORD: "wrong"});
            let answer = bind(test, "a", &body).await?;
            assert_eq!(answer.verdict(), (409, "Conflict"), "{field}");
            assert!(answer.message().contains(says), "{}", answer.message());
        }
        let pod = test.pods().get("a").await?;
        assert_eq!(pod.spec.clone().context("no spec")?.node_name, None);
        assert!(!pod.annotations().contains_key(RECORD));
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_bound_pod_is_not_bound_again_not_even_to_the_same_node() -> Result<()> {
    in_namespace(async |test| {
        test.pod("a").await?;
        let mut first = binding("a", "n1");
        first["metadata"]["annotations"] = json!({RECORD: "first"});
        assert_eq!(bind(test, "a", &first).await?.code, 201);
        for node in ["n1", "n2"] {
            let mut second = binding("a", node);
            second["metadata"]["annotations"] = json!({RECORD: "second"});
            let answer = bind(test, "a", &second).await?;
            assert_eq!(answer.verdict(), (409, "Conflict"));
            let says = "pod a is already assigned to node \"n1\"";
            assert!(answer.message().contains(says), "{}", answer.message());
        }
        assert_eq!(test.pods().get("a").await?.annotations()[RECORD], "first");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn of_many_binders_at_once_one_wins_and_its_record_stays() -> Result<()> {
    in_namespace(async |test| {
        for round in 0..10 {
            let name = format!("race-{round}");
            test.pod(&name).await?;
            let attempts = (0..4).map(|n| {
                let mut body = binding(&name, &format!("n{n}"));
                body["metadata"]["annotations"] = json!({RECORD: format!("n{n}")});
                let name = name.clone();
                async move { bind(test, &name, &body).await }
            });
            let answers = futures::future::try_join_all(attempts).await?;
            let mut codes: Vec<u16> = answers.iter().map(|answer| answer.code).collect();
            codes.sort_unstable();
            assert_eq!(codes, [201, 409, 409, 409]);
            let pod = test.pods().get(&name).await?;
            let node = pod.spec.clone().and_then(|spec| spec.node_name);
            assert_eq!(node.as_ref(), pod.annotations().get(RECORD));
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_pod_that_is_going_or_gated_is_not_bound() -> Result<()> {
    in_namespace(async |test| {
        test.create_pod(&pod("gated").scheduling_gate("x.io/wait").build())
            .await?;
        let answer = bind_to(test, "gated", "n1").await?;
        assert_eq!(answer.verdict(), (409, "Conflict"));
        let says = "pod gated has non-empty .spec.schedulingGates";
        assert!(answer.message().contains(says), "{}", answer.message());

        test.create_pod(&pod("going").finalizer("x.io/hold").build())
            .await?;
        test.pods()
            .delete("going", &DeleteParams::default())
            .await?;
        let answer = bind_to(test, "going", "n1").await?;
        assert_eq!(answer.verdict(), (409, "Conflict"));
        let says = "pod going is being deleted, cannot be assigned to a host";
        assert!(answer.message().contains(says), "{}", answer.message());
        Ok(())
    })
    .await
}

#[tokio::test]
async fn the_node_is_not_looked_at_but_the_pod_must_exist() -> Result<()> {
    in_namespace(async |test| {
        test.pod("a").await?;
        assert_eq!(
            bind_to(test, "a", &test.unique("no-such-node")).await?.code,
            201
        );
        let answer = bind_to(test, "gone", "n1").await?;
        assert_eq!(answer.verdict(), (404, "NotFound"));
        assert_eq!(answer.message(), "pods \"gone\" not found");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn the_old_path_binds_too() -> Result<()> {
    in_namespace(async |test| {
        test.pod("a").await?;
        let path = test.path("/api/v1", "bindings");
        let answer = test
            .raw()
            .post(&path, binding("a", "n1").to_string())
            .await?;
        assert_eq!(answer.code, 201, "{}", answer.body);
        let pod = test.pods().get("a").await?;
        assert_eq!(
            pod.spec.context("no spec")?.node_name.as_deref(),
            Some("n1")
        );
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_binding_that_makes_no_sense_is_refused() -> Result<()> {
    in_namespace(async |test| {
        test.pod("a").await?;
        let mut no_target = binding("a", "n1");
        no_target["target"]["name"] = json!("");
        let mut to_a_pod = binding("a", "n1");
        to_a_pod["target"]["kind"] = json!("Pod");
        let mut elsewhere = binding("a", "n1");
        elsewhere["metadata"]["namespace"] = json!("elsewhere");
        for (body, verdict) in [
            (binding("b", "n1").to_string(), (400, "BadRequest")),
            (elsewhere.to_string(), (400, "BadRequest")),
            (no_target.to_string(), (500, "")),
            (to_a_pod.to_string(), (500, "")),
            (
                json!({"apiVersion": "v1", "kind": "Pod"}).to_string(),
                (400, "BadRequest"),
            ),
            ("{\"metadata\":".to_owned(), (400, "BadRequest")),
        ] {
            let path = format!("{}/a/binding", test.path("/api/v1", "pods"));
            let answer = test.raw().post(&path, body.clone()).await?;
            assert_eq!(answer.verdict(), verdict, "{body}: {}", answer.message());
        }
        let pod = test.pods().get("a").await?;
        assert_eq!(pod.spec.context("no spec")?.node_name, None);
        Ok(())
    })
    .await
}
