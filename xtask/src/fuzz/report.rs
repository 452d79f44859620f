//! Summarizes libFuzzer's log in one line.

/// How much was tried: `NUMBER inputs in N s`.
pub(super) fn summary(log: &str) -> String {
    let done = log
        .lines()
        .rev()
        .find_map(|line| line.strip_prefix("Done "));
    let mut words = done.unwrap_or_default().split(' ');
    match (words.next(), words.nth(2)) {
        (Some(runs), Some(seconds)) if !runs.is_empty() => format!("{runs} inputs in {seconds} s"),
        _ => "ended without a summary".to_owned(),
    }
}

/// Why it stopped: the panic with its message, or libFuzzer's own finding (too slow, too large).
pub(super) fn complaint(log: &str) -> String {
    let mut lines = log.lines().skip_while(|line| !line.contains("panicked at"));
    let panic: Vec<&str> = lines
        .by_ref()
        .take_while(|line| !line.starts_with("note:") && !line.starts_with("=="))
        .collect();
    if !panic.is_empty() {
        return panic.join("\n").trim_end().to_owned();
    }
    let own = log.lines().find(|line| line.contains("ERROR: libFuzzer:"));
    let last = log.lines().rev().find(|line| !line.trim().is_empty());
    own.or(last).unwrap_or("no output").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_to_its_end_is_told_in_numbers() {
        let log = "#2\tINITED cov: 3\nDone 524448 runs in 6 second(s)\nstat::peak_rss_mb: 50\n";
        assert_eq!(summary(log), "524448 inputs in 6 s");
    }

    #[test]
    fn a_panic_is_told_with_its_message() {
        let log = "INFO: Seed: 1\n\nthread '<unnamed>' panicked at fuzz/src/x.rs:3:5:\n\
            it proves another pod\nnote: run with `RUST_BACKTRACE=1`\n==7== ERROR: libFuzzer: deadly signal\n";
        assert_eq!(
            complaint(log),
            "thread '<unnamed>' panicked at fuzz/src/x.rs:3:5:\nit proves another pod"
        );
    }

    #[test]
    fn an_input_that_is_too_slow_is_told_as_that() {
        let log = "ALARM\n==7== ERROR: libFuzzer: timeout after 11 seconds\nSUMMARY: libFuzzer: timeout\n";
        assert!(complaint(log).contains("timeout after 11 seconds"));
    }

    #[test]
    fn a_program_that_did_not_even_start_is_told_by_its_last_line() {
        assert_eq!(
            complaint("cannot open the library\n\n"),
            "cannot open the library"
        );
    }
}
