//! A real cluster with the real webhook: configured by the files of `deploy/`, and called by the API server over TLS
//! through the Service. Processes of the test serve it in place of the Deployment's pods.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use gpushare_rig::{NODE_IP, Options, Rig};
use kube::config::KubeConfigOptions;
use kube::{Client, Config};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::process::Process;
use crate::world::{binary, enter, install, kubeconfigs};
use crate::{http, wait};

pub(crate) const ACCOUNT: &str = "gpushare-webhook";
const SYSTEM: &str = "--namespace=gpushare-system";
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
pub struct Said {
    pub ok: bool,
    pub out: String,
    pub err: String,
}

impl Said {
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
        hook.arguments(&mut command, 0, flags);
        let log = hook.rig.logs().join("gpushare-webhook.log");
        hook.lasting = Some(Process::start("webhook", command, &log));
        hook.wait_ready(0);
        self
    }

    /// A replica with these extra flags, which the test can kill.
    pub fn replica(&self, number: usize, flags: &[&str]) -> Process {
        let mut command = enter(&self.rig, &binary("gpushare-control"));
        self.arguments(&mut command, number, flags);
        let log = self
            .rig
            .logs()
            .join(format!("gpushare-webhook-{number}.log"));
        Process::start("webhook", command, &log)
    }

    fn arguments(&self, command: &mut Command, number: usize, flags: &[&str]) {
        let (listen, admin) = PORTS[number];
        command
            .args(["webhook", "--listen", &format!("0.0.0.0:{listen}")])
            .args(["--admin-listen", &format!("127.0.0.1:{admin}")])
            .arg("--kubeconfig")
            .arg(self.directory.path().join(format!("{ACCOUNT}.kubeconfig")))
            .args(flags);
    }

    pub fn wait_ready(&self, number: usize) {
        wait::until_ready(&self.rig, "the webhook", &probes(number));
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
        let path = self.rig.kubeconfig();
        let kubeconfig = kube::config::Kubeconfig::read_from(path).expect("readable");
        let options = KubeConfigOptions::default();
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &options)
            .await
            .expect("usable");
        // No retries, because every single answer counts.
        config.default_retry = false;
        Client::try_from(config).expect("a client")
    }

    /// Creates a namespace for the test, in which the user `tenant` has the rights of an editor.
    pub fn namespace(&self) -> String {
        let number = self.namespaces.fetch_add(1, Ordering::Relaxed);
        let name = format!("team-{number}");
        self.rig
            .kubectl(&["create", "namespace", &name])
            .expect("created");
        let namespace = format!("--namespace={name}");
        let bind = [
            "create",
            "rolebinding",
            "tenant",
            "--clusterrole=edit",
            "--user=tenant",
        ];
        self.rig
            .kubectl(&[&bind[..], &[&namespace]].concat())
            .expect("bound");
        wait::until("the default account", || {
            self.rig
                .kubectl(&["get", "serviceaccount", "default", &namespace])
        });
        name
    }

    /// Creates a namespace with a budget, which is exhausted if `exhausted`.
    pub fn budgeted(&self, exhausted: bool) -> String {
        let name = self.namespace();
        let budget = json!({
            "apiVersion": "gpushare.io/v1alpha1", "kind": "GpuBudget", "metadata": {"name": name},
            "spec": {"amount": "20h", "namespaces": {"names": [name]}},
        });
        self.rig.apply(&budget.to_string()).expect("applied");
        self.exhaust(&name, exhausted);
        name
    }

    /// Sets a budget's status as the timekeeper would, and waits until the webhook has seen it.
    pub fn exhaust(&self, name: &str, exhausted: bool) {
        let status = json!({"status": {"exhausted": exhausted}}).to_string();
        let patch = [
            "patch",
            "gpubudget",
            name,
            "--subresource=status",
            "--type=merge",
            "-p",
            &status,
        ];
        self.rig.kubectl(&patch).expect("patched");
        let expected = if exhausted {
            "gpushare-over-budget"
        } else {
            "gpushare-in-budget"
        };
        let probe = pod("probe", &json!({"aliyun.com/gpu-mem": 1}));
        wait::until("the webhook to know the budget", || {
            let seen = self.dry_run(name, &probe).object();
            let class = seen["spec"]["priorityClassName"].clone();
            if class == expected {
                Ok(())
            } else {
                Err(class)
            }
        });
    }

    /// Runs kubectl as the administrator and returns everything that it prints.
    pub fn kubectl(&self, args: &[&str], input: Option<&Value>) -> Said {
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
        Said {
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
    pub fn create(&self, namespace: &str, object: &Value) -> Said {
        self.create_with(namespace, object, &[])
    }

    pub fn create_with(&self, namespace: &str, object: &Value, flags: &[&str]) -> Said {
        let namespace = format!("--namespace={namespace}");
        let create = ["create", "--output=json", "--filename=-", &namespace];
        self.kubectl(&[&create[..], flags].concat(), Some(object))
    }

    /// As `create`, but as a dry run on the server.
    pub fn dry_run(&self, namespace: &str, object: &Value) -> Said {
        self.create_with(namespace, object, &["--dry-run=server"])
    }

    pub fn pod(&self, namespace: &str, name: &str) -> Value {
        let namespace = format!("--namespace={namespace}");
        self.kubectl(&["get", "pod", name, &namespace, "--output=json"], None)
            .object()
    }
}

/// The Deployment's pods cannot start here because there is no image, so processes take their place.
pub(crate) fn lead_the_service_to_processes(rig: &Rig) {
    let scale = ["scale", "deployment", ACCOUNT, "--replicas=0", SYSTEM];
    rig.kubectl(&scale).expect("scaled");
    let patch = json!([{"op": "remove", "path": "/spec/selector"}]).to_string();
    let patch = [
        "patch",
        "service",
        ACCOUNT,
        SYSTEM,
        "--type=json",
        "-p",
        &patch,
    ];
    rig.kubectl(&patch).expect("patched");
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
