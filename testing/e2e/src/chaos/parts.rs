//! Our programs in the campaign's cluster: each can be killed, frozen and started again at any moment.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};

use anyhow::{Context, Result};
use gpushare_rig::Rig;
use serde_json::Value;

use super::panics::Panics;
use super::plan::{PARTS, Part};
use super::proxy::Proxy;
use crate::hook;
use crate::http;
use crate::kubectl::Kubectl;
use crate::process::Process;
use crate::world::{NODE, World, binary, install, kubeconfigs, launch, without_pods};

const SIGKILL: i32 = 9;
const SYSTEM: &str = "--namespace=gpushare-system";
pub const EXTENDERS: [&str; 2] = ["127.0.0.1:12361", "127.0.0.1:12362"];
const TIMEKEEPER: &str = "127.0.0.1:12353";
const WEBHOOK: &str = "127.0.0.1:12349";
/// The agent's account, and the name of its pod.
const AGENT: &str = "gpushare-node";
const ACCOUNTS: [&str; 4] = [
    "gpushare-extender",
    AGENT,
    "gpushare-timekeeper",
    "gpushare-webhook",
];

#[derive(Debug)]
pub struct Parts {
    running: BTreeMap<Part, Process>,
    frozen: BTreeSet<Part>,
    /// Parts that had ended by themselves before they were killed.
    fallen: Vec<String>,
    panics: Panics,
}

impl Parts {
    /// Installs our files and accounts in the cluster, and starts every part behind the proxy.
    pub fn start(world: &mut World, proxy: &Proxy) -> Self {
        world.extender = None;
        world.agent = None;
        let rig = world.rig().clone();
        install(&rig, &["crd.yaml", "webhook.yaml", "timekeeper.yaml"]);
        without_pods(&rig, "gpushare-timekeeper");
        hook::lead_the_service_to_processes(&rig);
        kubeconfigs(&rig, world.directory(), &ACCOUNTS).expect("kubeconfigs");
        for account in ACCOUNTS {
            introduce(world, proxy, account);
            let through = proxy.kubeconfig(account).to_string();
            fs::write(kubeconfig(world, account), through).expect("written");
        }
        fs::write(clock(world), "+0").expect("written");
        let mut parts = Self {
            running: BTreeMap::new(),
            frozen: BTreeSet::new(),
            fallen: Vec::new(),
            panics: Panics::from_now_on(rig.logs()),
        };
        for part in PARTS {
            parts.launch(world, part);
        }
        parts
    }

    /// Starts a part unless it is running.
    pub fn launch(&mut self, world: &World, part: Part) {
        self.running
            .entry(part)
            .or_insert_with(|| start(world, part));
    }

    pub fn kill(&mut self, part: Part) {
        if let Some(mut process) = self.running.remove(&part) {
            let before = process.ended();
            process.kill();
            // It may also have ended between the check and the kill.
            let not_by_us = |status: &ExitStatus| status.signal() != Some(SIGKILL);
            let status = before.or_else(|| process.ended().filter(not_by_us));
            self.fallen
                .extend(status.map(|status| by_itself(part, status)));
        }
        self.frozen.remove(&part);
    }

    pub fn freeze(&mut self, part: Part) {
        if let Some(process) = self.running.get(&part) {
            process.freeze();
            self.frozen.insert(part);
        }
    }

    pub fn thaw(&mut self, part: Part) {
        if self.frozen.remove(&part)
            && let Some(process) = self.running.get(&part)
        {
            process.thaw();
        }
    }

    /// Thaws and starts every part.
    pub fn all_back(&mut self, world: &World) {
        for part in PARTS {
            self.thaw(part);
            self.launch(world, part);
        }
    }

    /// Every part that has ended by itself, whether or not it was started again, and every panic. Nothing in a campaign
    /// asks a part to end: a part that loses its lease, the API server or the kubelet keeps running and tries again.
    pub fn ended(&mut self) -> Result<Vec<String>> {
        let running = self.running.iter_mut();
        let now = running.filter_map(|(part, process)| Some(by_itself(*part, process.ended()?)));
        let mut wrong: Vec<String> = self.fallen.iter().cloned().chain(now).collect();
        wrong.extend(self.panics.found()?);
        Ok(wrong)
    }
}

fn by_itself(part: Part, status: ExitStatus) -> String {
    format!("{part} has ended by itself: {status}")
}

/// Checks that every part is ready for work, and that one of the extenders leads.
pub fn ready(rig: &Rig) -> Result<()> {
    let status = |address: &str| -> Option<u16> {
        let asked = rig.run(|| async {
            let patience = std::time::Duration::from_secs(5);
            tokio::time::timeout(patience, http::get(address, "/readyz")).await
        });
        Some(asked.ok()?.ok()?.status)
    };
    let leads = EXTENDERS.iter().any(|address| status(address) == Some(200));
    leads.then_some(()).context("no extender leads")?;
    for address in [TIMEKEEPER, WEBHOOK] {
        let ready = status(address) == Some(200);
        ready
            .then_some(())
            .with_context(|| format!("{address} is not ready"))?;
    }
    Ok(())
}

/// Gives the agent a new pod and token, if the old pod was deleted together with the Node.
pub fn keep_agents_pod(world: &World, proxy: &Proxy) -> Result<()> {
    let rig = world.rig();
    let found = rig.ctl(&format!(
        "get pod {AGENT} {SYSTEM} --ignore-not-found --output=name"
    ))?;
    if found.trim().is_empty() {
        kubeconfigs(rig, world.directory(), &[AGENT])?;
        introduce(world, proxy, AGENT);
    }
    Ok(())
}

/// Gives the proxy the token from the account's direct kubeconfig.
fn introduce(world: &World, proxy: &Proxy, account: &str) {
    let direct = fs::read_to_string(world.kubeconfig(account)).expect("readable");
    let direct: Value = serde_json::from_str(&direct).expect("a kubeconfig");
    let token = direct["users"][0]["user"]["token"].as_str();
    proxy.set_token(account, token.expect("a token"));
}

/// The file that sets the timekeeper's clock.
pub fn clock(world: &World) -> PathBuf {
    world.directory().join("now")
}

pub fn database(world: &World) -> PathBuf {
    world.directory().join("ledger.db")
}

fn kubeconfig(world: &World, account: &str) -> PathBuf {
    world.kubeconfig(&format!("chaos-{account}"))
}

fn start(world: &World, part: Part) -> Process {
    let (name, mut command) = match part {
        Part::ExtenderOne => ("extender-one", extender(world, "one", EXTENDERS[0])),
        Part::ExtenderTwo => ("extender-two", extender(world, "two", EXTENDERS[1])),
        Part::Agent => ("node", agent(world)),
        Part::Timekeeper => ("timekeeper", timekeeper(world)),
        Part::Webhook => ("webhook", webhook(world)),
    };
    let account = match part {
        Part::ExtenderOne | Part::ExtenderTwo => "gpushare-extender",
        Part::Agent => AGENT,
        Part::Timekeeper => "gpushare-timekeeper",
        Part::Webhook => "gpushare-webhook",
    };
    command.arg("--kubeconfig").arg(kubeconfig(world, account));
    launch(world.rig(), name, command, &format!("gpushare-{name}"))
}

/// A program in the rig's files and network. It is killed with the campaign even while it is frozen.
fn enter(world: &World, program: &str) -> Command {
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "KILL", "nsenter", "--target"])
        .arg(world.rig().pid().to_string())
        .args(["--mount", "--net", "--ipc", "--uts", "--"])
        .arg(binary(program));
    command
}

fn extender(world: &World, name: &str, listen: &str) -> Command {
    let mut command = enter(world, "gpushare-control");
    command.args(["extender", "--listen", listen, "--replica-name", name]);
    command
}

fn agent(world: &World) -> Command {
    let mut command = enter(world, "gpushare-node");
    command
        .env("GPUSHARE_FAKE_HARDWARE", world.hardware_file())
        .args(["--node-name", NODE, "--nvml-library"])
        .arg(world.library());
    command
}

fn timekeeper(world: &World) -> Command {
    let mut command = enter(world, "gpushare-control");
    command
        .args(["timekeeper", "--admin-listen", TIMEKEEPER])
        .args(["--listen", "127.0.0.1:12352", "--leader-elect=false"])
        .args(["--interval", "500ms", "--status-interval", "1s"])
        .arg("--database")
        .arg(database(world))
        .arg("--now-file")
        .arg(clock(world));
    command
}

fn webhook(world: &World) -> Command {
    let mut command = enter(world, "gpushare-control");
    command
        .args(["webhook", "--listen", "0.0.0.0:12348"])
        .args(["--admin-listen", WEBHOOK]);
    command
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait;

    /// Parts whose agent is a shell that runs this script.
    fn parts(script: &str, logs: &std::path::Path) -> Parts {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let agent = Process::start("node", command, &logs.join("gpushare-node.log"));
        Parts {
            running: BTreeMap::from([(Part::Agent, agent)]),
            frozen: BTreeSet::new(),
            fallen: Vec::new(),
            panics: Panics::from_now_on(logs.to_owned()),
        }
    }

    #[test]
    fn a_part_that_ended_before_it_was_killed_is_told() {
        let logs = tempfile::tempdir().unwrap();
        let mut parts = parts("exit 3", logs.path());
        wait::until("the end of the shell", || match parts.ended() {
            Ok(ended) if ended.is_empty() => Err("it runs"),
            other => Ok(other),
        })
        .unwrap();
        parts.kill(Part::Agent);
        assert_eq!(
            parts.ended().unwrap(),
            ["agent has ended by itself: exit status: 3"]
        );
    }

    #[test]
    fn a_part_that_was_killed_has_not_ended_by_itself() {
        let logs = tempfile::tempdir().unwrap();
        let mut parts = parts("exec sleep 3600", logs.path());
        parts.kill(Part::Agent);
        assert_eq!(parts.ended().unwrap(), [""; 0]);
    }
}
