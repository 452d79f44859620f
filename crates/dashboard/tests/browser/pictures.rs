//! Pictures of every view, to be looked at, and for the README. `cargo xtask dashboard --screenshots DIR` keeps them.

use std::env;
use std::fs;
use std::path::PathBuf;

use crate::cluster::Cluster;
use crate::views::VIEWS;
use crate::{DARK, LIGHT, Window, demo};

/// Names the directory that pictures are kept in.
const KEPT: &str = "GPUSHARE_SCREENSHOTS";

#[tokio::test(flavor = "multi_thread")]
async fn pictures_of_every_view_can_be_taken() {
    let scratch = tempfile::tempdir().unwrap();
    let kept = env::var_os(KEPT).map(PathBuf::from);
    let directory = kept.unwrap_or_else(|| scratch.path().to_owned());
    fs::create_dir_all(&directory).unwrap();
    let cluster = Cluster::start().await;
    // It looks on while the cluster fills, so that there is a curve to see.
    let address = cluster.dashboard();
    demo::populate(&cluster).await;
    for look in [LIGHT, DARK] {
        let window = Window::open(address, look);
        // A curve needs a few samples.
        window.go("#/", "Packing over time");
        let points = "(document.querySelector('.curve')?.getAttribute('points') ?? '').split(' ').length > 4";
        window.page.wait(points).unwrap();
        for (place, text) in VIEWS {
            window.go(place, text);
            let view = place.trim_start_matches("#/").split('/').next().unwrap();
            let view = match (view, place.matches('/').count()) {
                ("", _) => "overview",
                ("nodes", 2) => "node",
                ("pods", _) => "pod",
                (view, _) => view,
            };
            let scheme = if look.dark { "dark" } else { "light" };
            let file = directory.join(format!("{view}-{scheme}.png"));
            window.page.screenshot(&file).unwrap();
            let png = fs::read(&file).unwrap();
            assert!(
                png.starts_with(b"\x89PNG") && png.len() > 20_000,
                "{}",
                file.display()
            );
        }
    }
}
