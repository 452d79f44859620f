//! Panics in the logs of our parts. Some panics end only one task, and the part continues.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The text with which Rust reports a panic.
const ANNOUNCED: &str = "panicked at";

#[derive(Debug)]
pub(super) struct Panics {
    directory: PathBuf,
    /// The length of each log at the beginning: the directory may hold logs of an earlier run with the same name.
    before: BTreeMap<PathBuf, usize>,
}

impl Panics {
    /// Finds panics that are logged in this directory from now on.
    pub(super) fn from_now_on(directory: PathBuf) -> Self {
        let logs = logs(&directory).unwrap_or_default().into_iter();
        Self {
            before: logs.map(|(file, text)| (file, text.len())).collect(),
            directory,
        }
    }

    /// One sentence for each panic.
    pub(super) fn found(&self) -> Result<Vec<String>> {
        let mut found = Vec::new();
        for (file, text) in logs(&self.directory)? {
            let before = self.before.get(&file).copied().unwrap_or_default();
            let new = String::from_utf8_lossy(text.get(before..).unwrap_or_default()).into_owned();
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            let mut lines = new.lines();
            while let Some(line) = lines.next() {
                if line.contains(ANNOUNCED) {
                    // The next line has the reason.
                    let reason = lines.next().unwrap_or_default();
                    found.push(format!("{name}: {line} {reason}"));
                }
            }
        }
        Ok(found)
    }
}

/// The logs of our parts.
fn logs(directory: &Path) -> Result<Vec<(PathBuf, Vec<u8>)>> {
    let unreadable = || format!("cannot read the logs in {}", directory.display());
    let mut logs = Vec::new();
    for entry in fs::read_dir(directory).with_context(unreadable)? {
        let entry = entry.with_context(unreadable)?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with("gpushare-") && name.ends_with(".log") {
            let text = fs::read(entry.path()).with_context(unreadable)?;
            logs.push((entry.path(), text));
        }
    }
    Ok(logs)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PANIC: &str =
        "INFO begins\nthread 'main' panicked at src/a.rs:1:2:\nno card\nINFO ends\n";

    #[test]
    fn a_panic_of_a_part_is_found_and_one_of_an_earlier_campaign_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("gpushare-node.log");
        fs::write(&log, PANIC).unwrap();
        fs::write(directory.path().join("kubelet.log"), PANIC).unwrap();
        let panics = Panics::from_now_on(directory.path().to_owned());
        assert_eq!(panics.found().unwrap(), [""; 0]);
        fs::write(&log, format!("{PANIC}{PANIC}")).unwrap();
        assert_eq!(
            panics.found().unwrap(),
            ["gpushare-node.log: thread 'main' panicked at src/a.rs:1:2: no card"]
        );
    }
}
