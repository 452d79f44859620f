//! Everything a cluster is made of, built or unpacked once into the cache.

use std::env::consts::ARCH;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::apt::{Apt, find_program};
use crate::cache::{self, Lock};
use crate::gobuild::GoModule;
use crate::progress::Progress;
use crate::versions::{self, CNI_PLUGINS, CONTAINERD, ETCD, KUBERNETES, RECIPE};
use crate::{exec, images};

/// Where the parts of a cluster are in the cache.
#[derive(Debug, Clone)]
pub struct Binaries {
    root: PathBuf,
}

/// Programs from Debian: the container runner, the packet filter tool and the small tools.
const DEBIAN_PACKAGES: [&str; 3] = ["runc", "nftables", "busybox-static"];

impl Binaries {
    /// Makes sure that everything is in the cache; builds what is missing, showing progress.
    ///
    /// Safe to call from several processes at once: one builds, the others wait for it.
    pub fn ensure() -> Result<Self> {
        let binaries = Self {
            root: cache::root()?.join("cluster"),
        };
        if binaries.missing().is_empty() {
            return Ok(binaries);
        }
        let _lock = Lock::wait(&binaries.root.join("build.lock"), || {
            eprintln!("another process is building the cluster binaries; waiting for it");
        })?;
        binaries.build()?;
        Ok(binaries)
    }

    /// Whether everything is in the cache, so that a cluster starts in seconds.
    pub fn in_cache() -> Result<bool> {
        let root = cache::root()?.join("cluster");
        Ok(Self { root }.missing().is_empty())
    }

    /// The directory with everything in it, as bound into the rig.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The directories with programs, relative to [`Self::root`], for a search path.
    pub(crate) fn program_dirs() -> Vec<String> {
        let mut dirs: Vec<String> = go_modules().iter().map(item).collect();
        dirs.push(format!("{}/bin", debian_item()));
        dirs
    }

    /// The directory of the network plugins, relative to [`Self::root`].
    pub(crate) fn cni_dir() -> String {
        item(&cni_plugins())
    }

    /// The image archive, relative to [`Self::root`].
    pub(crate) fn image_archive() -> String {
        format!("{}/images.tar", debian_item())
    }

    /// The path of kubectl.
    pub fn kubectl(&self) -> PathBuf {
        self.root.join(item(&kubernetes())).join("kubectl")
    }

    fn missing(&self) -> Vec<String> {
        let mut items: Vec<String> = go_modules().iter().map(item).collect();
        items.push(debian_item());
        items.retain(|item| !self.root.join(item).exists());
        items
    }

    fn build(&self) -> Result<()> {
        let missing = self.missing();
        let modules: Vec<GoModule> = go_modules()
            .into_iter()
            .filter(|module| missing.contains(&item(module)))
            .collect();
        let debian = missing.contains(&debian_item());
        let programs: usize = modules.iter().map(|module| module.programs.len()).sum();
        if programs > 0 {
            eprintln!(
                "Building Kubernetes {KUBERNETES} and its parts into {}: about 15 minutes on 2 \
                 cores, once.",
                self.root.display()
            );
        }
        let log = self.root.join("build.log");
        let mut progress = Progress::new(programs + usize::from(debian));
        // What can fail for lack of a mirror comes first: it takes only seconds.
        if debian {
            cache::fill_once(&self.root.join(debian_item()), |dir| {
                progress.step("unpack runc, nft and busybox", || self.unpack_debian(dir))
            })?;
        }
        for module in &modules {
            let dir = self.root.join(item(module));
            cache::fill_once(&dir, |dir| module.build(dir, &log, &mut progress))?;
        }
        Ok(())
    }

    fn unpack_debian(&self, dir: &Path) -> Result<()> {
        let (files, bin) = (dir.join("files"), dir.join("bin"));
        for empty in [&files, &bin] {
            if empty.exists() {
                fs::remove_dir_all(empty)
                    .with_context(|| format!("cannot empty {}", empty.display()))?;
            }
            fs::create_dir_all(empty)
                .with_context(|| format!("cannot create {}", empty.display()))?;
        }
        let apt = Apt::open(&self.root.join("apt"), None)?;
        apt.unpack(&apt.with_dependencies(&DEBIAN_PACKAGES)?, &files)?;

        link_program(dir, "busybox")?;
        link_program(dir, "runc")?;
        wrap_with_libraries(dir, "nft")?;
        for program in ["runc", "nft"] {
            exec::output(Command::new(bin.join(program)).arg("--version"))
                .with_context(|| format!("Debian's {program} does not run on this machine"))?;
        }

        let busybox = bin.join("busybox");
        let applets = exec::output(Command::new(&busybox).arg("--list"))?;
        let applets: Vec<&str> = applets.lines().collect();
        let program = fs::read(&busybox).context("cannot read busybox")?;
        fs::write(dir.join("images.tar"), images::archive(&program, &applets)?)
            .context("cannot write the image archive")
    }
}

/// `bin/NAME` as a relative link, so that the directory may be renamed and bound elsewhere.
fn link_program(dir: &Path, name: &str) -> Result<()> {
    let program = find_program(&dir.join("files"), name)?;
    let relative = program
        .strip_prefix(dir)
        .context("found outside of the unpacked files")?;
    symlink(Path::new("..").join(relative), dir.join("bin").join(name))
        .with_context(|| format!("cannot link {}", program.display()))
}

/// `bin/NAME` as a script that starts the program with the libraries unpacked beside it.
fn wrap_with_libraries(dir: &Path, name: &str) -> Result<()> {
    let program = find_program(&dir.join("files"), name)?;
    let relative = program
        .strip_prefix(dir)
        .context("found outside of the unpacked files")?;
    let script = format!(
        "#!/bin/sh\n\
         # Debian's {name} with the libraries that came with it.\n\
         here=$(dirname \"$0\")/..\n\
         libraries=$here/files/usr/lib/{ARCH}-linux-gnu:$here/files/lib/{ARCH}-linux-gnu\n\
         LD_LIBRARY_PATH=$libraries exec \"$here/{}\" \"$@\"\n",
        relative.display(),
    );
    let wrapper = dir.join("bin").join(name);
    fs::write(&wrapper, script)
        .and_then(|()| fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)))
        .with_context(|| format!("cannot write {}", wrapper.display()))
}

/// A module's directory name in the cache: it changes with the version and with our recipe.
fn item(module: &GoModule) -> String {
    format!("{}-{}-r{RECIPE}", module.name, module.version)
}

fn debian_item() -> String {
    format!("debian-r{RECIPE}")
}

fn go_modules() -> [GoModule; 4] {
    [etcd(), containerd(), cni_plugins(), kubernetes()]
}

fn kubernetes() -> GoModule {
    let mut stamps = Vec::new();
    for package in [
        "k8s.io/component-base/version",
        "k8s.io/client-go/pkg/version",
    ] {
        stamps.push(format!("{package}.gitVersion=v{KUBERNETES}"));
        stamps.push(format!("{package}.gitMajor=1"));
        stamps.push(format!(
            "{package}.gitMinor={}",
            versions::minor(KUBERNETES)
        ));
        stamps.push(format!("{package}.gitTreeState=clean"));
    }
    GoModule {
        name: "kubernetes",
        path: "k8s.io/kubernetes",
        version: KUBERNETES,
        staging: Some(versions::staging(KUBERNETES)),
        stamps,
        programs: &[
            ("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
            ("kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler"),
            (
                "kube-controller-manager",
                "k8s.io/kubernetes/cmd/kube-controller-manager",
            ),
            ("kubelet", "k8s.io/kubernetes/cmd/kubelet"),
            ("kube-proxy", "k8s.io/kubernetes/cmd/kube-proxy"),
            ("kubectl", "k8s.io/kubernetes/cmd/kubectl"),
        ],
    }
}

fn etcd() -> GoModule {
    GoModule {
        name: "etcd",
        path: "go.etcd.io/etcd/server/v3",
        version: ETCD,
        staging: None,
        stamps: Vec::new(),
        programs: &[("etcd", "go.etcd.io/etcd/server/v3")],
    }
}

fn containerd() -> GoModule {
    GoModule {
        name: "containerd",
        path: "github.com/containerd/containerd/v2",
        version: CONTAINERD,
        staging: None,
        stamps: vec![format!(
            "github.com/containerd/containerd/v2/version.Version=v{CONTAINERD}"
        )],
        programs: &[
            (
                "containerd",
                "github.com/containerd/containerd/v2/cmd/containerd",
            ),
            (
                "containerd-shim-runc-v2",
                "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
            ),
            ("ctr", "github.com/containerd/containerd/v2/cmd/ctr"),
        ],
    }
}

fn cni_plugins() -> GoModule {
    GoModule {
        name: "cni-plugins",
        path: "github.com/containernetworking/plugins",
        version: CNI_PLUGINS,
        staging: None,
        stamps: Vec::new(),
        programs: &[
            (
                "bridge",
                "github.com/containernetworking/plugins/plugins/main/bridge",
            ),
            (
                "loopback",
                "github.com/containernetworking/plugins/plugins/main/loopback",
            ),
            (
                "host-local",
                "github.com/containernetworking/plugins/plugins/ipam/host-local",
            ),
        ],
    }
}
