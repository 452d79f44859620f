//! A Python that has the package nvidia-ml-py: a real client for the fake driver.
//!
//! The machine's own Python gets a virtual environment in the cache. If there is no Python, or it cannot
//! make one, Python and pip are unpacked from Debian packages; nothing is installed.

use std::env::consts::ARCH;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use gpushare_rig::apt::Apt;
use gpushare_rig::cache::{self, Lock};

const PACKAGE: &str = "nvidia-ml-py";

/// Debian's Python and pip; the interpreter itself is in the minimal package.
const PACKAGES: [&str; 3] = ["python3-minimal", "python3", "python3-pip"];

/// The path of a Python that can `import pynvml`.
pub(crate) fn ensure() -> Result<PathBuf> {
    let dir = cache::root()?.join("python");
    let _lock = Lock::wait(&dir.join("lock"), || {
        eprintln!("waiting for another process");
    })?;
    let (environment, unpacked) = (dir.join("venv"), dir.join("unpacked"));
    let choices = [environment.join("bin/python"), unpacked.join("python")];
    if let Some(python) = choices.iter().find(|python| can_import(python)) {
        return Ok(python.clone());
    }
    let python = match virtual_environment(&environment) {
        Ok(python) => python,
        Err(error) => {
            println!("no virtual environment ({error:#}); taking Python from Debian packages");
            from_packages(&dir, &unpacked)?
        }
    };
    install(&python)?;
    ensure!(
        can_import(&python),
        "{} cannot import pynvml",
        python.display()
    );
    Ok(python)
}

fn can_import(python: &Path) -> bool {
    let output = Command::new(python).args(["-c", "import pynvml"]).output();
    output.is_ok_and(|output| output.status.success())
}

fn virtual_environment(dir: &Path) -> Result<PathBuf> {
    if dir.exists() {
        fs::remove_dir_all(dir).context("cannot remove the unusable environment")?;
    }
    output(Command::new("python3").args(["-m", "venv"]).arg(dir))?;
    Ok(dir.join("bin/python"))
}

/// Unpacks Python, its library and pip below `dir/files`, and writes a script that starts it with these paths.
fn from_packages(parent: &Path, dir: &Path) -> Result<PathBuf> {
    if dir.exists() {
        fs::remove_dir_all(dir).context("cannot remove the unusable Python")?;
    }
    let files = dir.join("files");
    fs::create_dir_all(&files).context("cannot create the directory for Python")?;
    let apt = Apt::open(&parent.join("apt"), None)?;
    apt.unpack(&apt.with_dependencies(&PACKAGES)?, &files)?;
    let script = dir.join("python");
    let text = format!(
        "#!/bin/sh\n\
         # Debian's Python, unpacked but not installed.\n\
         files={}\n\
         libraries=$files/usr/lib/{ARCH}-linux-gnu:$files/lib/{ARCH}-linux-gnu\n\
         export PYTHONHOME=$files/usr\n\
         export PYTHONPATH=$files/site:$files/usr/lib/python3/dist-packages\n\
         LD_LIBRARY_PATH=${{LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}}$libraries \\\n    \
         exec \"$files/usr/bin/python3\" \"$@\"\n",
        files.display()
    );
    fs::write(&script, text)
        .and_then(|()| fs::set_permissions(&script, fs::Permissions::from_mode(0o755)))
        .context("cannot write the script that starts Python")?;
    Ok(script)
}

fn install(python: &Path) -> Result<()> {
    let mut pip = Command::new(python);
    pip.args(["-m", "pip", "install", "--quiet", PACKAGE]);
    if python.ends_with("unpacked/python") {
        let site = python.with_file_name("files").join("site");
        pip.arg("--target").arg(site);
    }
    output(&mut pip)
        .with_context(|| format!("cannot install {PACKAGE} with pip"))
        .map(|_| ())
}

fn output(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .with_context(|| format!("cannot start {program}"))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{program} ended with {}: {}",
        output.status,
        stderr.trim()
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
