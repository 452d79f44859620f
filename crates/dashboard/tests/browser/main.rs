//! The dashboard in a real Chromium: what people see, type and press. `cargo xtask e2e` runs these.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "helpers of tests stop at the first surprise, as tests do"
)]

#[path = "../it/cluster.rs"]
mod cluster;
mod demo;
mod live;
mod login;
mod pictures;
#[path = "../it/reviews.rs"]
mod reviews;
mod scale;
mod types;
mod views;

use std::net::SocketAddr;
use std::sync::LazyLock;

use gpushare_browser::{Browser, Chromium, Look, Page};

const LIGHT: Look = Look {
    width: 1440,
    height: 900,
    dark: false,
};
const DARK: Look = Look {
    dark: true,
    ..LIGHT
};

/// A telephone.
const SMALL: Look = Look {
    width: 400,
    height: 850,
    ..LIGHT
};

/// Fetched once for all tests.
static CHROMIUM: LazyLock<Chromium> = LazyLock::new(|| Chromium::find().unwrap());

/// A browser with one tab.
struct Window {
    page: Page,
    address: SocketAddr,
    _browser: Browser,
}

impl Window {
    fn open(address: SocketAddr, look: Look) -> Self {
        let browser = Browser::start(&CHROMIUM).unwrap();
        let page = browser.open(look).unwrap();
        Self {
            page,
            address,
            _browser: browser,
        }
    }

    /// Goes to a place of the page and waits until it shows the text.
    fn go(&self, place: &str, text: &str) {
        let url = format!("http://{}/{place}", self.address);
        self.page.go(&url).unwrap();
        self.page.wait_for_text(text).unwrap();
        self.page
            .wait("document.getElementById('live').textContent === 'Live'")
            .unwrap();
    }
}
