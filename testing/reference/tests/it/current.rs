//! The generated pages agree with the programs.

use std::collections::BTreeSet;

use crate::documents::root;

#[test]
fn the_committed_reference_is_what_the_programs_say() {
    let pages = gpushare_reference::pages().unwrap();
    for page in &pages {
        let file = root().join(page.file);
        let committed = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(
            committed == page.text,
            "{} is out of date: run `cargo xtask docs`",
            page.file
        );
    }
    let of_reference = pages
        .iter()
        .filter_map(|page| page.file.strip_prefix("docs/reference/"));
    let expected: BTreeSet<String> = of_reference.map(str::to_owned).collect();
    let there: BTreeSet<String> = std::fs::read_dir(root().join("docs/reference"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(
        there, expected,
        "a page of docs/reference that nobody makes"
    );
}
