//! Writes the generated files: `cargo xtask docs` calls it.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Parser;

/// Write docs/cli.md, the pages of docs/reference and deploy/crd.yaml
#[derive(Parser)]
struct Arguments {
    /// The root of the repository
    root: PathBuf,
}

fn main() -> Result<()> {
    let root = Arguments::parse().root;
    for page in gpushare_reference::pages()? {
        let file = root.join(page.file);
        std::fs::write(&file, page.text)
            .with_context(|| format!("cannot write {}", file.display()))?;
        println!("wrote {}", file.display());
    }
    Ok(())
}
