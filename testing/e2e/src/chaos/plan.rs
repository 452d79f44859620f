//! What a seed injects, and when. The whole list is made in advance, so the same seed injects the same steps.

mod make;

use std::fmt;
use std::time::Duration;

use super::fate::Weather;

pub use make::plan;

/// How long steps are injected before a calm.
pub const ROUND: Duration = Duration::from_secs(30);

/// Our programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    ExtenderOne,
    ExtenderTwo,
    Agent,
    Timekeeper,
    Webhook,
}

pub const PARTS: [Part; 5] = [
    Part::ExtenderOne,
    Part::ExtenderTwo,
    Part::Agent,
    Part::Timekeeper,
    Part::Webhook,
];

/// Programs of Kubernetes that are killed and come back at once.
pub const COMPONENTS: [&str; 6] = [
    "kubelet",
    "kube-scheduler",
    "kube-controller-manager",
    "kube-apiserver",
    "etcd",
    "containerd",
];

/// A namespace and a name in it. There are few names, so that names are reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot {
    /// Whether its namespace has a budget.
    pub metered: bool,
    pub number: usize,
}

/// The number of names in each namespace.
pub const NAMES: usize = 5;

/// What the containers of a pod do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// Run until they are asked to end.
    Obedient,
    /// Ignore the request to end, and are killed after this grace period.
    Stubborn { grace: u32 },
    /// End by themselves.
    Job { seconds: u32 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub gib: u64,
    pub cards: u64,
    pub behaviour: Behaviour,
}

/// How a tenant deletes a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// With the pod's own grace period.
    Plain,
    /// With a long grace period, and then with none.
    LongThenForced,
    /// With no grace period from the start.
    Forced,
    /// Through the eviction subresource, which respects disruption budgets.
    Evicted,
}

/// One thing that is injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The network treats requests to the API server like this from now on.
    Weather(Weather),
    /// Every open watch breaks.
    CutWatches,
    Kill(Part),
    Start(Part),
    Freeze(Part),
    Thaw(Part),
    Restart(&'static str),
    /// The Node's object is deleted, and the kubelet registers it again.
    RecreateNode,
    /// The timekeeper's clock is this many seconds ahead.
    Clock(i64),
    Create(Slot, Shape),
    Delete(Slot, Deletion),
    /// A tenant tries one of the changes in the list of edits.
    Edit(Slot, usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Since the round began.
    pub at: Duration,
    pub action: Action,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub seed: u64,
    pub rounds: Vec<Vec<Step>>,
}

impl Plan {
    /// Whether metered pods are among the first pods, which are created before anything else is injected. In a short
    /// plan without them, other pods may take all room until the end.
    pub fn begins_with_metered_pods(&self) -> bool {
        let steps = self.rounds.first().into_iter().flatten();
        let mut first = steps.map_while(|step| match step.action {
            Action::Create(slot, _) => Some(slot),
            _ => None,
        });
        first.any(|slot| slot.metered)
    }
}

impl Action {
    /// The name under which the tally counts it.
    pub fn kind(&self) -> String {
        match self {
            Self::Weather(weather) => format!("weather: {weather}"),
            Self::CutWatches => "all watches cut".to_owned(),
            Self::Kill(part) => format!("kill -9 of {part}"),
            Self::Start(part) => format!("start of {part}"),
            Self::Freeze(part) => format!("SIGSTOP of {part}"),
            Self::Thaw(part) => format!("SIGCONT of {part}"),
            Self::Restart(component) => format!("restart of {component}"),
            Self::RecreateNode => "Node deleted and registered again".to_owned(),
            Self::Clock(_) => "clock step of the timekeeper".to_owned(),
            Self::Create(..) => "pod created".to_owned(),
            Self::Delete(_, Deletion::Plain) => "pod deleted".to_owned(),
            Self::Delete(_, Deletion::LongThenForced) => {
                "pod deleted with a long grace, then forced".to_owned()
            }
            Self::Delete(_, Deletion::Forced) => "pod deleted by force".to_owned(),
            Self::Delete(_, Deletion::Evicted) => "pod evicted by its tenant".to_owned(),
            Self::Edit(..) => "edit by a tenant".to_owned(),
        }
    }

    /// Whether the action is counted as an injection. An action that only ends an earlier one is not.
    pub fn is_injection(&self) -> bool {
        !matches!(
            self,
            Self::Start(_) | Self::Thaw(_) | Self::Weather(Weather::Fair)
        )
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Clock(seconds) => write!(f, "the timekeeper's clock: {seconds:+} s"),
            Self::Create(slot, shape) => write!(f, "create {slot}: {shape}"),
            Self::Delete(slot, how) => write!(f, "delete {slot}: {how:?}"),
            Self::Edit(slot, number) => write!(f, "edit {slot}: change {number}"),
            other => f.write_str(&other.kind()),
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ExtenderOne => "extender one",
            Self::ExtenderTwo => "extender two",
            Self::Agent => "agent",
            Self::Timekeeper => "timekeeper",
            Self::Webhook => "webhook",
        })
    }
}

impl Slot {
    pub fn namespace(self) -> &'static str {
        if self.metered { METERED } else { PLAIN }
    }

    pub fn name(self) -> String {
        format!("p{}", self.number)
    }
}

/// The namespace with a budget.
pub const METERED: &str = "metered";
/// The namespace without one.
pub const PLAIN: &str = "plain";
pub const TENANTS: [&str; 2] = [METERED, PLAIN];

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace(), self.name())
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            gib,
            cards,
            behaviour,
        } = self;
        write!(f, "{gib} GiB on {cards} cards, {behaviour:?}")
    }
}
