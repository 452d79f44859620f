//! A pod that has a node: where it runs and on which cards, or what its containers wait for.

use gpushare_core::Classes;
use serde_json::Value;

use super::answer::PodStatus;
use super::pod::Pod;

/// The pod's standing, a message, and the word for programs if something is in its way.
pub(super) fn tell(pod: &Pod, classes: &Classes) -> (PodStatus, String, Option<&'static str>) {
    let node = pod
        .facts
        .node
        .as_ref()
        .map_or("no node", |node| node.as_str());
    let since = pod.text("/status/startTime");
    let since = since.map(|at| format!(" since {at}")).unwrap_or_default();
    match pod.text("/status/phase") {
        Some(phase @ ("Succeeded" | "Failed")) => {
            let mut text = format!("The pod has ended ({phase}) on {node}.");
            let reason = [pod.text("/status/reason"), pod.text("/status/message")];
            let reason: Vec<&str> = reason.into_iter().flatten().collect();
            if !reason.is_empty() {
                text.push(' ');
                text.push_str(&reason.join(": "));
            }
            (PodStatus::Finished, text, None)
        }
        _ if pod.facts.deleting => {
            let text = format!("The pod is being deleted; its containers may still run on {node}.");
            (PodStatus::Deleting, text, None)
        }
        Some("Running") => {
            let text = format!("The pod runs on {node}{since}{}.", cards(pod, classes));
            match waiting(pod) {
                Some(waiting) => (
                    PodStatus::Running,
                    format!("{text} {waiting}"),
                    Some("container"),
                ),
                None => (PodStatus::Running, text, None),
            }
        }
        _ => {
            let placed = format!("The pod is bound to {node}{}", cards(pod, classes));
            let (text, reason) = match waiting(pod) {
                Some(waiting) => (format!("{placed}. {waiting}"), Some("container")),
                None => (
                    format!("{placed}, and its containers have not started yet."),
                    None,
                ),
            };
            (PodStatus::Bound, text, reason)
        }
    }
}

fn cards(pod: &Pod, classes: &Classes) -> String {
    let Some(Ok(bound)) = pod.facts.bound(classes) else {
        return String::new();
    };
    let mut ids: Vec<&str> = bound
        .placement
        .containers
        .iter()
        .flat_map(|placed| &placed.shares)
        .map(|share| share.card.as_str())
        .collect();
    ids.sort_unstable();
    ids.dedup();
    match ids.as_slice() {
        [] => String::new(),
        [one] => format!(", on the card {one}"),
        several => format!(", on the cards {}", several.join(", ")),
    }
}

/// Why containers wait, for example because the agent refused to start them.
fn waiting(pod: &Pod) -> Option<String> {
    let lists = ["/status/initContainerStatuses", "/status/containerStatuses"];
    let statuses = lists
        .iter()
        .filter_map(|list| pod.object.pointer(list)?.as_array())
        .flatten();
    let said: Vec<String> = statuses
        .filter_map(|status| {
            let state = status.pointer("/state/waiting")?;
            let text = |field: &str| state.get(field).and_then(Value::as_str);
            let (reason, message) = (text("reason")?, text("message"));
            if matches!(reason, "ContainerCreating" | "PodInitializing") && message.is_none() {
                return None;
            }
            let name = status.get("name").and_then(Value::as_str).unwrap_or("?");
            let message = message.map(|message| format!(": {message}"));
            Some(format!(
                "Its container {name} waits ({reason}){}.",
                message.unwrap_or_default()
            ))
        })
        .collect();
    (!said.is_empty()).then(|| said.join(" "))
}
