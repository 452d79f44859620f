//! The sandbox with a stock kubectl: what a user types works as on a real cluster.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may stop at the first surprise, and so may what it is made of"
)]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use e2e::{wait, world};
use gpushare_rig::Binaries;
use gpushare_testkit::assert_contains;
use serde_json::{Value, json};

/// A running sandbox, and kubectl for it. Killed when dropped.
struct Sandbox {
    child: Child,
    kubeconfig: String,
    kubectl: PathBuf,
    /// Holds everything that the sandbox writes.
    temporary: tempfile::TempDir,
}

impl Sandbox {
    fn start() -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let mut child = Command::new(world::binary("gpushare-sandbox"))
            .args(["--no-story", "--speed=20"])
            .env("TMPDIR", temporary.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let kubeconfig = lines.find_map(|line| {
            let line = line.unwrap();
            let (_, path) = line.split_once("KUBECONFIG=")?;
            Some(path.to_owned())
        });
        Self {
            child,
            kubeconfig: kubeconfig.unwrap(),
            kubectl: Binaries::ensure().unwrap().kubectl(),
            temporary,
        }
    }

    /// What kubectl prints for a command in which no word contains a space, or its error.
    fn try_kubectl(&self, command: &str) -> Result<String, String> {
        let output = Command::new(&self.kubectl)
            .args(command.split_whitespace())
            .env("KUBECONFIG", &self.kubeconfig)
            // kubectl keeps its discovery cache there.
            .env("HOME", self.temporary.path())
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() {
            Ok(text(&output.stdout))
        } else {
            Err(text(&output.stderr))
        }
    }

    fn kubectl(&self, command: &str) -> String {
        let printed = self.try_kubectl(command);
        printed.unwrap_or_else(|error| panic!("kubectl {command}: {error}"))
    }

    /// The error with which kubectl refuses a command.
    fn refusal(&self, command: &str) -> String {
        self.try_kubectl(command).unwrap_err()
    }

    fn apply(&self, manifest: &Path) -> String {
        self.kubectl(&format!("apply --filename {}", manifest.display()))
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        let _already_gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

fn manifest(name: &str) -> PathBuf {
    let manifests =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/sandbox/tests/manifests");
    manifests.join(format!("{name}.yaml"))
}

#[test]
fn stock_kubectl_lists_nodes_and_runs_a_manifest_of_each_dialect() {
    let sandbox = Sandbox::start();
    let nodes = sandbox.kubectl("get nodes --output=wide");
    assert!(nodes.starts_with("NAME "), "{nodes}");
    assert!(
        nodes.contains("a100-1") && nodes.contains(" Ready "),
        "{nodes}"
    );

    for (dialect, pod, variable) in [
        ("gpushare", "ours", "GPUSHARE_MEMORY_MIB=3072"),
        ("aliyun", "aliyun-0", "ALIYUN_COM_GPU_MEM_CONTAINER=3"),
        ("tencent", "tencent", "GPUSHARE_MEMORY_MIB=2560"),
        (
            "tencent-whole",
            "tencent-whole",
            "GPUSHARE_CORE_PERCENT=100",
        ),
        ("hami", "hami", "CUDA_DEVICE_MEMORY_LIMIT_0=3000m"),
        (
            "hami-part",
            "hami-part",
            "CUDA_DEVICE_MEMORY_LIMIT_1=40960m",
        ),
        ("gpusharing", "gpusharing", "GPUSHARE_CORE_PERCENT=30"),
    ] {
        let applied = sandbox.apply(&manifest(dialect));
        assert!(applied.contains("created"), "{applied}");
        // A workload's pod appears a moment later, and kubectl wait needs an existing pod.
        wait::until(pod, || sandbox.try_kubectl(&format!("get pod {pod}")));
        let ready = "--for=condition=Ready --timeout=120s";
        sandbox.kubectl(&format!("wait pod/{pod} {ready}"));
        let listed = sandbox.kubectl("get pods");
        let line = listed
            .lines()
            .find(|line| line.split_whitespace().next() == Some(pod))
            .unwrap();
        assert!(line.contains("Running"), "{line}");
        let log = sandbox.kubectl(&format!("logs {pod} --container=app"));
        assert!(log.contains(variable), "{log}");
    }

    let described = sandbox.kubectl("describe pod ours");
    assert_contains(&described, "Successfully assigned default/ours");
    let described = sandbox.kubectl("describe node t4-1");
    assert!(described.contains("aliyun.com/gpu-mem"), "{described}");

    let again = sandbox.kubectl("get pod ours --output=json");
    let again: Value = serde_json::from_str(&again).unwrap();
    assert!(again.pointer("/spec/nodeName").is_some(), "{again}");

    let path = manifest("gpushare");
    sandbox.kubectl(&format!("delete --filename {}", path.display()));
    let gone = sandbox.refusal("get pod ours");
    assert!(gone.contains("NotFound"), "{gone}");
}

#[test]
fn stock_kubectl_scales_watches_evicts_and_is_told_what_is_wrong() {
    let sandbox = Sandbox::start();
    let example =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/sandbox/stories/mine.yaml");
    sandbox.apply(&example);
    let rolled_out = "rollout status deployment/mine --timeout=120s";
    sandbox.kubectl(rolled_out);
    sandbox.kubectl("scale deployment mine --replicas=3");
    sandbox.kubectl(rolled_out);
    let pods = sandbox.kubectl("get pods --output=name");
    assert_eq!(pods.lines().count(), 3, "{pods}");

    let node = sandbox.kubectl("get pods --output=jsonpath={.items[0].spec.nodeName}");
    sandbox.kubectl(&format!("drain {node} --ignore-daemonsets --timeout=120s"));
    sandbox.kubectl(rolled_out);
    let moved = sandbox.kubectl("get pods --output=wide");
    assert!(!moved.contains(&node), "{moved}");

    let limits = json!({"tencent.com/vcuda-core": "150"});
    let container = json!({"name": "app", "image": "none", "resources": {"limits": limits}});
    let overrides = json!({"spec": {"containers": [container]}});
    let refused = sandbox.refusal(&format!("run odd --image=none --overrides={overrides}"));
    assert!(refused.contains("denied the request"), "{refused}");
    assert!(refused.contains("tencent.com/vcuda-core"), "{refused}");
    let events = sandbox.kubectl("events");
    assert!(events.contains("Scheduled"), "{events}");
    let kinds = sandbox.kubectl("api-resources");
    assert!(kinds.contains("gpubudgets"), "{kinds}");
}

#[test]
fn what_a_newcomer_types_first_works_or_says_why_not() {
    let sandbox = Sandbox::start();
    // These commands send protobuf and do not fall back to another format.
    for arguments in [
        "create namespace demo",
        "create deployment web --image=nginx --replicas=2 --port=80 -n demo",
        "expose deployment web --port=80 --target-port=http -n demo",
        "create job once --image=busybox -n demo -- sleep 5",
        "create cronjob often --image=busybox --schedule=@hourly -n demo -- sleep 5",
        "create configmap settings --from-literal=key=value -n demo",
        "create secret generic secret --from-literal=key=value -n demo",
        "create service clusterip plain --tcp=80:8080 -n demo",
        "create serviceaccount robot -n demo",
        "create token robot -n demo",
        "create quota limits --hard=pods=30 -n demo",
        "create priorityclass urgent --value=100",
        "create poddisruptionbudget keep --selector=app=web --min-available=1 -n demo",
        "run one --image=nginx -n demo",
        "set image deployment/web nginx=nginx:2 -n demo",
        "autoscale deployment web --max=3 --dry-run=client -n demo",
        "rollout restart deployment/web -n demo",
        "wait --for=condition=Ready pod/one --timeout=120s -n demo",
        "cluster-info",
        "auth whoami",
    ] {
        sandbox.kubectl(arguments);
    }
    sandbox.kubectl("rollout status deployment/web -n demo --timeout=120s");
    let all = sandbox.kubectl("get all -n demo");
    for line in [
        "deployment.apps/web",
        "pod/one",
        "service/web",
        "job.batch/once",
        "cronjob.batch/often",
    ] {
        assert!(all.contains(line), "{line} in {all}");
    }
    let secret = "get secret secret -n demo -o jsonpath={.data.key}";
    assert_eq!(sandbox.kubectl(secret), "dmFsdWU=");
    assert_eq!(sandbox.kubectl("auth can-i create pods").trim(), "yes");

    let budget = sandbox.kubectl("explain gpubudget.spec.period");
    assert!(budget.contains("DESCRIPTION"), "{budget}");
    let pod = sandbox.kubectl("explain pod");
    assert!(pod.contains("kubernetes.io/docs"), "{pod}");
    let unknown = sandbox.temporary.path().join("unknown.yaml");
    let widget = "{apiVersion: example.com/v1, kind: Widget, metadata: {name: w}}";
    std::fs::write(&unknown, widget).unwrap();
    let refused = sandbox.refusal(&format!("apply -f {}", unknown.display()));
    assert_contains(&refused, "no matches for kind \"Widget\"");
    for command in ["exec one -n demo -- ls", "port-forward pod/one :80 -n demo"] {
        let refused = sandbox.refusal(command);
        assert!(refused.contains("runs no containers"), "{refused}");
    }
}
