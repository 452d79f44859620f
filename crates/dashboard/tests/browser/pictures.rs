//! Screenshots of every view, for review and for the README. `cargo xtask dashboard --screenshots DIR` keeps them.

use std::env;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use gpushare_browser::Look;

use crate::cluster::Cluster;
use crate::views::VIEWS;
use crate::{DARK, LIGHT, SMALL, Window, demo};

/// The environment variable with the directory in which screenshots are kept.
const KEPT: &str = "GPUSHARE_SCREENSHOTS";

const WIDE: Look = Look {
    width: 2200,
    height: 1300,
    dark: false,
};

fn kept() -> Option<PathBuf> {
    let directory = env::var_os(KEPT).map(PathBuf::from)?;
    fs::create_dir_all(&directory).unwrap();
    Some(directory)
}

/// Takes a screenshot if they are kept.
pub(crate) fn keep(window: &Window, name: &str) {
    if let Some(directory) = kept() {
        take(window, &directory, name);
    }
}

fn take(window: &Window, directory: &Path, name: &str) {
    let file = directory.join(format!("{name}.png"));
    window.page.screenshot(&file).unwrap();
    let png = fs::read(&file).unwrap();
    let drawn = png.starts_with(b"\x89PNG") && png.len() > 10_000;
    assert!(drawn, "{}", file.display());
}

fn every_view(address: SocketAddr, look: Look, size: &str, directory: &Path) {
    let window = Window::open(address, look);
    // A chart needs a few samples.
    window.go("#/", "Packing over time");
    let points =
        "(document.querySelector('.curve')?.getAttribute('points') ?? '').split(' ').length > 5";
    window.until(points);
    for (name, place, text) in VIEWS {
        window.go(place, text);
        take(
            &window,
            directory,
            &format!("{name}{size}-{}", window.scheme),
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pictures_of_every_view_can_be_taken() {
    let scratch = tempfile::tempdir().unwrap();
    let cluster = Cluster::start().await;
    // The dashboard runs while the cluster fills, so that the chart shows a change.
    let address = cluster.dashboard();
    demo::populate(&cluster).await;
    let kept = kept();
    let directory = kept.as_deref().unwrap_or(scratch.path());
    for look in [LIGHT, DARK] {
        every_view(address, look, "", directory);
    }
    // These are for people; other tests check what can be checked automatically.
    if kept.is_some() {
        for dark in [false, true] {
            every_view(address, Look { dark, ..SMALL }, "-small", directory);
        }
        every_view(address, WIDE, "-wide", directory);
    }
}
