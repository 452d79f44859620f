//! Builds programs from Go modules: a `go.mod` of ours requires one released module, then
//! `go build` builds its packages. Nothing is cloned, and only Go is needed.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::exec;
use crate::progress::Progress;

/// One Go module at one version and the programs wanted from it.
#[derive(Debug)]
pub(crate) struct GoModule {
    /// The common name; also the beginning of its cache directory's name.
    pub(crate) name: &'static str,
    /// The module's import path.
    pub(crate) path: &'static str,
    /// The released version, without the leading `v`.
    pub(crate) version: &'static str,
    /// The version of the sibling modules that the module's own `go.mod` takes from its source
    /// tree (`=> ./staging/…`). As a dependency of ours, the module needs their releases instead.
    pub(crate) staging: Option<String>,
    /// Values stamped into the programs, as `package.variable=value`.
    pub(crate) stamps: Vec<String>,
    /// The programs: file name and package.
    pub(crate) programs: &'static [(&'static str, &'static str)],
}

impl GoModule {
    /// Builds every program into `out`, one progress step each. Go's output goes to `log`.
    pub(crate) fn build(&self, out: &Path, log: &Path, progress: &mut Progress) -> Result<()> {
        let go = go()?;
        let sources = out.join("go.mod.d");
        fs::create_dir_all(&sources)
            .with_context(|| format!("cannot create {}", sources.display()))?;
        fs::write(sources.join("go.mod"), self.go_mod(&go, &sources)?)
            .with_context(|| format!("cannot write the go.mod of {}", self.name))?;
        let mut ldflags = String::from("-s -w");
        for stamp in &self.stamps {
            let _ = write!(ldflags, " -X {stamp}");
        }
        for (program, package) in self.programs {
            let label = format!("build {program} ({} {})", self.name, self.version);
            progress.step(&label, || {
                let mut build = go_command(&go, &sources);
                build.args(["build", "-trimpath", "-ldflags", &ldflags, "-o"]);
                build.arg(out.join(program)).arg(package);
                exec::logged(&mut build, log)
            })?;
        }
        fs::remove_dir_all(&sources).with_context(|| format!("cannot remove {}", sources.display()))
    }

    fn go_mod(&self, go: &Path, work: &Path) -> Result<String> {
        let mut download = go_command(go, work);
        download
            .args(["mod", "download", "-json"])
            .arg(format!("{}@v{}", self.path, self.version));
        let answer = exec::output(&mut download)
            .with_context(|| format!("cannot download {} {}", self.path, self.version))?;
        let answer: Value = serde_json::from_str(&answer).context("go mod download: no JSON")?;
        let Some(file) = answer.get("GoMod").and_then(Value::as_str) else {
            bail!(
                "go mod download of {} named no go.mod file: {answer}",
                self.path
            );
        };
        let upstream = fs::read_to_string(file).with_context(|| format!("cannot read {file}"))?;
        Ok(self.derive(&upstream))
    }

    /// Our `go.mod`, made from the module's own: same language version, same defaults.
    fn derive(&self, upstream: &str) -> String {
        let mut text = format!("module gpushare.io/cluster/{}\n\n", self.name);
        for line in upstream.lines() {
            if line.starts_with("go ") || line.starts_with("godebug ") {
                let _ = writeln!(text, "{line}");
            }
        }
        let _ = writeln!(text, "\nrequire {} v{}", self.path, self.version);
        if let Some(staging) = &self.staging {
            for line in upstream.lines() {
                if let Some((module, target)) = line.trim().split_once(" => ")
                    && target.starts_with("./staging/")
                {
                    let module = module.trim_start_matches("replace ");
                    let _ = writeln!(text, "replace {module} => {module} v{staging}");
                }
            }
        }
        text
    }
}

/// The Go command, also where its installer puts it without changing the search path.
pub(crate) fn go() -> Result<PathBuf> {
    if exec::installed("go") {
        return Ok(PathBuf::from("go"));
    }
    let usual = PathBuf::from("/usr/local/go/bin/go");
    if usual.is_file() {
        return Ok(usual);
    }
    bail!(
        "the program `go` is missing; Kubernetes is built with it: install Go 1.26 or newer and \
         put its bin directory into PATH"
    )
}

/// Go, independent of the caller's workspace and flags. No C compiler is used, so the programs are
/// static and run on any distribution.
fn go_command(go: &Path, work: &Path) -> Command {
    let mut command = Command::new(go);
    command.current_dir(work);
    command.env("CGO_ENABLED", "0").env("GOWORK", "off");
    command.env("GOFLAGS", "-mod=mod -buildvcs=false");
    command
        .env_remove("GOOS")
        .env_remove("GOARCH")
        .env_remove("GOEXPERIMENT");
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_go_mod_requires_the_module_and_the_released_siblings() {
        let module = GoModule {
            name: "kubernetes",
            path: "k8s.io/kubernetes",
            version: "1.36.4",
            staging: Some("0.36.4".into()),
            stamps: Vec::new(),
            programs: &[],
        };
        let upstream = "module k8s.io/kubernetes\n\ngo 1.26.0\n\ngodebug default=go1.26\n\n\
            require k8s.io/api v0.0.0\n\nreplace (\n\tk8s.io/api => ./staging/src/k8s.io/api\n)\n\
            replace example.org/other => ../elsewhere\n";
        assert_eq!(
            module.derive(upstream),
            "module gpushare.io/cluster/kubernetes\n\ngo 1.26.0\ngodebug default=go1.26\n\n\
             require k8s.io/kubernetes v1.36.4\nreplace k8s.io/api => k8s.io/api v0.36.4\n"
        );
    }
}
