//! Serves an embedded API server until interrupted: `cargo run -p gpushare-apiserver --example serve`, then
//! use the printed kubeconfig with kubectl.

use anyhow::Context;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let path = std::env::args()
        .nth(1)
        .context("usage: serve KUBECONFIG-TO-WRITE")?;
    let server = gpushare_apiserver::Server::start().await?;
    std::fs::write(&path, server.kubeconfig()).with_context(|| format!("cannot write {path}"))?;
    println!(
        "serving {}; try: kubectl --kubeconfig {path} get nodes",
        server.url()
    );
    tokio::signal::ctrl_c()
        .await
        .context("cannot wait for an interrupt")?;
    server.shutdown().await;
    Ok(())
}
