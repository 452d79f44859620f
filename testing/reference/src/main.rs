//! Writes the pages into a directory: `cargo xtask docs` calls it.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Parser;

/// Write docs/cli.md and the pages of docs/reference
#[derive(Parser)]
struct Arguments {
    /// The directory docs
    directory: PathBuf,
}

fn main() -> Result<()> {
    let directory = Arguments::parse().directory;
    for page in gpushare_reference::pages()? {
        let file = directory.join(page.file);
        std::fs::write(&file, page.text)
            .with_context(|| format!("cannot write {}", file.display()))?;
        println!("wrote {}", file.display());
    }
    Ok(())
}
