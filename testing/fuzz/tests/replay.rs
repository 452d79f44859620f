//! The kept inputs as ordinary tests: those to begin with, and those that once broke something.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use gpushare_fuzz::{TARGETS, Verdict};

fn kept(directory: &str, target: &str) -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join(directory)
        .join(target);
    let entries = fs::read_dir(&directory).into_iter().flatten();
    entries.flatten().map(|entry| entry.path()).collect()
}

#[test]
fn every_target_has_inputs_that_it_accepts_and_inputs_that_it_refuses() {
    for target in TARGETS {
        let verdicts: BTreeSet<Verdict> = kept("corpus", target.name)
            .iter()
            .map(|path| (target.check)(&fs::read(path).unwrap()))
            .collect();
        assert_eq!(verdicts.len(), 2, "{}: all are {verdicts:?}", target.name);
    }
}

#[test]
fn what_once_broke_a_target_does_not_break_it_again() {
    for target in TARGETS {
        for path in kept("regressions", target.name) {
            println!("{}", path.display());
            (target.check)(&fs::read(path).unwrap());
        }
    }
}

#[test]
fn kept_inputs_belong_to_a_target() {
    let names: BTreeSet<&str> = TARGETS.iter().map(|target| target.name).collect();
    for directory in ["corpus", "regressions"] {
        for path in kept(directory, "") {
            let name = path.file_name().unwrap().to_str().unwrap();
            assert!(names.contains(name), "{directory}/{name} is no target");
        }
    }
}
