//! The machine's apt sources, read and rewritten: only those of the machine's own release, with
//! other components where wanted. Knows both formats, one-line and deb822.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

/// The sources as files for a `sources.list.d` directory: name and text.
pub(crate) fn of_this_machine(component: Option<&str>) -> Result<Vec<(String, String)>> {
    let codename = codename()?;
    let mut files = Vec::new();
    let mut paths = vec![Path::new("/etc/apt/sources.list").to_owned()];
    if let Ok(entries) = fs::read_dir("/etc/apt/sources.list.d") {
        paths.extend(entries.flatten().map(|entry| entry.path()));
    }
    paths.sort();
    for path in paths {
        let Ok(text) = fs::read_to_string(&path) else {
            continue;
        };
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
            continue;
        };
        // The name can stay: it ends in `.list` or `.sources`, as apt expects in a `sources.list.d` directory.
        let deb822 = path
            .extension()
            .is_some_and(|extension| extension == "sources");
        let derived = if deb822 {
            stanzas(&text, &codename, component)
        } else {
            one_liners(&text, &codename, component)
        };
        if !derived.is_empty() {
            files.push((name.to_owned(), derived));
        }
    }
    if files.is_empty() {
        bail!("/etc/apt names no package source for this machine's release, {codename}");
    }
    Ok(files)
}

fn codename() -> Result<String> {
    let text = fs::read_to_string("/etc/os-release").context("cannot read /etc/os-release")?;
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    match value {
        Some(name) => Ok(name.trim_matches('"').to_owned()),
        None => bail!("/etc/os-release has no VERSION_CODENAME; a Debian release is needed here"),
    }
}

/// Whether a suite is the release itself or one of its pockets (`-updates`, `-security`).
fn of_release(suite: &str, codename: &str) -> bool {
    suite
        .strip_prefix(codename)
        .is_some_and(|pocket| pocket.is_empty() || pocket.starts_with('-'))
}

fn one_liners(text: &str, codename: &str, component: Option<&str>) -> String {
    text.lines()
        .filter_map(|line| one_liner(line.trim(), codename, component))
        .collect()
}

fn one_liner(line: &str, codename: &str, component: Option<&str>) -> Option<String> {
    let rest = line.strip_prefix("deb ")?.trim_start();
    let (options, rest) = match rest
        .strip_prefix('[')
        .and_then(|inner| inner.split_once(']'))
    {
        Some((options, rest)) => (format!("[{options}] "), rest),
        None => (String::new(), rest),
    };
    let mut words = rest.split_whitespace();
    let (uri, suite) = (words.next()?, words.next()?);
    if !of_release(suite, codename) {
        return None;
    }
    let configured = words.collect::<Vec<_>>().join(" ");
    let components = component.unwrap_or(&configured);
    Some(format!("deb {options}{uri} {suite} {components}\n"))
}

fn stanzas(text: &str, codename: &str, component: Option<&str>) -> String {
    text.split("\n\n")
        .filter_map(|stanza| self::stanza(stanza, codename, component))
        .collect()
}

fn stanza(text: &str, codename: &str, component: Option<&str>) -> Option<String> {
    let mut derived = String::new();
    let mut ours = false;
    for line in text
        .lines()
        .filter(|line| !line.starts_with('#') && !line.trim().is_empty())
    {
        let (key, value) = line.split_once(':').unwrap_or((line, ""));
        match (key.to_ascii_lowercase().as_str(), component) {
            ("enabled", _) if value.trim().eq_ignore_ascii_case("no") => return None,
            ("types", _) => derived.push_str("Types: deb\n"),
            ("suites", _) => {
                let suites: Vec<&str> = value
                    .split_whitespace()
                    .filter(|suite| of_release(suite, codename))
                    .collect();
                ours = !suites.is_empty();
                let _ = writeln!(derived, "Suites: {}", suites.join(" "));
            }
            ("components", Some(component)) => {
                let _ = writeln!(derived, "Components: {component}");
            }
            _ => {
                let _ = writeln!(derived, "{line}");
            }
        }
    }
    ours.then(|| derived + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_sources_keep_options_and_take_the_wanted_component() {
        let text = "# a comment\ndeb [signed-by=/k.gpg] http://mirror/debian bookworm main contrib\n\
            deb-src http://mirror/debian bookworm main\ndeb http://vendor/apt vendor-bookworm main\n";
        assert_eq!(
            one_liners(text, "bookworm", Some("non-free")),
            "deb [signed-by=/k.gpg] http://mirror/debian bookworm non-free\n"
        );
        assert_eq!(
            one_liners(text, "bookworm", None),
            "deb [signed-by=/k.gpg] http://mirror/debian bookworm main contrib\n"
        );
    }

    #[test]
    fn deb822_sources_of_other_vendors_and_disabled_ones_are_left_out() {
        let text = "Types: deb deb-src\n# note\nURIs: http://mirror/debian\n\
            Suites: bookworm bookworm-updates trixie\nComponents: main\nSigned-By: /k.gpg\n\n\
            Types: deb\nURIs: http://vendor/node\nSuites: nodistro\nComponents: main\n\n\
            Enabled: no\nTypes: deb\nURIs: http://mirror/x\nSuites: bookworm\nComponents: main\n";
        assert_eq!(
            stanzas(text, "bookworm", Some("non-free")),
            "Types: deb\nURIs: http://mirror/debian\nSuites: bookworm bookworm-updates\n\
             Components: non-free\nSigned-By: /k.gpg\n\n"
        );
    }
}
