//! Every link inside the repository leads somewhere.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use crate::documents::{documents, root};

#[test]
fn every_relative_link_and_anchor_exists() {
    let all = documents();
    let anchors: BTreeMap<&str, Vec<String>> = all
        .iter()
        .map(|document| (document.name.as_str(), document.anchors()))
        .collect();
    let mut broken = Vec::new();
    let mut followed = 0;
    for document in &all {
        for (number, line) in document.prose() {
            for target in targets(line) {
                followed += 1;
                if let Err(why) = follow(&document.name, target, &anchors) {
                    broken.push(format!("{}:{number}: {target}: {why}", document.name));
                }
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    assert!(followed > 50, "only {followed} links were found");
}

/// The targets of links and pictures in a line, except other sites.
fn targets(line: &str) -> Vec<&str> {
    let in_text = line
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next());
    let in_tags = ["src=\"", "srcset=\""]
        .into_iter()
        .flat_map(|start| line.split(start).skip(1))
        .filter_map(|rest| rest.split('"').next());
    in_text
        .chain(in_tags)
        .filter(|target| !target.contains("://") && !target.starts_with("mailto:"))
        .collect()
}

fn follow(from: &str, target: &str, anchors: &BTreeMap<&str, Vec<String>>) -> Result<(), String> {
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let file = if path.is_empty() {
        from.to_owned()
    } else {
        beside(from, path)
    };
    if !root().join(&file).exists() {
        return Err("there is no such file".to_owned());
    }
    if anchor.is_empty() {
        return Ok(());
    }
    match anchors.get(file.as_str()) {
        None => Err("an anchor in what is no document".to_owned()),
        Some(there) if there.iter().any(|one| one == anchor) => Ok(()),
        Some(there) => Err(format!("no such heading, there are {}", there.join(", "))),
    }
}

/// The path of a link, from the root of the repository.
fn beside(from: &str, path: &str) -> String {
    let mut whole = PathBuf::new();
    for part in Path::new(from).parent().unwrap().join(path).components() {
        match part {
            Component::ParentDir => {
                whole.pop();
            }
            other => whole.push(other),
        }
    }
    whole.to_str().unwrap().to_owned()
}

#[test]
fn a_link_to_nowhere_is_found() {
    let anchors = BTreeMap::from([("docs/cli.md", vec!["one".to_owned()])]);
    assert!(follow("docs/cli.md", "#one", &anchors).is_ok());
    assert!(follow("docs/cli.md", "#two", &anchors).is_err());
    assert!(follow("docs/cli.md", "nowhere.md", &anchors).is_err());
    assert!(follow("docs/cli.md", "../README.md", &anchors).is_ok());
    assert_eq!(
        targets("see [a](b.md#c) and [d](https://e.f) ![g](h.png)"),
        ["b.md#c", "h.png"]
    );
}
