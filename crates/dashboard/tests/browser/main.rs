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

use gpushare_browser::{Browser, Chromium, Look, Page, axe};
use serde_json::{Value, json};

use cluster::Cluster;

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
static AXE: LazyLock<String> = LazyLock::new(|| axe::script().unwrap());

/// A browser with one tab. The steps `until…` and `shows…` wait for what they name.
struct Window {
    page: Page,
    address: SocketAddr,
    scheme: &'static str,
    _browser: Browser,
}

impl Window {
    fn open(address: SocketAddr, look: Look) -> Self {
        let browser = Browser::start(&CHROMIUM).unwrap();
        let page = browser.open(look).unwrap();
        Self {
            page,
            address,
            scheme: if look.dark { "dark" } else { "light" },
            _browser: browser,
        }
    }

    /// A window for a dashboard of the cluster.
    fn on(cluster: &Cluster) -> Self {
        Self::open(cluster.dashboard(), LIGHT)
    }

    /// Goes to a place of the page and waits until it shows the text.
    #[track_caller]
    fn go(&self, place: &str, text: &str) {
        let url = format!("http://{}/{place}", self.address);
        self.page.go(&url).unwrap();
        self.shows(text);
        self.until_live();
    }

    #[track_caller]
    fn until(&self, expression: &str) {
        self.page.wait(expression).unwrap();
    }

    #[track_caller]
    fn until_live(&self) {
        self.until("document.getElementById('live').textContent === 'Live'");
    }

    #[track_caller]
    fn until_focus_is_on(&self, id: &str) {
        self.until(&format!("document.activeElement.id === '{id}'"));
    }

    #[track_caller]
    fn shows(&self, text: &str) {
        self.page.wait_for_text(text).unwrap();
    }

    #[track_caller]
    fn shows_the_view_of(&self, title: &str) {
        let title = json!(title);
        self.until(&format!(
            "document.querySelector('h1')?.textContent === {title}"
        ));
    }

    #[track_caller]
    fn eval(&self, expression: &str) -> Value {
        self.page.eval(expression).unwrap()
    }

    #[track_caller]
    fn click(&self, selector: &str) {
        self.eval(&format!("document.querySelector('{selector}').click()"));
    }

    #[track_caller]
    fn press(&self, key: &str) {
        self.page.press(key).unwrap();
    }

    /// Presses Tab until the expression is true, and this many times at the most.
    #[track_caller]
    fn tab_until(&self, expression: &str, most: usize) {
        for _ in 0..most {
            self.press("Tab");
            if self.eval(expression) == true {
                break;
            }
        }
        self.until(expression);
    }

    /// Types into what has the focus.
    #[track_caller]
    fn types(&self, text: &str) {
        self.page.type_text(text).unwrap();
    }

    /// Searches with the keyboard alone.
    #[track_caller]
    fn search(&self, text: &str) {
        self.press("/");
        self.until_focus_is_on("search");
        self.types(text);
    }

    /// Asserts that the accessibility check finds nothing on the page as it is now.
    #[track_caller]
    fn is_accessible(&self, when: &str) {
        let findings = axe::findings(&self.page, &AXE).unwrap();
        assert_eq!(findings, [""; 0], "{when}, {}", self.scheme);
    }
}
