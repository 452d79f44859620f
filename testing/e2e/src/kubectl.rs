//! kubectl as a user types it, and what tests do and await with it.

use std::fmt::Debug;
use std::fs;

use anyhow::{Context, Result, ensure};
use gpushare_rig::Rig;
use serde_json::{Value, json};

use crate::wait;

/// A cluster, or one namespace of a cluster.
pub trait Kubectl {
    /// The cluster, and the namespace if it is only one.
    fn place(&self) -> (&Rig, Option<&str>);

    /// What kubectl prints for these words.
    fn call(&self, words: &[&str]) -> Result<String> {
        match self.place() {
            (rig, Some(namespace)) => rig.kubectl(&[&["--namespace", namespace], words].concat()),
            (rig, None) => rig.kubectl(words),
        }
    }

    /// What kubectl prints for a command, in which no word contains a space.
    fn ctl(&self, command: &str) -> Result<String> {
        self.call(&words(command))
    }

    /// What kubectl prints for a command that reads an object from a file.
    fn send(&self, command: &str, object: &Value) -> Result<String> {
        let file = tempfile::NamedTempFile::new()?;
        fs::write(file.path(), object.to_string())?;
        let path = file.path().to_str().context("a path")?;
        self.call(&[&words(command)[..], &["--filename", path]].concat())
    }

    /// What `kubectl get` shows of an object or of a list.
    fn get(&self, what: &str) -> Result<Value> {
        let text = self.ctl(&format!("get {what} --output=json"))?;
        Ok(serde_json::from_str(&text)?)
    }

    /// Patches an object. What comes before the patch is a command as for [`Kubectl::ctl`].
    fn patch(&self, what: &str, patch: &Value) -> Result<String> {
        let patch = format!("--patch={patch}");
        self.call(&[&["patch"][..], &words(what), &[&patch]].concat())
    }

    /// Creates or changes an object.
    fn apply(&self, object: &Value) {
        self.try_apply(object)
            .unwrap_or_else(|error| panic!("{object}: {error:#}"));
    }

    fn try_apply(&self, object: &Value) -> Result<String> {
        let (rig, namespace) = self.place();
        let mut object = object.clone();
        if let Some(namespace) = namespace {
            object["metadata"]["namespace"] = json!(namespace);
        }
        rig.apply(&object.to_string())
    }

    /// The object as it would be stored, without creating it.
    fn dry_run(&self, object: &Value) -> Result<Value> {
        let text = self.send("create --dry-run=server --output=json", object)?;
        Ok(serde_json::from_str(&text)?)
    }

    /// Creates a pod, and waits until it runs.
    fn runs(&self, pod: &Value) -> Value {
        self.apply(pod);
        self.wait_running(pod["metadata"]["name"].as_str().expect("a name"))
    }

    fn pod(&self, name: &str) -> Result<Value> {
        self.get(&format!("pod {name}"))
    }

    /// All pods.
    fn pods(&self) -> Result<Vec<Value>> {
        let list = self.get("pods")?;
        Ok(list["items"].as_array().expect("a list").clone())
    }

    /// Waits until the condition holds for a pod, and returns the pod.
    fn wait_pod(&self, name: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        wait::until(&format!("pod {name}: {what}"), || -> Result<Value> {
            let pod = self.pod(name)?;
            ensure!(holds(&pod), "{} {}", pod["metadata"], pod["status"]);
            Ok(pod)
        })
    }

    fn wait_running(&self, name: &str) -> Value {
        self.wait_pod(name, "it runs", |pod| {
            let statuses = pod["status"]["containerStatuses"].as_array();
            statuses.is_some_and(|all| all.iter().all(|one| one["ready"] == true))
        })
    }

    fn delete(&self, name: &str) {
        let deleted = self.ctl(&format!("delete pod {name} --wait=false"));
        deleted.expect("the pod can be deleted");
    }

    fn wait_gone(&self, name: &str) {
        wait::until(&format!("pod {name} to be gone"), || match self.pod(name) {
            Ok(pod) => Err(pod.to_string()),
            Err(_) => Ok(()),
        });
    }

    /// Deletes a pod, and waits until it is gone.
    fn remove(&self, name: &str) {
        self.delete(name);
        self.wait_gone(name);
    }

    /// Whether the pod runs and is not being deleted. An evicted pod may still be visible for a moment after its end.
    fn is_left(&self, name: &str) -> bool {
        self.pod(name).is_ok_and(|pod| {
            pod["metadata"]["deletionTimestamp"].is_null() && pod["status"]["phase"] == "Running"
        })
    }

    /// The events about an object. More field selectors may follow its name.
    fn events(&self, about: &str) -> Result<Vec<Value>> {
        let events = self.get(&format!(
            "events --field-selector=involvedObject.name={about}"
        ))?;
        Ok(events["items"].as_array().cloned().unwrap_or_default())
    }

    /// The message of an event about an object, once it contains `part`.
    fn wait_event(&self, about: &str, part: &str) -> String {
        let awaited = format!("an event on {about} with {part:?}");
        wait::until(&awaited, || -> Result<String> {
            let events = self.events(about)?;
            let messages = events.iter().filter_map(|event| event["message"].as_str());
            let messages: Vec<&str> = messages.collect();
            let found = messages.iter().find(|message| message.contains(part));
            let found = found.with_context(|| format!("{messages:?}"))?;
            Ok((*found).to_owned())
        })
    }
}

impl Kubectl for Rig {
    fn place(&self) -> (&Rig, Option<&str>) {
        (self, None)
    }
}

fn words(command: &str) -> Vec<&str> {
    command.split_whitespace().collect()
}

/// The error with which something was refused, in full.
pub fn refusal<T: Debug>(answer: Result<T>) -> String {
    format!("{:#}", answer.expect_err("it is refused"))
}

/// Creates a namespace, and waits until Kubernetes has made what every pod in it needs.
pub(crate) fn create_namespace(rig: &Rig, name: &str) {
    rig.ctl(&format!("create namespace {name}"))
        .expect("created");
    wait_for_account(rig, name);
}

/// Waits until Kubernetes has made what every pod of a namespace needs.
pub fn wait_for_account(rig: &Rig, namespace: &str) {
    wait::until("the default account", || {
        rig.ctl(&format!(
            "get serviceaccount default --namespace={namespace}"
        ))
    });
}
