//! An input that broke a target, reported with how to continue from there.

use std::fmt;
use std::fs;
use std::path::PathBuf;

/// More would hide what is printed after it.
const SHOWN_BYTES: usize = 2000;

pub(super) struct Finding {
    pub(super) target: String,
    pub(super) complaint: String,
    pub(super) input: Option<PathBuf>,
    pub(super) log: PathBuf,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            target,
            complaint,
            input,
            log,
        } = self;
        writeln!(f, "{target}: BROKEN")?;
        writeln!(f, "{complaint}")?;
        let Some(input) = input else {
            return write!(f, "no input was kept; the log is {}", log.display());
        };
        let bytes = fs::read(input).unwrap_or_default();
        let shown = bytes.get(..SHOWN_BYTES).unwrap_or(&bytes);
        writeln!(
            f,
            "input, {} bytes: \"{}\"",
            bytes.len(),
            shown.escape_ascii()
        )?;
        let file = input.display();
        writeln!(
            f,
            "run it again:  cargo xtask fuzz {target} --replay {file}"
        )?;
        write!(
            f,
            "keep it as test:  cp {file} testing/fuzz/regressions/{target}/SAY-WHAT-IT-IS"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_shows_the_input_and_how_to_go_on() {
        let input = std::env::temp_dir().join(format!("gpushare-finding-{}", std::process::id()));
        fs::write(&input, b"1\xff\"").unwrap();
        let finding = Finding {
            target: "quantity".to_owned(),
            complaint: "panicked".to_owned(),
            input: Some(input.clone()),
            log: PathBuf::new(),
        };
        let told = finding.to_string();
        fs::remove_file(&input).unwrap();
        assert!(told.contains(r#"input, 3 bytes: "1\xff\"""#), "{told}");
        let again = format!("cargo xtask fuzz quantity --replay {}", input.display());
        assert!(told.contains(&again), "{told}");
    }
}
