//! A real cluster with everything that budgets need: cards, scheduler, webhook, and a timekeeper whose clock a test
//! sets.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, ensure};
use gpushare_ledger::Seconds;
use gpushare_ledger::period::Span;
use gpushare_ledger::store::sqlite::Sqlite;
use gpushare_ledger::store::{Ledger, Line};
use gpushare_rig::NODE_IP;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::hook::{self, PORTS};
use crate::process::Process;
use crate::setup::Setup;
use crate::world::{World, binary, enter, install, kubeconfigs};
use crate::{http, wait};

const ACCOUNT: &str = "gpushare-timekeeper";
pub const API: &str = "127.0.0.1:12352";
const ADMIN: &str = "127.0.0.1:12353";
/// Where pods reach a timekeeper that serves with TLS.
const SERVED: &str = "0.0.0.0:12352";
/// The image that the webhook gives to budget sidecars. A test that needs it adds it to the cluster.
const SIDECAR: &str = "gpushare.test/control:1";

#[derive(Debug)]
pub struct Budgeted {
    _webhook: Process,
    pub world: World,
    namespaces: AtomicU32,
}

impl Budgeted {
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
        let scale = ["scale", "deployment", ACCOUNT, "--replicas=0"];
        let system = ["--namespace=gpushare-system"];
        rig.kubectl(&[&scale[..], &system].concat())
            .expect("scaled");
        let accounts = [hook::ACCOUNT, ACCOUNT];
        kubeconfigs(rig, world.directory(), &accounts).expect("kubeconfigs");
        hook::lead_the_service_to_processes(rig);
        let issued = rcgen::generate_simple_self_signed([NODE_IP.to_owned()]).expect("issued");
        let (certificate, key) = certificate(&world);
        fs::write(certificate, issued.cert.pem()).expect("written");
        fs::write(key, issued.signing_key.serialize_pem()).expect("written");
        let webhook = webhook(&world);
        Self {
            _webhook: webhook,
            world,
            namespaces: AtomicU32::new(0),
        }
    }

    /// Creates a namespace for the test with a budget of the same name, and waits until the webhook knows both.
    pub fn team(&self, spec: &Value) -> String {
        let name = self.namespace();
        self.give_budget(&name, spec);
        name
    }

    /// Creates a namespace for the test, without a budget.
    pub fn namespace(&self) -> String {
        let number = self.namespaces.fetch_add(1, Ordering::Relaxed);
        let name = format!("team-{number}");
        let rig = self.world.rig();
        rig.kubectl(&["create", "namespace", &name])
            .expect("created");
        wait::until("the default account", || {
            let account = ["get", "serviceaccount", "default", "--namespace", &name];
            rig.kubectl(&account)
        });
        name
    }

    /// Creates a budget for a namespace, with the namespace's name, and waits until the webhook knows it.
    pub fn give_budget(&self, namespace: &str, spec: &Value) {
        let mut spec = spec.clone();
        spec["namespaces"] = json!({"names": [namespace]});
        self.world.apply(&json!({
            "apiVersion": "gpushare.io/v1alpha1", "kind": "GpuBudget",
            "metadata": {"name": namespace}, "spec": spec,
        }));
        self.wait_for_class(namespace, "gpushare-in-budget");
    }

    /// Waits until the webhook gives this class to new pods of a namespace.
    pub fn wait_for_class(&self, namespace: &str, class: &str) {
        let probe = crate::manifest::pod("probe", crate::manifest::aliyun(1));
        let file = self.world.directory().join("probe.json");
        fs::write(&file, probe.to_string()).expect("written");
        let file = file.to_str().expect("a path");
        wait::until(
            &format!("the class {class} in {namespace}"),
            || -> Result<()> {
                let create = ["create", "--dry-run=server", "--filename", file];
                let pod = self.get(namespace, &create)?;
                let given = &pod["spec"]["priorityClassName"];
                ensure!(given == class, "{given}");
                Ok(())
            },
        );
    }

    /// The object that kubectl prints for a command in a namespace.
    pub fn get(&self, namespace: &str, args: &[&str]) -> Result<Value> {
        self.world
            .object(&[args, &["--namespace", namespace]].concat())
    }

    pub fn create(&self, namespace: &str, pod: &Value) {
        let mut pod = pod.clone();
        pod["metadata"]["namespace"] = json!(namespace);
        self.world.apply(&pod);
    }

    pub fn pod(&self, namespace: &str, name: &str) -> Result<Value> {
        self.get(namespace, &["get", "pod", name])
    }

    /// Waits until the condition holds for a pod, and returns the pod.
    pub fn wait_pod(
        &self,
        namespace: &str,
        name: &str,
        what: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> Value {
        wait::until(
            &format!("{name} in {namespace}: {what}"),
            || -> Result<Value> {
                let pod = self.pod(namespace, name)?;
                ensure!(holds(&pod), "{}", pod["status"]);
                Ok(pod)
            },
        )
    }

    pub fn wait_running(&self, namespace: &str, name: &str) -> Value {
        self.wait_pod(namespace, name, "it runs", |pod| {
            let statuses = pod["status"]["containerStatuses"].as_array();
            statuses.is_some_and(|all| all.iter().all(|one| one["ready"] == true))
        })
    }

    /// Waits until the pod has ended by itself and is charged.
    pub fn wait_charged(&self, namespace: &str, name: &str) -> Value {
        self.wait_pod(namespace, name, "it has ended and is charged", |pod| {
            let ended = ["Succeeded", "Failed"].map(Value::from);
            ended.contains(&pod["status"]["phase"]) && pod["metadata"]["finalizers"].is_null()
        })
    }

    pub fn delete(&self, namespace: &str, name: &str) {
        let delete = [
            "delete",
            "pod",
            name,
            "--wait=false",
            "--namespace",
            namespace,
        ];
        self.world.rig().kubectl(&delete).expect("deleted");
    }

    pub fn wait_gone(&self, namespace: &str, name: &str) {
        wait::until(
            &format!("pod {name} in {namespace} to be gone"),
            || match self.pod(namespace, name) {
                Ok(pod) => Err(pod["metadata"].to_string()),
                Err(_) => Ok(()),
            },
        );
    }

    pub fn budget(&self, name: &str) -> Value {
        let budget = self.world.object(&["get", "gpubudget", name]);
        budget.expect("the budget is there")
    }

    /// Waits until the condition holds for a budget's status, and returns the status.
    pub fn wait_budget(&self, name: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        wait::until(&format!("budget {name}: {what}"), || {
            let status = self.budget(name)["status"].clone();
            if holds(&status) {
                Ok(status)
            } else {
                Err(status.to_string())
            }
        })
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
    let (listen, admin) = PORTS[0];
    let mut command = world.rig().inside(binary("gpushare-control"));
    command
        .args(["webhook", "--listen", &format!("0.0.0.0:{listen}")])
        .args(["--admin-listen", &format!("127.0.0.1:{admin}")])
        .args(["--sidecar-image", SIDECAR, "--sidecar-timekeeper"])
        .arg(format!("https://{NODE_IP}:12352"))
        .arg("--sidecar-ca")
        .arg(certificate(world).0)
        .arg("--kubeconfig")
        .arg(world.kubeconfig(hook::ACCOUNT));
    let log = world.rig().logs().join("gpushare-webhook.log");
    let process = Process::start("webhook", command, &log);
    wait::until_ready(world.rig(), "the webhook", &format!("127.0.0.1:{admin}"));
    process
}

/// A timekeeper that a test can kill and restart, and whose clock it can set.
#[derive(Debug)]
pub struct Timekeeper<'a> {
    process: Option<Process>,
    listen: Vec<String>,
    directory: TempDir,
    home: &'a Budgeted,
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
        let file = self.directory.path().join("now");
        // Replaced as a whole, so that the timekeeper never reads a half-written file.
        let new = self.directory.path().join("new");
        fs::write(&new, format!("{seconds:+}")).expect("written");
        fs::rename(new, file).expect("replaced");
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
    let time: Time = serde_json::from_value(time.clone())
        .context("a time")
        .expect("a time");
    time.0.as_second()
}
