//! A real cluster with everything that budgets need: cards, scheduler, webhook, and a timekeeper whose clock a test
//! sets.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use gpushare_ledger::Seconds;
use gpushare_ledger::period::Span;
use gpushare_ledger::store::sqlite::Sqlite;
use gpushare_ledger::store::{Ledger, Line};
use gpushare_rig::NODE_IP;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;
use tempfile::TempDir;

use crate::calendar::set_clock;
use crate::hook;
use crate::process::Process;
use crate::setup::Setup;
use crate::team::Team;
use crate::world::{World, binary, enter, install, issue, kubeconfigs, launch, without_pods};
use crate::{http, wait};

const ACCOUNT: &str = "gpushare-timekeeper";
pub const API: &str = "127.0.0.1:12352";
const ADMIN: &str = "127.0.0.1:12353";
/// Where pods reach a timekeeper that serves with TLS.
const SERVED: &str = "0.0.0.0:12352";
/// The image that the webhook gives to budget sidecars. A test that needs it adds it to the cluster.
const SIDECAR: &str = "gpushare.test/control:1";

#[derive(Debug)]
pub struct BudgetCluster {
    _webhook: Process,
    pub world: World,
    namespaces: AtomicU32,
}

impl BudgetCluster {
    /// A cluster with one node with these cards (memory in MiB). The test starts only the timekeeper.
    pub fn start(cards: &[u64]) -> Self {
        Self::around(World::lasting(Setup::cards(cards)))
    }

    /// The same for a single test, which can also kill the node's agent and the extender.
    pub fn of_one_test(cards: &[u64]) -> Self {
        Self::around(World::with(Setup::cards(cards)))
    }

    fn around(world: World) -> Self {
        let rig = world.rig();
        install(rig, &["crd.yaml", "webhook.yaml", "timekeeper.yaml"]);
        without_pods(rig, ACCOUNT);
        let accounts = [hook::ACCOUNT, ACCOUNT];
        kubeconfigs(rig, world.directory(), &accounts).expect("kubeconfigs");
        hook::lead_the_service_to_processes(rig);
        let (certificate, key) = certificate(&world);
        issue(NODE_IP, &certificate, &key);
        let webhook = webhook(&world);
        Self {
            _webhook: webhook,
            world,
            namespaces: AtomicU32::new(0),
        }
    }

    /// Creates a namespace for the test with a budget of the same name, and waits until the webhook knows both.
    pub fn team(&self, spec: &Value) -> Team {
        let team = self.namespace();
        team.give_budget(spec);
        team
    }

    /// Creates a namespace for the test, without a budget.
    pub fn namespace(&self) -> Team {
        let number = self.namespaces.fetch_add(1, Ordering::Relaxed);
        Team::create(self.world.rig(), format!("team-{number}"))
    }

    /// Adds the image of budget sidecars to the cluster.
    pub fn add_sidecar_image(&self) {
        let rig = self.world.rig();
        rig.add_image(SIDECAR, &binary("gpushare-control"))
            .expect("the image is made");
    }

    /// A timekeeper with an empty ledger and a correct clock.
    pub fn timekeeper(&self) -> Timekeeper<'_> {
        self.timekeeper_at(&["--listen", API])
    }

    /// The same, with TLS, where budget sidecars reach it.
    pub fn timekeeper_for_pods(&self) -> Timekeeper<'_> {
        let (certificate, key) = certificate(&self.world);
        let text = |path: PathBuf| path.display().to_string();
        let tls = [&text(certificate), "--tls-key", &text(key)];
        self.timekeeper_at(&[&["--listen", SERVED, "--tls-cert"], &tls[..]].concat())
    }

    fn timekeeper_at(&self, listen: &[&str]) -> Timekeeper<'_> {
        let directory = tempfile::tempdir().expect("a directory");
        fs::write(directory.path().join("now"), "+0").expect("written");
        let mut timekeeper = Timekeeper {
            process: None,
            listen: listen.iter().map(ToString::to_string).collect(),
            directory,
            home: self,
        };
        timekeeper.start();
        timekeeper
    }
}

/// The files of a certificate for the node's address, and of its key.
fn certificate(world: &World) -> (PathBuf, PathBuf) {
    let file = |name: &str| world.directory().join(name);
    (file("timekeeper.crt"), file("timekeeper.key"))
}

fn webhook(world: &World) -> Process {
    let rig = world.rig();
    let mut command = rig.inside(binary("gpushare-control"));
    let flags = ["--sidecar-image", SIDECAR, "--sidecar-timekeeper"];
    hook::arguments(&mut command, 0, world.directory(), &flags);
    command
        .arg(format!("https://{NODE_IP}:12352"))
        .arg("--sidecar-ca")
        .arg(certificate(world).0);
    let process = launch(rig, "webhook", command, "gpushare-webhook");
    hook::wait_ready(rig, 0);
    process
}

/// A timekeeper that a test can kill and restart, and whose clock it can set.
#[derive(Debug)]
pub struct Timekeeper<'a> {
    process: Option<Process>,
    listen: Vec<String>,
    directory: TempDir,
    home: &'a BudgetCluster,
}

impl Timekeeper<'_> {
    pub fn start(&mut self) {
        let world = &self.home.world;
        let mut command = enter(world.rig(), &binary("gpushare-control"));
        command
            .args(["timekeeper", "--admin-listen", ADMIN])
            .args(&self.listen)
            .args(["--interval", "250ms", "--status-interval", "250ms"])
            .args(["--leader-elect=false", "--log-format", "json"])
            .arg("--kubeconfig")
            .arg(world.kubeconfig(ACCOUNT))
            .arg("--database")
            .arg(self.database())
            .arg("--now-file")
            .arg(self.directory.path().join("now"));
        self.process = Some(Process::start("timekeeper", command, &self.log()));
        wait::until_ready(world.rig(), "the timekeeper", ADMIN);
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        self.process().kill();
    }

    /// Stops the process without ending it (SIGSTOP).
    pub fn freeze(&mut self) {
        self.process().freeze();
    }

    pub fn thaw(&mut self) {
        self.process().thaw();
    }

    pub fn assert_alive(&mut self) {
        self.process().assert_alive();
    }

    fn process(&mut self) -> &mut Process {
        self.process.as_mut().expect("it was started")
    }

    /// Sets its clock this many seconds ahead of the machine's.
    pub fn ahead(&self, seconds: Seconds) {
        set_clock(&self.directory.path().join("now"), seconds);
    }

    fn database(&self) -> PathBuf {
        self.directory.path().join("ledger.db")
    }

    pub fn log(&self) -> PathBuf {
        self.directory.path().join("timekeeper.log")
    }

    pub fn logged(&self) -> String {
        fs::read_to_string(self.log()).expect("readable")
    }

    pub fn metrics(&self) -> String {
        let rig = self.home.world.rig();
        let answer = rig.run(|| http::get(ADMIN, "/metrics"));
        answer.expect("the metrics").text()
    }

    /// The ledger, read while the timekeeper writes it.
    pub fn ledger(&self) -> Ledger {
        Ledger::new(Sqlite::open(&self.database()).expect("the ledger opens"))
    }

    /// What each pod of a namespace used.
    pub fn statement(&self, namespace: &str) -> Vec<Line> {
        let ledger = self.ledger();
        let whole = Span {
            start: 0,
            end: Seconds::MAX / 4,
        };
        block_on(async { ledger.statement(namespace, whole).await }).expect("a statement")
    }

    /// The seconds of one pod.
    pub fn seconds_of(&self, namespace: &str, pod: &str) -> Seconds {
        let lines = self.statement(namespace);
        let lines = lines.iter().filter(|line| line.name == pod);
        lines.map(|line| line.seconds).sum()
    }

    /// Panics if anything in the ledger contradicts something else in it.
    pub fn audit(&self) {
        let ledger = self.ledger();
        let problems = block_on(async { ledger.audit().await });
        assert_eq!(problems.expect("an audit"), [""; 0]);
    }
}

impl Drop for Timekeeper<'_> {
    /// Keeps the log when a test fails.
    fn drop(&mut self) {
        let kept = self.home.world.rig().logs().join("gpushare-timekeeper.log");
        let _lost = append(&self.log(), &kept);
    }
}

fn append(from: &Path, to: &Path) -> std::io::Result<()> {
    use std::io::Write;
    let mut file = fs::File::options().create(true).append(true).open(to)?;
    file.write_all(&fs::read(from)?)
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(work)
}

/// How long a pod that has ended held its card, according to its object.
pub fn held(pod: &Value) -> Seconds {
    last_finish(pod).expect("it has ended") - bound(pod).expect("it was bound")
}

/// When the last of its containers finished, according to its object.
pub fn last_finish(pod: &Value) -> Option<Seconds> {
    let statuses = ["initContainerStatuses", "containerStatuses"];
    let statuses = statuses
        .iter()
        .filter_map(|list| pod["status"][*list].as_array());
    let finished = statuses
        .flatten()
        .filter_map(|status| status["state"].get("terminated"))
        .map(|terminated| seconds(&terminated["finishedAt"]));
    finished.max()
}

/// Waits until the second in which the pod was bound is over. Times on objects are whole seconds, so no later event
/// shares that second, and the pod has held its card for at least one.
pub fn wait_held_a_second(pod: &Value) {
    let bound = bound(pod).expect("it was bound");
    wait::until("the second of its bind to be over", || {
        let now = Timestamp::now().as_second();
        if now > bound { Ok(()) } else { Err(now) }
    });
}

/// When the pod was bound, if its object still says so.
pub fn bound(pod: &Value) -> Option<Seconds> {
    let conditions = pod["status"]["conditions"].as_array()?;
    let scheduled = conditions
        .iter()
        .find(|one| one["type"] == "PodScheduled")?;
    Some(seconds(&scheduled["lastTransitionTime"]))
}

pub fn seconds(time: &Value) -> Seconds {
    let time: Time = serde_json::from_value(time.clone()).expect("a time");
    time.0.as_second()
}
