//! The page's scripts are plain JavaScript with types in comments; the TypeScript compiler must accept them.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use gpushare_browser::npm;

const TYPESCRIPT: &str = "5.9.3";
const STRICT: &str = "--noEmit --checkJs --strict --noUncheckedIndexedAccess --target es2022 \
    --module es2022 --moduleResolution bundler --lib es2023,dom,dom.iterable";

#[test]
fn the_scripts_agree_with_the_types_in_their_comments() {
    let assets = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/assets"));
    let files = fs::read_dir(&assets)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let scripts: Vec<PathBuf> = files
        .filter(|file| file.extension().is_some_and(|kind| kind == "js"))
        .collect();
    assert!(scripts.len() > 10, "{scripts:?}");
    let compiler = npm::package("typescript", TYPESCRIPT).unwrap();
    let checked = Command::new("node")
        .arg(compiler.join("lib/tsc.js"))
        .args(STRICT.split(' '))
        .args(&scripts)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&checked.stdout);
    assert!(checked.status.success(), "{said}");
}
