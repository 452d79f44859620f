//! Where PostgreSQL's programs come from: the machine, or Debian's packages, unpacked into the cache.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::process::geteuid;

use super::{Programs, copied, open_to_all};
use crate::apt::{Apt, find_program};
use crate::cache::{self, Lock};

/// The variable that names the directory of the programs to use.
const GIVEN: &str = "GPUSHARE_POSTGRES";
/// Where Debian installs them, by version.
const INSTALLED: &str = "/usr/lib/postgresql";

/// Finds the programs. If the server's user cannot reach the unpacked ones, copies them into `directory`.
pub(super) fn find(directory: &Path) -> Result<Programs> {
    if let Some(given) = env::var_os(GIVEN) {
        return Ok(Programs {
            directory: given.into(),
            libraries: None,
        });
    }
    if let Some(installed) = installed() {
        return Ok(Programs {
            directory: installed,
            libraries: None,
        });
    }
    let mut files = fetched()?;
    if geteuid().is_root() && !open_to_all(&files)? {
        files = copied(&files, directory)?;
    }
    let program = find_program(&files, "initdb")?;
    let library = find_library(&files)?;
    let parent = |path: &Path| path.parent().map(Path::to_owned);
    Ok(Programs {
        directory: parent(&program).context("initdb has no directory")?,
        libraries: parent(&library),
    })
}

fn installed() -> Option<PathBuf> {
    let versions = fs::read_dir(INSTALLED).ok()?;
    let programs = versions.filter_map(|version| Some(version.ok()?.path().join("bin")));
    let mut complete: Vec<PathBuf> = programs
        .filter(|programs| {
            ["initdb", "postgres"]
                .iter()
                .all(|name| programs.join(name).exists())
        })
        .collect();
    complete.sort();
    complete.pop()
}

/// The unpacked packages, fetched once for this machine.
fn fetched() -> Result<PathBuf> {
    let directory = cache::root()?.join("postgresql");
    let files = directory.join("files");
    let _lock = Lock::wait(&directory.join("lock"), || {
        eprintln!("waiting for another process that fetches PostgreSQL");
    })?;
    if files.exists() {
        return Ok(files);
    }
    eprintln!("fetching PostgreSQL from the machine's package mirrors");
    let apt = Apt::open(&directory.join("apt"), None)?;
    let mut packages = apt.with_dependencies(&["postgresql"])?;
    packages.retain(|package| needed(package));
    let partial = directory.join("files.partial");
    if partial.exists() {
        fs::remove_dir_all(&partial).context("cannot remove an interrupted download")?;
    }
    fs::create_dir_all(&partial).context("cannot create the directory for PostgreSQL")?;
    apt.unpack(&packages, &partial)?;
    fs::rename(&partial, &files).context("cannot move PostgreSQL into place")?;
    Ok(files)
}

/// Whether a package is a server of some version or a library. Leaves out what only sets a machine up (written in Perl)
/// and what compiles queries: hundreds of megabytes that our queries do not need.
fn needed(package: &str) -> bool {
    let server = package.strip_prefix("postgresql-");
    let library = package.starts_with("lib")
        && !["libllvm", "libperl"]
            .iter()
            .any(|other| package.starts_with(other))
        && !package.ends_with("-perl");
    library || server.is_some_and(|version| version.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The client library; all other libraries are beside it.
fn find_library(files: &Path) -> Result<PathBuf> {
    let machines = fs::read_dir(files.join("usr/lib")).context("cannot list the libraries")?;
    let mut libraries =
        machines.filter_map(|machine| Some(machine.ok()?.path().join("libpq.so.5")));
    libraries
        .find(|library| library.exists())
        .context("the unpacked packages have no libpq.so.5")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_server_and_its_libraries_are_fetched() {
        let listed = [
            "libicu72",
            "libjson-perl",
            "libllvm14",
            "libperl5.36",
            "libpq5",
            "perl-base",
            "postgresql",
            "postgresql-15",
            "postgresql-client-15",
            "postgresql-common",
        ];
        let kept: Vec<&str> = listed
            .into_iter()
            .filter(|package| needed(package))
            .collect();
        assert_eq!(kept, ["libicu72", "libpq5", "postgresql-15"]);
    }
}
