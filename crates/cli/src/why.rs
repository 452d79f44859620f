//! `kubectl gpushare why`: says in plain words what keeps a pod from running, and what would help.
//!
//! Everything is read from the API server and decided here, with the validator and the search that are used in the
//! cluster, and with kube-scheduler's rules for the checks before them. Writes nothing.

mod answer;
mod change;
mod cluster;
mod message;
mod node;
mod plan;
mod pod;
mod read;
mod repair;
mod request;
mod running;
mod subject;
mod surroundings;
mod text;
mod verdict;

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use anyhow::Result;
use clap::Args;
use gpushare_core::Steps;
use gpushare_core::dialect::Dialects;
use k8s_openapi::api::core::v1 as core;
use kube::Client;
use serde_json::Value;

use crate::cluster_args::ClusterArgs;
use crate::connection;
use crate::output::{Form, Output};
use answer::{Answer, GroupReport, Help, PodStatus};
use change::Target;
use pod::Pod;
use subject::{Owner, Subject};
use verdict::{Situation, Verdict};

const EXAMPLES: &str = "Examples:
  kubectl gpushare why train-0                  a pod that waits, in the current namespace
  kubectl gpushare why -n team deployment/web   a workload, also when its pods are not even created
  kubectl gpushare why -f pod.yaml              a pod that does not exist yet
  kubectl gpushare why -f - -o wide < job.yaml  with a table of nodes and reasons
  kubectl gpushare why train-0 -o json | jq '.help[0].steps'

Every change under \"What would help\" was tried on a copy of the cluster's state: with it, the pod would be
scheduled. With -o json each is a list of steps: patch (a JSON patch of the target; a pod is recreated
with it), delete, or operate (what somebody has to do by hand).

Exit status: 0 when there is an answer, whatever it is; 1 when the pod or the cluster cannot be read; 2 when
the command line is wrong.";

const FORMS: [Form; 3] = [
    (Output::Text, "The reason, and what would help"),
    (Output::Wide, "With a table of nodes and reasons"),
    (Output::Json, "An object for programs"),
];

#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The pod, or TYPE/NAME of a workload such as deployment/web
    #[arg(value_name = "POD", required_unless_present = "file")]
    name: Option<String>,
    /// A manifest with a pod, or with the template of a workload; - is standard input
    #[arg(short, long, value_name = "YAML", conflicts_with = "name")]
    file: Option<PathBuf>,
    /// The namespace; by default that of the manifest or of the context
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    /// How to print
    #[arg(short, long, default_value = "text", value_parser = Output::parser(&FORMS))]
    output: Output,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Search steps for one answer, including all changes that are tried: a second or two.
const STEPS: u32 = 10_000_000;

/// Decides whether a pod may use a node at all, regardless of what is free there.
pub(crate) struct Judge(Pod);

impl Judge {
    pub(crate) fn new(pod: &Value, dialects: &Dialects) -> Result<Self> {
        Pod::read(pod.clone(), dialects).map(Self)
    }

    /// Why the pod may not use the node; `None` if it may.
    pub(crate) fn may_not_use(&self, node: &core::Node) -> Option<String> {
        let found = node::placing(&cluster::Node::read(node), &self.0);
        let all: Vec<String> = found.iter().map(ToString::to_string).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<String> {
    let answer = connection::wait_for(answer(arguments))?;
    let text = |wide| text::paragraph(&answer, wide);
    arguments.output.print(&answer, text)
}

async fn answer(arguments: &Arguments) -> Result<Answer> {
    let dialects = arguments.cluster.dialects();
    let client = arguments.cluster.connection.client().await?;
    let default = client.default_namespace().to_owned();
    let namespace = arguments.namespace.as_deref();
    let subject = match (&arguments.file, &arguments.name) {
        (Some(file), _) => Subject::of_file(file, namespace, &default)?,
        (None, name) => {
            let name = name.as_deref().unwrap_or_default();
            Subject::by_name(&client, namespace.unwrap_or(&default), name).await?
        }
    };
    let pod = Pod::read(subject.pod.clone(), &dialects)?;
    let placed = pod.facts.node.is_some() && !read::is_misplaced(&client, &pod).await;
    if subject.exists && (placed || pod.facts.ended || pod.facts.deleting) {
        return Ok(of_placed(&pod, &dialects));
    }
    of_waiting(&client, &subject, pod, dialects).await
}

fn target(pod: &Pod) -> Target {
    Target::of("Pod", Some(&pod.facts.namespace), &pod.facts.name)
}

fn of_placed(pod: &Pod, dialects: &Dialects) -> Answer {
    let (standing, message, reason) = running::tell(pod, &dialects.classes);
    Answer {
        pod: target(pod),
        standing,
        reason: reason.map(str::to_owned),
        message,
        node: pod.facts.node.as_ref().map(ToString::to_string),
        help: Vec::new(),
        waits: false,
        groups: Vec::new(),
        scheduler: None,
        notes: Vec::new(),
    }
}

async fn of_waiting(
    client: &Client,
    subject: &Subject,
    pod: Pod,
    dialects: Dialects,
) -> Result<Answer> {
    let mut notes = Vec::new();
    let around = read::surroundings(client, &pod, subject.exists, &mut notes).await;
    let situation = Situation {
        cluster: Arc::new(read::cluster(client, dialects).await?),
        around,
        pod,
        steps: Rc::new(Steps::new(STEPS)),
    };
    let verdict = situation.verdict();
    let (message, reason) = match &verdict {
        Verdict::Blocked(block) => (
            message::of_block(&situation, block, subject.exists),
            Some(block.kind().to_owned()),
        ),
        Verdict::Nowhere(groups) => {
            let nearest = groups.first().and_then(|group| group.obstacles.first());
            let kind = nearest.map_or("no-nodes", |obstacle| obstacle.kind());
            (message::of_nodes(&situation, groups), Some(kind.to_owned()))
        }
        Verdict::Fits(fitting) => of_fitting(client, &situation, subject, fitting.len()).await,
    };
    let groups = match &verdict {
        Verdict::Nowhere(groups) => groups.iter().map(GroupReport::new).collect(),
        _ => Vec::new(),
    };
    let message = match preempting(&situation) {
        Some(preempting) => format!("{preempting} {message}"),
        None => message,
    };
    Ok(Answer {
        pod: target(&situation.pod),
        standing: if subject.exists {
            PodStatus::Pending
        } else {
            PodStatus::Proposed
        },
        waits: subject.exists && reason.as_deref() == Some("no-room"),
        reason,
        message,
        node: None,
        help: help(&situation, &verdict, subject),
        groups,
        scheduler: said_last(&situation.pod),
        notes,
    })
}

/// The message for a pod for which room is being made.
fn preempting(situation: &Situation) -> Option<String> {
    let (claim, _) = situation
        .pod
        .facts
        .claim(&situation.cluster.dialects.classes)?
        .ok()?;
    let pods = &situation.cluster.pods;
    let victims: Vec<String> = claim
        .victims
        .iter()
        .filter_map(|victim| pods.get(victim))
        .map(|holder| format!("{}/{}", holder.namespace, holder.name))
        .collect();
    let node = claim.node();
    Some(if victims.is_empty() {
        format!("Room on {node} is kept for the pod.")
    } else {
        format!(
            "Room on {node} is being made for the pod: it starts when {} have ended.",
            victims.join(", ")
        )
    })
}

/// The answer if nothing known here stands in the pod's way.
async fn of_fitting(
    client: &Client,
    situation: &Situation,
    subject: &Subject,
    fitting: usize,
) -> (String, Option<String>) {
    let s = if fitting == 1 { "" } else { "s" };
    let fits = format!("{fitting} node{s} can take the pod now");
    let asks = matches!(situation.pod.facts.ask, Ok(Some(_)));
    let cards = if asks {
        ""
    } else {
        " It asks for no card that gpushare knows."
    };
    let (text, reason) = if !subject.exists {
        of_proposed(client, situation, subject, &fits).await
    } else if let Some(said) = said_last(&situation.pod) {
        let text = format!(
            "By everything that gpushare knows {fits}, and kube-scheduler tries it again; it said last: {said}"
        );
        (text, Some("scheduler"))
    } else {
        let text = format!(
            "{fits}, but kube-scheduler has not looked at it yet: if that lasts, see whether it runs."
        );
        (text, Some("not-looked-at"))
    };
    (format!("{text}{cards}"), reason.map(str::to_owned))
}

/// The answer for a pod that does not exist, although its workload may.
async fn of_proposed(
    client: &Client,
    situation: &Situation,
    subject: &Subject,
    fits: &str,
) -> (String, Option<&'static str>) {
    let scheduled = format!("{fits}: it would be scheduled.");
    let Some(owner) = &subject.owner else {
        return (scheduled, None);
    };
    let Target { kind, name, .. } = &owner.target;
    let placed = subject.placed;
    if placed < owner.replicas() {
        let namespace = situation.pod.facts.namespace.as_str();
        if let Some(refused) = read::refused_creation(client, namespace, name).await {
            let text = format!("{fits}, but its creation was refused: {refused}.");
            return (text, Some("creation-refused"));
        }
    }
    if placed == 0 {
        return (scheduled, None);
    }
    let text = format!(
        "No pod of the {kind} {name} waits: {placed} have a node. Of one more: {scheduled}"
    );
    (text, None)
}

fn said_last(pod: &Pod) -> Option<String> {
    let message = pod.scheduled_condition()?.get("message")?;
    message.as_str().map(str::to_owned)
}

/// If the pod comes from a template that would get the same verdict, the template is what to change.
fn help(situation: &Situation, verdict: &Verdict, subject: &Subject) -> Vec<Help> {
    let pod = target(&situation.pod);
    let of = |situation: &Situation, verdict: &Verdict, owner: Option<&Owner>| -> Vec<Help> {
        let plans = plan::plans(situation, verdict);
        plans
            .iter()
            .map(|plan| Help::new(plan, &pod, owner))
            .collect()
    };
    if let Some(owner) = &subject.owner {
        let template: Value = subject::named(owner.manifest.pod().clone(), &owner.target);
        if let Ok(template) = Pod::read(template, &situation.cluster.dialects) {
            let changed = Situation {
                pod: template,
                ..situation.clone()
            };
            let same = changed.verdict();
            if same == *verdict {
                return of(&changed, &same, Some(owner));
            }
        }
    }
    of(situation, verdict, None)
}
