//! Where Chromium comes from: Debian's packages, unpacked into the cache, not installed.

use std::env::consts::ARCH;
use std::env::{self, join_paths};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use gpushare_rig::apt::{Apt, find_program};
use gpushare_rig::cache::{self, Lock};

/// Names a Chromium to use instead.
const GIVEN: &str = "GPUSHARE_CHROMIUM";
/// The browser without a window system.
const PACKAGE: &str = "chromium-headless-shell";
/// The browser, and packages that it needs besides the libraries.
const BESIDE: [&str; 5] = [
    PACKAGE,
    "chromium-common",
    "fonts-dejavu-core",
    "fonts-liberation",
    "zlib1g",
];

/// A Chromium and what it needs to run.
#[derive(Clone, Debug)]
pub struct Chromium {
    pub(crate) program: PathBuf,
    /// The unpacked packages; `None` for an installed Chromium.
    files: Option<PathBuf>,
}

impl Chromium {
    /// The one that the environment names, or Debian's, fetched the first time.
    pub fn find() -> Result<Self> {
        if let Some(given) = env::var_os(GIVEN) {
            return Ok(Self {
                program: given.into(),
                files: None,
            });
        }
        let files = fetched()?;
        Ok(Self {
            program: find_program(&files.join("usr/lib"), PACKAGE)?,
            files: Some(files),
        })
    }

    /// Lets the program find its libraries and fonts.
    pub(crate) fn environment(&self, command: &mut Command, profile: &Path) -> Result<()> {
        command.env("HOME", profile);
        let Some(files) = &self.files else {
            return Ok(());
        };
        let machine = format!("{ARCH}-linux-gnu");
        let libraries = files.join("usr/lib").join(&machine);
        let libraries = [
            libraries.join("pulseaudio"),
            libraries,
            files.join("lib").join(&machine),
        ];
        command.env("LD_LIBRARY_PATH", join_paths(libraries)?);
        let fonts = profile.join("fonts.conf");
        let text = format!(
            "<?xml version=\"1.0\"?>\n<!DOCTYPE fontconfig SYSTEM \"fonts.dtd\">\n<fontconfig>\n\
             <dir>{}</dir>\n<cachedir>{}</cachedir>\n</fontconfig>\n",
            files.join("usr/share/fonts").display(),
            profile.join("fonts").display()
        );
        fs::write(&fonts, text).context("cannot write the list of fonts")?;
        command.env("FONTCONFIG_FILE", fonts);
        Ok(())
    }
}

fn fetched() -> Result<PathBuf> {
    let dir = cache::root()?.join("chromium");
    let files = dir.join("files");
    let _lock = Lock::wait(&dir.join("lock"), || {
        eprintln!("waiting for another process that fetches Chromium");
    })?;
    if files.exists() {
        return Ok(files);
    }
    eprintln!("fetching Chromium from the machine's package mirrors (100 MB)");
    let apt = Apt::open(&dir.join("apt"), None)?;
    let mut packages = apt.with_dependencies(&[PACKAGE])?;
    packages.retain(|package| is_library(package));
    packages.extend(BESIDE.map(str::to_owned));
    let partial = dir.join("files.partial");
    if partial.exists() {
        fs::remove_dir_all(&partial).context("cannot remove an interrupted download")?;
    }
    fs::create_dir_all(&partial).context("cannot create the directory for Chromium")?;
    apt.unpack(&packages, &partial)?;
    fs::rename(&partial, &files).context("cannot move Chromium into place")?;
    Ok(files)
}

/// Whether a package is a library. Desktop libraries are excluded: they are alternatives that are not needed.
fn is_library(package: &str) -> bool {
    let desktops = ["libgtk", "libkf5", "libllvm", "libperl", "libqt"];
    package.starts_with("lib") && !desktops.iter().any(|name| package.starts_with(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_libraries_are_fetched_beside_the_browser() {
        let listed = ["adduser", "libnss3", "libqt5core5a", "perl", "libllvm15"];
        let kept: Vec<&str> = listed.into_iter().filter(|name| is_library(name)).collect();
        assert_eq!(kept, ["libnss3"]);
    }
}
