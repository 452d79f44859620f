//! What a caller may choose about a rig.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Result, ensure};

/// How to start a rig. `Options::default()` is right for most tests.
#[derive(Debug, Clone)]
pub struct Options {
    /// A name of lower-case letters, digits and dashes; `None` gives one that is unique on the
    /// machine.
    pub name: Option<String>,
    /// YAML appended at the top level of the `KubeSchedulerConfiguration`, for example
    /// `extenders:`. `127.0.0.1` there is the rig's own loopback.
    pub scheduler_extra: String,
    /// How many pods the node takes.
    pub max_pods: u32,
    /// Further arguments of kube-apiserver, such as `--feature-gates=…`; no spaces in them.
    pub apiserver_extra: Vec<String>,
    /// Further arguments of kube-controller-manager, such as `--controllers=…`; no spaces in them.
    pub controllers_extra: Vec<String>,
    /// Where the components' logs go. They outlive the rig. `None` is a directory named after the
    /// rig in `$GPUSHARE_RIG_LOGS`, or else in the cache.
    pub log_dir: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            name: None,
            scheduler_extra: String::new(),
            max_pods: 250,
            apiserver_extra: Vec::new(),
            controllers_extra: Vec::new(),
            log_dir: None,
        }
    }
}

impl Options {
    /// The name to use: the chosen one if it is valid, or a new one.
    pub(crate) fn resolve_name(&self) -> Result<String> {
        static STARTED: AtomicU32 = AtomicU32::new(1);
        let Some(name) = &self.name else {
            let number = STARTED.fetch_add(1, Ordering::Relaxed);
            return Ok(format!("p{}-{number}", std::process::id()));
        };
        check_name(name)?;
        Ok(name.clone())
    }
}

/// Checks a name, which becomes part of paths, of a control group and of a host name.
pub fn check_name(name: &str) -> Result<()> {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    ensure!(
        !name.is_empty() && name.len() <= 40 && name.bytes().all(allowed),
        "{name:?} is no name for a cluster: use 1 to 40 lower-case letters, digits and dashes"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unnamed_rigs_get_different_names() {
        let options = Options::default();
        assert_ne!(
            options.resolve_name().unwrap(),
            options.resolve_name().unwrap()
        );
    }

    #[test]
    fn a_name_that_could_leave_its_directory_is_refused() {
        for name in ["", "..", "a/b", "A", "a b", &"x".repeat(41)] {
            assert!(check_name(name).is_err(), "{name:?} was accepted");
        }
        assert!(check_name("default-2").is_ok());
    }
}
