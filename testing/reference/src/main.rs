//! Writes the pages into a directory: `cargo xtask docs` calls it.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Parser;

/// Write the generated pages of docs/reference
#[derive(Parser)]
struct Arguments {
    /// Where to
    directory: PathBuf,
}

fn main() -> Result<()> {
    let directory = Arguments::parse().directory;
    std::fs::create_dir_all(&directory)
        .with_context(|| format!("cannot create {}", directory.display()))?;
    for page in gpushare_reference::pages()? {
        let file = directory.join(page.file);
        std::fs::write(&file, page.text)
            .with_context(|| format!("cannot write {}", file.display()))?;
        println!("wrote {}", file.display());
    }
    Ok(())
}
