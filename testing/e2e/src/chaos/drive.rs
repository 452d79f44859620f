//! The campaign's cluster, and how each step of a plan is carried out on it.

use std::sync::Arc;
use std::thread;
use std::time::Instant;

use anyhow::Result;
use gpushare_rig::Rig;

use super::fate::Weather;
use super::glimpses::Glimpses;
use super::parts::{self, EXTENDERS, Parts};
use super::plan::{Action, Step};
use super::proxy::Proxy;
use super::recorder::Recorder;
use super::tally::Tally;
use super::tenants;
use crate::balancer::Balancer;
use crate::calendar::set_clock;
use crate::interrupt;
use crate::kubectl::Kubectl;
use crate::setup::Setup;
use crate::world::{EXTENDER, NODE, World};

/// Sizes of the cards, in MiB. All pods together ask for more than this.
const CARDS: [u64; 3] = [16 * 1024, 16 * 1024, 12 * 1024];

#[derive(Debug)]
pub struct Cluster {
    // Dropped in this order: what runs in the cluster before the cluster itself.
    pub parts: Parts,
    pub recorder: Recorder,
    pub glimpses: Glimpses,
    _balancer: Balancer,
    pub proxy: Proxy,
    pub world: World,
    pub tally: Tally,
}

impl Cluster {
    pub fn start() -> Self {
        let mut world = World::with(Setup::cards(&CARDS));
        let proxy = Proxy::start(world.rig());
        let parts = Parts::start(&mut world, &proxy);
        let addresses = EXTENDERS.map(str::to_owned).to_vec();
        let balancer = Balancer::start(&world, EXTENDER, addresses);
        world.wait_ready();
        let rig = world.rig();
        crate::wait::until("every part to be ready", || parts::ready(rig));
        tenants::settle(rig);
        Self {
            recorder: Recorder::start(rig, world.card_sizes()),
            glimpses: Glimpses::start(rig),
            parts,
            _balancer: balancer,
            proxy,
            world,
            tally: Tally::default(),
        }
    }

    pub fn rig(&self) -> Arc<Rig> {
        self.world.rig().clone()
    }

    /// Carries out one round, each step at its time, or late if the ones before it took longer.
    pub fn round(&mut self, seed: u64, steps: &[Step]) {
        let began = Instant::now();
        for (number, step) in (0..).zip(steps) {
            interrupt::check();
            let due = began + step.at;
            thread::sleep(due.saturating_duration_since(Instant::now()));
            let outcome = self.perform(seed.wrapping_add(number), step.action);
            let note = match &outcome {
                Ok(()) => String::new(),
                Err(error) => format!("  ({})", last_line(error)),
            };
            let at = began.elapsed().as_secs_f64();
            println!("{at:>7.1} s  {}{note}", step.action);
            if let Some(kind) = counted(step.action, outcome.is_err()) {
                self.tally.injected(kind, 1);
            }
            assert_eq!(self.rig().ended(), None, "the cluster has ended");
        }
    }

    /// Carries out one action. What tenants try may fail.
    fn perform(&mut self, seed: u64, action: Action) -> Result<()> {
        let rig = self.rig();
        match action {
            Action::Weather(weather) => self.proxy.set_weather(weather, seed),
            Action::CutWatches => self.proxy.cut_watches(),
            Action::Kill(part) => self.parts.kill(part),
            Action::Start(part) => self.parts.launch(&self.world, part),
            Action::Freeze(part) => self.parts.freeze(part),
            Action::Thaw(part) => self.parts.thaw(part),
            Action::Restart(component) => rig.restart(component)?,
            Action::RecreateNode => self.recreate_node()?,
            Action::Clock(ahead) => self.set_clock(ahead),
            Action::Create(slot, shape) => tenants::create(&rig, slot, shape)?,
            Action::Delete(slot, how) => tenants::delete(&rig, slot, how)?,
            Action::Edit(slot, number) => tenants::edit(&rig, slot, number)?,
        }
        Ok(())
    }

    fn recreate_node(&self) -> Result<()> {
        let rig = self.rig();
        rig.ctl(&format!(
            "delete node {NODE} --request-timeout=5s --wait=false"
        ))?;
        // The kubelet registers the Node only when it starts.
        rig.restart("kubelet")
    }

    fn set_clock(&self, ahead: i64) {
        set_clock(&parts::clock(&self.world), ahead);
    }

    /// Ends all injections: every part runs, and requests reach the API server undisturbed.
    pub fn stop_injecting(&mut self) {
        self.proxy.set_weather(Weather::Fair, 0);
        self.set_clock(0);
        self.parts.all_back(&self.world);
    }
}

/// The name under which the tally counts a step. A step that failed was not injected.
fn counted(action: Action, failed: bool) -> Option<String> {
    let kind = action.is_injection().then(|| action.kind())?;
    Some(match action {
        _ if !failed => kind,
        Action::Create(..) | Action::Delete(..) | Action::Edit(..) => {
            format!("{kind} (refused, or nothing there)")
        }
        _ => format!("{kind} (failed)"),
    })
}

/// The most informative line of an error.
fn last_line(error: &anyhow::Error) -> String {
    let text = format!("{error:#}");
    let line = text.lines().rev().find(|line| !line.trim().is_empty());
    let line = line.unwrap_or_default();
    line.chars().take(160).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restart_that_failed_is_not_counted_as_one() {
        let restart = Action::Restart("etcd");
        assert_eq!(counted(restart, false).unwrap(), "restart of etcd");
        assert_eq!(counted(restart, true).unwrap(), "restart of etcd (failed)");
        assert_eq!(
            counted(Action::RecreateNode, true).unwrap(),
            "Node deleted and registered again (failed)"
        );
    }
}
