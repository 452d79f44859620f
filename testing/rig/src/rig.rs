//! The handle of a running rig: what a test or a person does with it.

use std::ffi::OsStr;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command};
use std::thread;
use std::time::{Duration, Instant};
use std::{env, fs};

use anyhow::{Context, Result, bail, ensure};

use crate::binaries::Binaries;
use crate::bridge::Bridge;
use crate::config::{API_PORT, HOME, NODE_IP};
use crate::network::Network;
use crate::options::Options;
use crate::start::{self, Outcome};
use crate::{exec, host, images};

/// The components that can be stopped, started and restarted, by name.
pub const COMPONENTS: [&str; 7] = [
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kube-proxy",
    "kubelet",
    "containerd",
];

/// How long a component may take to go away or to come back.
const COMPONENT_DEADLINE: Duration = Duration::from_mins(1);

/// How long the supervisor may take to clean up.
const END_DEADLINE: Duration = Duration::from_mins(1);

/// A running Kubernetes cluster with one node. All of it is gone when this is dropped, and also when
/// this process ends in any other way.
#[derive(Debug)]
pub struct Rig {
    name: String,
    pid: i32,
    network: Network,
    binaries: Binaries,
    supervisor: Child,
    /// Closing it ends the rig; always present until then.
    lifeline: Option<ChildStdin>,
    outcome: Outcome,
    logs: PathBuf,
}

impl Rig {
    /// Starts a cluster and returns when pods can run in it.
    ///
    /// First builds the cluster's programs if they are missing, which takes minutes. An error names the
    /// component that failed and carries the end of its log.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "callers write the options in place"
    )]
    pub fn start(options: Options) -> Result<Self> {
        host::check()?;
        let name = options.resolve_name()?;
        let binaries = Binaries::ensure()?;
        let started = start::start(&name, &options, &binaries)?;
        Ok(Self {
            network: Network::of(started.pid)?,
            pid: started.pid,
            supervisor: started.supervisor,
            lifeline: Some(started.lifeline),
            outcome: started.outcome,
            logs: started.log_dir,
            name,
            binaries,
        })
    }

    /// The rig's name: its control group is `gpushare-rig-NAME`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The host's pid of the rig's init.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// The administrator's kubeconfig, readable from the host while the rig lives. Its server
    /// address is valid in the rig's network only.
    pub fn kubeconfig(&self) -> PathBuf {
        self.path(&format!("{HOME}/admin.kubeconfig"))
    }

    /// The host's path of a file inside, such as `/var/lib/kubelet/device-plugins/kubelet.sock`.
    ///
    /// `/var/run` is an absolute link, which the host would follow to its own `/run`; it is
    /// therefore replaced here.
    pub fn path(&self, inside: &str) -> PathBuf {
        let inside = match inside.strip_prefix("/var/run") {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("/run{rest}"),
            _ => inside.to_owned(),
        };
        PathBuf::from(format!("/proc/{}/root", self.pid)).join(inside.trim_start_matches('/'))
    }

    /// A program in all namespaces of the rig: it sees the rig's files, processes and network, and
    /// dies with the rig. Its working directory is `/`.
    pub fn inside(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = self.enter(&["--mount", "--net", "--pid", "--ipc", "--uts"], program);
        let dirs = Binaries::program_dirs();
        let own = dirs
            .iter()
            .map(|dir| PathBuf::from(format!("{HOME}/cluster/{dir}")));
        command.env("PATH", search_path(own));
        command.env("KUBECONFIG", format!("{HOME}/admin.kubeconfig"));
        command
    }

    /// A program with the host's files and processes but in the rig's network, with `KUBECONFIG`
    /// set and kubectl in its `PATH`. It does not die with the rig: wait for it or kill it.
    pub fn net(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = self.enter(&["--net"], program);
        let dirs = Binaries::program_dirs();
        command.env(
            "PATH",
            search_path(dirs.iter().map(|dir| self.binaries.root().join(dir))),
        );
        command.env("KUBECONFIG", self.kubeconfig());
        command
    }

    fn enter(&self, namespaces: &[&str], program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command
            .arg("--target")
            .arg(self.pid.to_string())
            .args(namespaces)
            .arg("--");
        command.arg(program);
        command
    }

    /// Runs kubectl as the administrator and returns what it prints.
    pub fn kubectl(&self, args: &[&str]) -> Result<String> {
        exec::output(self.net("kubectl").args(args)).with_context(|| self.condition())
    }

    /// Creates or changes the objects in `yaml` with `kubectl apply`.
    pub fn apply(&self, yaml: &str) -> Result<String> {
        let mut command = self.net("kubectl");
        exec::output_with_input(command.args(["apply", "--filename", "-"]), Some(yaml))
            .with_context(|| self.condition())
    }

    /// Adds an image of the program at `path` to the runtime, under a name such as
    /// `gpushare.test/thing:1`. Pods say `imagePullPolicy: Never` or `IfNotPresent`.
    pub fn add_image(&self, name: &str, path: &Path) -> Result<()> {
        let archive = tempfile::NamedTempFile::new().context("cannot make a file for an image")?;
        fs::write(archive.path(), images::of_program(name, path)?)
            .with_context(|| format!("cannot write the image {name}"))?;
        let mut import = self.inside("ctr");
        import.args([
            "--address",
            "/run/containerd/containerd.sock",
            "--namespace",
            "k8s.io",
        ]);
        import
            .args(["images", "import", "--local"])
            .arg(archive.path());
        exec::output(&mut import).with_context(|| self.condition())?;
        Ok(())
    }

    /// Runs a future on a runtime all of whose threads are in the rig's network, so that any
    /// client in it reaches the API server and Services.
    pub fn run<F, T>(&self, f: impl FnOnce() -> F + Send) -> T
    where
        F: Future<Output = T>,
        T: Send,
    {
        self.network.run(f)
    }

    /// The rig's network, for threads of the caller.
    pub fn network(&self) -> Network {
        self.network.clone()
    }

    /// Kills a component and lets it come up again; returns when the new process runs, which is
    /// before it is ready. Names are those of [`COMPONENTS`]; `kube-` may be left out.
    pub fn restart(&self, component: &str) -> Result<()> {
        self.stop_component(component)?;
        self.start_component(component)
    }

    /// Kills a component and keeps it down until [`Self::start_component`].
    pub fn stop_component(&self, component: &str) -> Result<()> {
        let component = component_name(component)?;
        let hold = self.path(&format!("{HOME}/hold/{component}"));
        fs::write(&hold, "")
            .with_context(|| format!("cannot hold {component}: {}", self.condition()))?;
        let confirmed = self.path(&format!("{HOME}/held/{component}"));
        let deadline = Instant::now() + COMPONENT_DEADLINE;
        // Repeated: the component may just be restarting, about to write its pid.
        while !confirmed.exists() {
            ensure!(
                Instant::now() < deadline,
                "{component} does not go away: {}",
                self.condition()
            );
            if let Some(pid) = self.component_pid(component) {
                let _ = self.inside("kill").args(["-KILL", &pid]).output();
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Starts a component that [`Self::stop_component`] stopped.
    pub fn start_component(&self, component: &str) -> Result<()> {
        let component = component_name(component)?;
        let hold = self.path(&format!("{HOME}/hold/{component}"));
        if hold.exists() {
            fs::remove_file(&hold).with_context(|| format!("cannot release {component}"))?;
        }
        let deadline = Instant::now() + COMPONENT_DEADLINE;
        while self.component_pid(component).is_none() {
            ensure!(
                Instant::now() < deadline,
                "{component} does not start: {}",
                self.condition()
            );
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// A component's pid as the rig sees it, while it runs.
    fn component_pid(&self, component: &str) -> Option<String> {
        let pid = fs::read_to_string(self.path(&format!("{HOME}/pids/{component}"))).ok()?;
        Some(pid.trim().to_owned()).filter(|pid| !pid.is_empty())
    }

    /// A port on the host's loopback that leads to the API server, for clients that cannot enter
    /// the rig's network. Open until the bridge is dropped.
    pub fn bridge(&self) -> Result<Bridge> {
        Bridge::open(self.network.clone(), (NODE_IP, API_PORT))
    }

    /// The path of kubectl, for users outside the rig.
    pub fn kubectl_path(&self) -> PathBuf {
        self.binaries.kubectl()
    }

    /// The directory with one log per component. It outlives the rig.
    pub fn logs(&self) -> PathBuf {
        self.logs.clone()
    }

    /// Why the rig has ended, if it has.
    pub fn ended(&self) -> Option<String> {
        self.outcome.get()
    }

    /// Ends the rig and returns when nothing of it is left.
    pub fn stop(mut self) -> Result<()> {
        self.end()
    }

    fn condition(&self) -> String {
        match self.ended() {
            Some(reason) => format!("the rig {} has ended: {reason}", self.name),
            None => format!("in the rig {} (logs: {})", self.name, self.logs.display()),
        }
    }

    fn end(&mut self) -> Result<()> {
        drop(self.lifeline.take());
        let deadline = Instant::now() + END_DEADLINE;
        while self
            .supervisor
            .try_wait()
            .context("cannot wait for the supervisor")?
            .is_none()
        {
            if Instant::now() >= deadline {
                // Its death also ends the namespaces; a later sweep removes the rest.
                let _ = self.supervisor.kill();
                let _ = self.supervisor.wait();
                bail!("the rig {} did not end in time and was killed", self.name);
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            eprintln!("{error:#}");
        }
    }
}

fn component_name(name: &str) -> Result<&'static str> {
    let known = COMPONENTS.into_iter().find(|known| {
        *known == name
            || known
                .strip_prefix("kube-")
                .is_some_and(|short| short == name)
    });
    known.with_context(|| {
        format!(
            "no component {name:?}; there are: {}",
            COMPONENTS.join(", ")
        )
    })
}

fn search_path(own: impl Iterator<Item = PathBuf>) -> std::ffi::OsString {
    let rest = env::var_os("PATH").unwrap_or_default();
    let rest: Vec<PathBuf> = env::split_paths(&rest).collect();
    let system = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"].map(|dir| Path::new(dir).to_owned());
    env::join_paths(own.chain(rest).chain(system)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_are_known_by_their_full_and_short_names() {
        assert_eq!(component_name("kubelet").unwrap(), "kubelet");
        assert_eq!(component_name("scheduler").unwrap(), "kube-scheduler");
        let error = component_name("coredns").unwrap_err().to_string();
        assert!(error.contains("kube-apiserver"), "{error}");
    }
}
