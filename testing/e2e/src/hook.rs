//! A real cluster with the real webhook: configured by the files of `deploy/`, and called by the API server over TLS
//! through the Service. Processes of the test serve it in place of the Deployment's pods.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use gpushare_rig::{NODE_IP, Options, Rig};
use kube::Client;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::kubectl::{Kubectl, create_namespace};
use crate::process::Process;
use crate::world::{binary, client_config, enter, install, kubeconfigs, launch, without_pods};
use crate::{http, manifest, wait};

pub(crate) const ACCOUNT: &str = "gpushare-webhook";
/// The ports of each replica: for the API server, and for probes.
pub const PORTS: [(u16, u16); 2] = [(12348, 12349), (12350, 12351)];

/// Where a replica answers probes.
fn probes(number: usize) -> String {
    format!("127.0.0.1:{}", PORTS[number].1)
}

#[derive(Debug)]
pub struct Hook {
    /// In the rig's own pid namespace, so that it ends with the rig.
    lasting: Option<Process>,
    pub rig: Rig,
    directory: TempDir,
    namespaces: AtomicU32,
}

/// The output of kubectl.
#[derive(Debug)]
pub struct KubectlOutput {
    pub ok: bool,
    pub out: String,
    pub err: String,
}

impl KubectlOutput {
    /// The object that kubectl printed.
    pub fn object(&self) -> Value {
        assert!(self.ok, "{}", self.err);
        serde_json::from_str(&self.out).expect("kubectl prints JSON")
    }

    /// The error that kubectl printed when it was refused.
    pub fn refusal(&self) -> &str {
        assert!(!self.ok, "accepted: {}", self.out);
        &self.err
    }

    /// The object that kubectl printed, or its error.
    pub fn result(self) -> Result<Value, String> {
        if self.ok {
            Ok(self.object())
        } else {
            Err(self.err)
        }
    }

    /// Asserts that kubectl was refused for this reason.
    pub fn assert_refused(&self, reason: &str) {
        assert!(self.refusal().contains(reason), "{}", self.err);
    }
}

impl Hook {
    /// A cluster whose GPU pods need a webhook that does not run yet.
    pub fn cluster() -> Self {
        let rig = Rig::start(Options::default()).expect("the rig starts");
        let files = ["rbac.yaml", "crd.yaml", "admission.yaml", "webhook.yaml"];
        install(&rig, &files);
        let directory = tempfile::tempdir().expect("a directory");
        kubeconfigs(&rig, directory.path(), &[ACCOUNT]).expect("kubeconfigs");
        lead_the_service_to_processes(&rig);
        Self {
            lasting: None,
            rig,
            directory,
            namespaces: AtomicU32::new(0),
        }
    }

    /// A cluster with one replica that lasts as long as the cluster.
    pub fn start() -> Self {
        Self::cluster().with_lasting(&[])
    }

    /// Adds one replica with these extra flags, which lasts as long as the cluster.
    #[must_use]
    pub fn with_lasting(mut self, flags: &[&str]) -> Self {
        let hook = &mut self;
        let mut command = hook.rig.inside(binary("gpushare-control"));
        arguments(&mut command, 0, hook.directory.path(), flags);
        let webhook = launch(&hook.rig, "webhook", command, "gpushare-webhook");
        hook.lasting = Some(webhook);
        hook.wait_ready(0);
        self
    }

    /// A replica with these extra flags, which the test can kill.
    pub fn replica(&self, number: usize, flags: &[&str]) -> Process {
        let mut command = enter(&self.rig, &binary("gpushare-control"));
        arguments(&mut command, number, self.directory.path(), flags);
        let log = format!("gpushare-webhook-{number}");
        launch(&self.rig, "webhook", command, &log)
    }

    pub fn wait_ready(&self, number: usize) {
        wait_ready(&self.rig, number);
    }

    /// Sends a request to a replica's probe port.
    pub fn get(&self, number: usize, path: &str) -> std::io::Result<http::Answer> {
        let address = probes(number);
        self.rig.run(|| http::get(&address, path))
    }

    /// Sets whether the Service leads to a replica.
    pub fn endpoint(&self, number: usize, port: u16, serves: bool) {
        endpoint(&self.rig, number, port, serves);
    }

    // --- what a test does

    /// Adds an image of our control plane's program to the cluster.
    pub fn add_control_image(&self, name: &str) {
        self.rig
            .add_image(name, &binary("gpushare-control"))
            .expect("the image is made");
    }

    pub async fn client(&self) -> Client {
        let mut config = client_config(&self.rig.kubeconfig()).await;
        // No retries, because every single answer counts.
        config.default_retry = false;
        Client::try_from(config).expect("a client")
    }

    /// Creates a namespace for the test, in which the user `tenant` has the rights of an editor.
    pub fn namespace(&self) -> String {
        let number = self.namespaces.fetch_add(1, Ordering::Relaxed);
        let name = format!("team-{number}");
        create_namespace(&self.rig, &name);
        let edit = "--clusterrole=edit --user=tenant";
        let bind = format!("create rolebinding tenant {edit} --namespace={name}");
        self.rig.ctl(&bind).expect("bound");
        name
    }

    /// Creates a namespace with a budget, which is exhausted if `exhausted`.
    pub fn budgeted(&self, exhausted: bool) -> String {
        let name = self.namespace();
        let spec = json!({"amount": "20h", "namespaces": {"names": [name]}});
        let budget = manifest::budget(&name, &spec);
        self.rig.apply(&budget.to_string()).expect("applied");
        self.exhaust(&name, exhausted);
        name
    }

    /// Sets a budget's status as the timekeeper would, and waits until the webhook has seen it.
    pub fn exhaust(&self, name: &str, exhausted: bool) {
        let status = json!({"status": {"exhausted": exhausted}});
        let budget = format!("gpubudget {name} --subresource=status --type=merge");
        self.rig.patch(&budget, &status).expect("patched");
        let expected = if exhausted {
            "gpushare-over-budget"
        } else {
            "gpushare-in-budget"
        };
        let probe = pod("probe", &json!({"aliyun.com/gpu-mem": 1}));
        let class = || self.dry_run(name, &probe).object()["spec"]["priorityClassName"].clone();
        let known = "the webhook to know the budget";
        wait::until_seen(known, class, |class| class == expected);
    }

    /// As [`Hook::kubectl`], for a command in which no word contains a space.
    pub fn say(&self, command: &str) -> KubectlOutput {
        let words: Vec<&str> = command.split_whitespace().collect();
        self.kubectl(&words, None)
    }

    /// Runs kubectl as the administrator and returns everything that it prints.
    pub fn kubectl(&self, args: &[&str], input: Option<&Value>) -> KubectlOutput {
        let mut command = self.rig.net("kubectl");
        let mut child = command
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("kubectl starts");
        let mut stdin = child.stdin.take().expect("an input");
        if let Some(input) = input {
            stdin
                .write_all(input.to_string().as_bytes())
                .expect("written");
        }
        drop(stdin);
        let output = child.wait_with_output().expect("kubectl ends");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        KubectlOutput {
            ok: output.status.success(),
            out: text(&output.stdout),
            err: text(&output.stderr),
        }
    }

    /// The exit status of `kubectl gpushare doctor`, and its findings.
    pub fn doctor(&self) -> (Option<i32>, Value) {
        let mut command = self.rig.net(binary("kubectl-gpushare"));
        let output = command.args(["doctor", "--output=json"]).output();
        let output = output.expect("the plugin starts");
        let report = serde_json::from_slice(&output.stdout);
        let report = report.unwrap_or_else(|error| panic!("{error}: {output:?}"));
        (output.status.code(), report)
    }

    /// Creates an object and returns the result.
    pub fn create(&self, namespace: &str, object: &Value) -> KubectlOutput {
        self.create_with(namespace, object, &[])
    }

    pub fn create_with(&self, namespace: &str, object: &Value, flags: &[&str]) -> KubectlOutput {
        let namespace = format!("--namespace={namespace}");
        let create = ["create", "--output=json", "--filename=-", &namespace];
        self.kubectl(&[&create[..], flags].concat(), Some(object))
    }

    /// As `create`, but as a dry run on the server.
    pub fn dry_run(&self, namespace: &str, object: &Value) -> KubectlOutput {
        self.create_with(namespace, object, &["--dry-run=server"])
    }

    pub fn pod(&self, namespace: &str, name: &str) -> Value {
        let pod = self.rig.get(&format!("pod {name} --namespace={namespace}"));
        pod.expect("the pod is there")
    }
}

/// The webhook's arguments for a replica whose kubeconfig is in this directory.
pub(crate) fn arguments(command: &mut Command, number: usize, directory: &Path, flags: &[&str]) {
    let (listen, admin) = PORTS[number];
    command
        .args(["webhook", "--listen", &format!("0.0.0.0:{listen}")])
        .args(["--admin-listen", &format!("127.0.0.1:{admin}")])
        .arg("--kubeconfig")
        .arg(directory.join(format!("{ACCOUNT}.kubeconfig")))
        .args(flags);
}

pub(crate) fn wait_ready(rig: &Rig, number: usize) {
    wait::until_ready(rig, "the webhook", &probes(number));
}

/// Lets processes take the place of the Deployment's pods.
pub(crate) fn lead_the_service_to_processes(rig: &Rig) {
    without_pods(rig, ACCOUNT);
    let service = format!("service {ACCOUNT} --namespace=gpushare-system --type=json");
    let patch = json!([{"op": "remove", "path": "/spec/selector"}]);
    rig.patch(&service, &patch).expect("patched");
    for (number, (port, _)) in PORTS.iter().enumerate() {
        endpoint(rig, number, *port, number == 0);
    }
}

fn endpoint(rig: &Rig, number: usize, port: u16, serves: bool) {
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "name": format!("replica-{number}"), "namespace": "gpushare-system",
            "labels": {"kubernetes.io/service-name": ACCOUNT},
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": [NODE_IP], "conditions": {"ready": serves}}],
        "ports": [{"name": "webhook", "port": port}],
    });
    rig.apply(&slice.to_string()).expect("applied");
}

/// A pod with one container `c` with these limits.
pub fn pod(name: &str, limits: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [container("c", limits)]},
    })
}

/// A container that never runs.
pub fn container(name: &str, limits: &Value) -> Value {
    json!({"name": name, "image": "gpushare.test/none:1", "resources": {"limits": limits}})
}

/// A workload that creates pods from a template.
pub fn workload(api_version: &str, kind: &str, template: &Value) -> Value {
    let mut template = template.clone();
    template["metadata"] = json!({"labels": {"app": "w"}});
    let selector = json!({"matchLabels": {"app": "w"}});
    let spec = match kind {
        "Job" => {
            template["spec"]["restartPolicy"] = json!("Never");
            json!({"template": template})
        }
        "CronJob" => {
            template["spec"]["restartPolicy"] = json!("Never");
            json!({"schedule": "0 0 1 1 *", "jobTemplate": {"spec": {"template": template}}})
        }
        "StatefulSet" => json!({"serviceName": "w", "selector": selector, "template": template}),
        _ => json!({"selector": selector, "template": template}),
    };
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "w"}, "spec": spec})
}
