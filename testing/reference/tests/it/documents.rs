//! The documents of the repository: their text, blocks of code and anchors.

use std::path::{Path, PathBuf};

/// A Markdown file.
pub(crate) struct Document {
    /// From the root of the repository, such as `docs/cli.md`.
    pub(crate) name: String,
    pub(crate) text: String,
}

/// A fenced block of code.
pub(crate) struct Block {
    /// Where it begins, such as `docs/cli.md:17`.
    pub(crate) place: String,
    pub(crate) language: String,
    pub(crate) text: String,
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The documents at the root, and everything below `docs`.
pub(crate) fn documents() -> Vec<Document> {
    let mut found = Vec::new();
    collect(&root(), "", &mut found);
    for directory in ["docs", "docs/reference"] {
        collect(
            &root().join(directory),
            &format!("{directory}/"),
            &mut found,
        );
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    assert!(found.len() > 15, "only {} documents", found.len());
    found
}

fn collect(directory: &Path, prefix: &str, found: &mut Vec<Document>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "md") {
            let name = path.file_name().unwrap().to_str().unwrap();
            found.push(Document {
                name: format!("{prefix}{name}"),
                text: std::fs::read_to_string(&path).unwrap(),
            });
        }
    }
}

impl Document {
    pub(crate) fn blocks(&self) -> Vec<Block> {
        let mut blocks: Vec<Block> = Vec::new();
        let mut inside = false;
        for (number, line) in self.text.lines().enumerate() {
            match line.trim_start().strip_prefix("```") {
                Some(_) if inside => inside = false,
                Some(language) => {
                    inside = true;
                    blocks.push(Block {
                        place: format!("{}:{}", self.name, number + 2),
                        language: language.to_owned(),
                        text: String::new(),
                    });
                }
                None if inside => {
                    let block = blocks.last_mut().unwrap();
                    block.text.push_str(line);
                    block.text.push('\n');
                }
                None => {}
            }
        }
        assert!(!inside, "{}: a block of code does not end", self.name);
        blocks
    }

    /// The lines outside of blocks of code, with their numbers.
    pub(crate) fn prose(&self) -> Vec<(usize, &str)> {
        let mut inside = false;
        let mut prose = Vec::new();
        for (number, line) in self.text.lines().enumerate() {
            if line.trim_start().starts_with("```") {
                inside = !inside;
            } else if !inside {
                prose.push((number + 1, line));
            }
        }
        prose
    }

    /// The anchors of its headings, as Markdown viewers generate them.
    pub(crate) fn anchors(&self) -> Vec<String> {
        let headings = self
            .prose()
            .into_iter()
            .filter_map(|(_, line)| line.strip_prefix('#'));
        headings
            .map(|heading| {
                let title = heading.trim_start_matches('#').trim().to_lowercase();
                let kept = title
                    .chars()
                    .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
                kept.map(|c| if c == ' ' { '-' } else { c }).collect()
            })
            .collect()
    }
}

/// Every piece of text that begins with `start` and continues with characters that `belongs` accepts.
pub(crate) fn mentions<'a>(
    text: &'a str,
    start: &str,
    belongs: impl Fn(char) -> bool,
) -> Vec<&'a str> {
    text.match_indices(start)
        .filter(|(at, _)| {
            let before = text[..*at].chars().next_back();
            before.is_none_or(|before| !before.is_alphanumeric() && !"-_./".contains(before))
        })
        .map(|(at, _)| {
            let rest = &text[at + start.len()..];
            let end = rest.find(|c| !belongs(c)).unwrap_or(rest.len());
            &text[at..at + start.len() + end]
        })
        .collect()
}
