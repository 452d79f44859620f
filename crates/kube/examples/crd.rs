//! Writes the custom resource definitions as `deploy/crd.yaml` has them:
//! `cargo run -p gpushare-kube --example crd > deploy/crd.yaml`.

use std::io::{self, Write};

use gpushare_kube::gpu_budget::GpuBudget;
use kube::CustomResourceExt;

const HEADING: &str = "# Generated: cargo run -p gpushare-kube --example crd > deploy/crd.yaml\n";

fn main() -> io::Result<()> {
    let yaml = serde_saphyr::to_string(&GpuBudget::crd()).map_err(io::Error::other)?;
    io::stdout().write_all(format!("{HEADING}{yaml}").as_bytes())
}
