//! A small cluster: a scheduler and a user for each pod, and extenders that succeed each other.

use gpushare_core::card::Card;
use gpushare_core::{Amounts, HeldPod, Host, NodeName, PodUid, gpu};
use gpushare_packing::Policy;
use shuttle::rand::Rng;
use shuttle::sync::Arc;
use shuttle::thread::{self, JoinHandle};

use super::api::{Api, CARD_GIB, Story};
use super::instance::{Fault, Instance, chance, delay};
use crate::{Bells, Books, NodeFacts};
use gpushare_kube::PodRef;

const NODES: [&str; 2] = ["n1", "n2"];
/// Two of them do not fit on one card.
const PODS: [u64; 3] = [5, 5, 4];
/// How many binds the scheduler tries for a pod, and how many searches without a suitable node it accepts.
const ATTEMPTS: usize = 6;
const VAIN_ATTEMPTS: usize = 20;

pub(super) const FIRST_TERM: u64 = 1;

/// What happens beside pods that come and go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) nodes: usize,
    pub(super) pods: usize,
    pub(super) succession: Succession,
    pub(super) nodes_change: bool,
    /// Tenants change the annotations of their pods at any time.
    pub(super) tenants_edit: bool,
    /// Pods may be deleted by force while their containers run.
    pub(super) by_force: bool,
    /// How long pods run at most.
    pub(super) life: u32,
    pub(super) lag: Lag,
    pub(super) network: Network,
    pub(super) fault: Option<Fault>,
}

/// When a watch shows nothing new. Writes by others make binds void, so some mistakes show only if the watch is
/// behind at the worst moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lag {
    None,
    /// While its extender does not lead.
    UntilItLeads,
    /// While its extender has no bind under way.
    UntilItBinds,
}

/// How bad the network is. A plain number means that something happens once in so many times.
#[derive(Clone, Copy, Debug)]
pub(super) struct Network {
    pub(super) request_lost: u32,
    /// The request arrives long after its sender has given up.
    pub(super) request_late: u32,
    pub(super) answer_lost: u32,
    /// The answer is a conflict although there is none. The request may still take effect.
    pub(super) false_conflict: u32,
    pub(super) read_answered: u32,
    pub(super) watch_breaks: u32,
    /// How long a list takes at most.
    pub(super) list_steps: u32,
    /// Whether extenders are deposed because they are cut off: no bind of the first term arrives, and reads of an
    /// extender that does not lead are not answered.
    pub(super) deposed_is_cut_off: bool,
}

impl Network {
    pub(super) const CALM: Self = Self {
        request_lost: 8,
        request_late: 6,
        answer_lost: 4,
        false_conflict: 8,
        read_answered: 2,
        watch_breaks: 12,
        list_steps: 20,
        deposed_is_cut_off: false,
    };
    pub(super) const ROUGH: Self = Self {
        request_lost: 2,
        request_late: 3,
        answer_lost: 2,
        false_conflict: 6,
        read_answered: 4,
        watch_breaks: 3,
        list_steps: 60,
        deposed_is_cut_off: true,
    };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Succession {
    None,
    /// The extender is killed and another one started; requests under way are still carried out.
    Crash,
    /// Two extenders: the first one leads, then the second, then the first again.
    Election,
}

impl Plan {
    pub(super) fn is_cut_off_when_deposed(&self) -> bool {
        self.succession == Succession::Election && self.network.deposed_is_cut_off
    }
}

/// One life of the cluster, from the first pod to the last, and what happened in it.
pub(super) fn live(plan: Plan) -> Story {
    let api = Arc::new(Api::new());
    let extenders = [0, 1].map(|number| Instance::new(number, api.clone(), books(plan), plan));
    let [first, second] = extenders.clone();
    api.begin_term(0, FIRST_TERM);
    let mut watches = vec![follow(&first)];
    let mut work: Vec<JoinHandle<()>> = Vec::new();
    for (number, gib) in PODS.into_iter().take(plan.pods).enumerate() {
        let (api, extenders) = (api.clone(), extenders.clone());
        work.push(thread::spawn(move || {
            live_pod(&api, &extenders, &format!("p{number}"), gib, plan);
        }));
    }
    if plan.nodes_change {
        let first = first.clone();
        work.push(thread::spawn(move || change_nodes(&first)));
    }
    match plan.succession {
        Succession::None => {}
        Succession::Crash => {
            end_term_of(&api, 0);
            watches.push(follow(&second));
            api.begin_term(1, 2);
        }
        Succession::Election => {
            watches.push(follow(&second));
            for (successor, term) in [(1, 2), (0, 3)] {
                end_term_of(&api, 1 - successor);
                api.begin_term(successor, term);
            }
        }
    }
    for thread in work {
        thread.join().unwrap();
    }
    api.end_of_history();
    for watch in watches {
        watch.join().unwrap();
    }
    for extender in &extenders {
        extender.finish();
    }
    // What a killed extender knew last does not matter.
    if plan.succession != Succession::Crash {
        first.check_empty();
    }
    second.check_empty();
    api.story.clone()
}

fn follow(extender: &Arc<Instance>) -> JoinHandle<()> {
    let extender = extender.clone();
    thread::spawn(move || extender.follow())
}

/// Ends a term, mostly after binds were open for a while.
fn end_term_of(api: &Api, extender: usize) {
    if !chance(4) {
        api.open_term(extender);
    }
    delay(80);
    api.end_term();
}

/// Creates a pod, lets it be scheduled, and ends it in one of several ways. Another pod may take its name then.
fn live_pod(api: &Arc<Api>, extenders: &[Arc<Instance>], name: &str, gib: u64, plan: Plan) {
    for generation in 0..2 {
        let uid = format!("{name}-{generation}");
        api.create(name, &uid, gib);
        let pod = PodRef {
            uid: uid.as_str().into(),
            namespace: "team".to_owned(),
            name: name.to_owned(),
        };
        let scheduler = {
            let (api, extenders) = (api.clone(), extenders.to_vec());
            thread::spawn(move || schedule(&api, &extenders, &pod))
        };
        let tenant = plan.tenants_edit.then(|| {
            let (api, name) = (api.clone(), name.to_owned());
            thread::spawn(move || edit(&api, &name))
        });
        if chance(2) {
            scheduler.join().unwrap();
            delay(plan.life);
            end(api, extenders, name, plan);
        } else {
            end(api, extenders, name, plan);
            scheduler.join().unwrap();
        }
        if let Some(tenant) = tenant {
            tenant.join().unwrap();
        }
        if chance(2) {
            break;
        }
    }
}

/// A tenant annotates its pod, waiting or running, and may or may not remove the annotation again.
fn edit(api: &Api, name: &str) {
    for senseless in [true, false, true] {
        delay(60);
        api.annotate(name, senseless);
        if chance(3) {
            return;
        }
    }
}

fn end(api: &Api, extenders: &[Arc<Instance>], name: &str, plan: Plan) {
    if chance(2) {
        api.set_phase(name, "Running");
    }
    if plan.by_force && chance(2) {
        if let Some((pod, node)) = api.delete_by_force(name) {
            outlive(api, extenders, &pod, &node, plan);
        }
        return;
    }
    if chance(2) {
        api.set_phase(name, "Succeeded");
    } else {
        api.begin_deletion(name);
        thread::yield_now();
    }
    api.delete(name);
}

/// The agent sees and reports that containers outlive their pod, and later reports that they have ended.
fn outlive(api: &Api, extenders: &[Arc<Instance>], pod: &PodUid, node: &str, plan: Plan) {
    let tell = || {
        for extender in extenders {
            delay(10);
            extender.hear(|held| self::node(node, true, held), node);
        }
    };
    delay(10);
    tell();
    delay(plan.life);
    api.end_outlived(pod);
    tell();
}

fn schedule(api: &Api, extenders: &[Arc<Instance>], pod: &PodRef) {
    let (mut attempts, mut in_vain) = (0, 0);
    while attempts < ATTEMPTS && in_vain < VAIN_ATTEMPTS {
        if !api.truth().is_waiting(pod.uid.as_str()) {
            return;
        }
        let leader = api.some_leader();
        // A request may still reach the earlier leader.
        let number = if chance(4) { 1 - leader } else { leader };
        let Some(extender) = extenders.get(number) else {
            return;
        };
        let turn = shuttle::rand::thread_rng().gen_range(0..NODES.len());
        let mut nodes = NODES.iter().cycle().skip(turn).take(NODES.len());
        let mut node = nodes.find(|node| extender.fits(&pod.uid, node)).copied();
        // The offered node may be taken by the time of the bind.
        if node.is_none() && chance(8) {
            node = NODES.first().copied();
        }
        if let Some(node) = node {
            attempts += 1;
            if extender.bind(pod, &NodeName::new(node)) {
                return;
            }
        } else {
            in_vain += 1;
        }
        delay(30);
    }
}

fn change_nodes(extender: &Arc<Instance>) {
    for name in NODES {
        extender.lose_node(name);
        thread::yield_now();
        extender.set_node(node(name, false, Vec::new()));
        extender.set_node(node(name, true, Vec::new()));
    }
}

fn books(plan: Plan) -> Books {
    let mut books = Books::new(gpu::classes(), Policy::default(), Bells::default());
    let nodes = NODES.iter().take(plan.nodes);
    books.replace_nodes(nodes.map(|name| node(name, true, Vec::new())).collect());
    books
}

fn node(name: &str, healthy: bool, held: Vec<HeldPod>) -> NodeFacts {
    NodeFacts {
        name: name.into(),
        held,
        cards: vec![Card {
            id: format!("GPU-{name}").as_str().into(),
            class: gpu::CLASS.into(),
            index: 0,
            model: "Test".into(),
            capacity: Amounts::of(gpu::MEMORY, CARD_GIB * 1024),
            healthy,
        }],
        allocatable: Host::default(),
    }
}
