//! Debian packages without installing them: a private apt with its own lists and archives,
//! fed from the machine's own sources. Needs no root and changes nothing on the machine.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::exec;
use crate::sources;

/// Packages that every running Debian system has, and that must not be mixed with another copy.
const PRESENT: [&str; 4] = ["libc6", "libgcc-s1", "libcrypt1", "libseccomp2"];

/// A private apt directory.
#[derive(Debug)]
pub struct Apt {
    dir: PathBuf,
}

impl Apt {
    /// A private apt in `dir`, with the machine's sources for its own release, freshly updated.
    ///
    /// `component` replaces the components of the sources, e.g. by `non-free`; `None` leaves
    /// them as they are.
    pub fn open(dir: &Path, component: Option<&str>) -> Result<Self> {
        for tool in ["apt-get", "apt-cache", "dpkg-deb"] {
            ensure!(
                exec::installed(tool),
                "the program `{tool}` is missing: this step takes packages from Debian and needs \
                 a Debian or Ubuntu machine"
            );
        }
        for sub in ["parts", "lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(dir.join(sub))
                .with_context(|| format!("cannot create {}", dir.join(sub).display()))?;
        }
        let apt = Self {
            dir: dir.to_owned(),
        };
        for (name, text) in sources::of_this_machine(component)? {
            fs::write(dir.join("parts").join(&name), text)
                .with_context(|| format!("cannot write the package source {name}"))?;
        }
        exec::output(apt.command("apt-get").args(["--quiet=2", "update"]))
            .context("cannot read the package lists; is the package mirror reachable?")?;
        Ok(apt)
    }

    /// The packages themselves and everything they depend on, except what every system has.
    pub fn with_dependencies(&self, packages: &[&str]) -> Result<Vec<String>> {
        let mut depends = self.command("apt-cache");
        depends.args([
            "depends",
            "--recurse",
            "--no-pre-depends",
            "--no-recommends",
        ]);
        depends.args([
            "--no-suggests",
            "--no-conflicts",
            "--no-breaks",
            "--no-replaces",
        ]);
        depends.args(["--no-enhances"]).args(packages);
        let listing = exec::output(&mut depends)?;
        Ok(packages_in(&listing))
    }

    /// Downloads exactly these packages and unpacks their files into `into`.
    pub fn unpack<S: AsRef<str>>(&self, packages: &[S], into: &Path) -> Result<()> {
        let downloads = self.dir.join("downloads");
        if downloads.exists() {
            fs::remove_dir_all(&downloads)
                .with_context(|| format!("cannot empty {}", downloads.display()))?;
        }
        fs::create_dir_all(&downloads)
            .with_context(|| format!("cannot create {}", downloads.display()))?;
        let mut download = self.command("apt-get");
        download
            .args(["--quiet=2", "download"])
            .args(packages.iter().map(AsRef::as_ref));
        exec::output(download.current_dir(&downloads))?;
        let entries = fs::read_dir(&downloads)
            .with_context(|| format!("cannot list {}", downloads.display()))?;
        for entry in entries {
            let package = entry.context("cannot list the downloads")?.path();
            exec::output(
                Command::new("dpkg-deb")
                    .arg("--extract")
                    .arg(&package)
                    .arg(into),
            )?;
        }
        fs::remove_dir_all(&downloads)
            .with_context(|| format!("cannot remove {}", downloads.display()))
    }

    /// Whether the sources offer a package of that name.
    pub fn offers(&self, package: &str) -> bool {
        exec::output(
            self.command("apt-cache")
                .args(["show", "--no-all-versions", package]),
        )
        .is_ok_and(|text| !text.trim().is_empty())
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        for (option, value) in [
            ("Dir::Etc::sourcelist", "sources.list"),
            ("Dir::Etc::sourceparts", "parts"),
            ("Dir::State::lists", "lists"),
            ("Dir::Cache", "cache"),
        ] {
            command
                .arg("-o")
                .arg(format!("{option}={}", self.dir.join(value).display()));
        }
        // As root, apt would drop to a user who may not enter this directory.
        command
            .args(["-o", "APT::Sandbox::User=root"])
            .env("LC_ALL", "C");
        command
    }
}

/// The package names in the output of `apt-cache depends --recurse`: the unindented lines.
fn packages_in(listing: &str) -> Vec<String> {
    let mut packages: Vec<String> = listing
        .lines()
        .filter(|line| !line.starts_with([' ', '|', '<']) && !line.contains(':'))
        .map(str::trim)
        .filter(|name| !PRESENT.contains(name) && !name.starts_with("gcc-") && !name.is_empty())
        .map(str::to_owned)
        .collect();
    packages.sort();
    packages.dedup();
    packages
}

/// The executable file of that name below `dir`. Packages have others of the same name, such as
/// documentation.
pub fn find_program(dir: &Path, name: &str) -> Result<PathBuf> {
    let mut pending = vec![dir.to_owned()];
    while let Some(dir) = pending.pop() {
        let entries =
            fs::read_dir(&dir).with_context(|| format!("cannot list {}", dir.display()))?;
        for entry in entries {
            let entry = entry.with_context(|| format!("cannot list {}", dir.display()))?;
            let kind = entry
                .file_type()
                .with_context(|| format!("cannot examine {}", entry.path().display()))?;
            if kind.is_dir() {
                pending.push(entry.path());
            } else if kind.is_file() && entry.file_name() == name && executable(&entry) {
                return Ok(entry.path());
            }
        }
    }
    bail!(
        "the unpacked packages in {} have no program {name}",
        dir.display()
    )
}

fn executable(entry: &fs::DirEntry) -> bool {
    entry
        .metadata()
        .is_ok_and(|data| data.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_not_mistaken_for_documentation_of_the_same_name() {
        let dir = tempfile::tempdir().unwrap();
        for part in ["a-share", "bin", "z-share"] {
            fs::create_dir(dir.path().join(part)).unwrap();
            fs::write(dir.path().join(part).join("tool"), "").unwrap();
        }
        let program = dir.path().join("bin/tool");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(find_program(dir.path(), "tool").unwrap(), program);
    }

    #[test]
    fn dependencies_are_the_unindented_names_without_the_base_system() {
        let listing = "nftables\n  Depends: libc6\n |Depends: libedit2\n  Depends: <virtual>\n\
            libc6\nlibedit2\n<virtual>\ngcc-12-base\nlibmnl0:i386\nlibedit2\n";
        assert_eq!(packages_in(listing), ["libedit2", "nftables"]);
    }
}
