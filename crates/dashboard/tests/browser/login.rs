//! Logging in and out, as people do it: with a mouse, with the keyboard alone, and through a link from elsewhere.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use gpushare_browser::Look;
use gpushare_daemon::tls::{Tls, TlsFiles};
use gpushare_dashboard::access::Access;
use serde_json::json;

use crate::cluster::{A100, Cluster};
use crate::reviews::reviews;
use crate::{DARK, LIGHT, Window, pictures};

/// A dashboard that the token `viewer` may view.
async fn guarded(tls: Option<Tls>) -> (Cluster, SocketAddr) {
    let cluster = Cluster::with_node("gpu-a", &[A100]).await;
    let access = Access::tokens(reviews(Arc::new(AtomicUsize::new(0))));
    let address = cluster.dashboard_over(tls, access);
    (cluster, address)
}

/// A certificate that only the test trusts.
fn certificate() -> Tls {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let issued = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    std::fs::write(path("tls.crt"), issued.cert.pem()).unwrap();
    std::fs::write(path("tls.key"), issued.signing_key.serialize_pem()).unwrap();
    let files = TlsFiles {
        certificate: path("tls.crt"),
        key: path("tls.key"),
        client_ca: None,
    };
    Tls::load(files).unwrap()
}

/// Opens a place without a session, which leads to the login page.
fn open(address: SocketAddr, scheme: &str, place: &str, look: Look) -> Window {
    let window = Window::open(address, look);
    let trust = json!({"ignore": true});
    let trusted = window
        .page
        .call("Security.setIgnoreCertificateErrors", &trust);
    trusted.unwrap();
    let url = format!("{scheme}://{address}/{place}");
    window.page.go(&url).unwrap();
    window.shows("Paste a token");
    window
}

/// Types a token into the login page and presses Enter.
fn enter(window: &Window, token: &str) {
    window.until_focus_is_on("token");
    window.types(token);
    window.press("Enter");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_logs_in_stays_and_logs_out_with_the_keyboard_alone() {
    let (_cluster, address) = guarded(Some(certificate())).await;
    let window = open(address, "https", "#/nodes/gpu-a", LIGHT);
    enter(&window, "forged");
    window.shows("does not know this token");
    window.until("document.getElementById('token').getAttribute('aria-invalid') === 'true'");
    // The page has selected the rejected token, so that typing the next one replaces it.
    enter(&window, "stranger");
    window.shows("stranger does not have the verb \"get\" on dashboards.gpushare.io");
    window.shows("gpushare-dashboard-viewer");
    enter(&window, "viewer");
    // The browser is now at the view that was requested before the login.
    window.shows_the_view_of("gpu-a");
    window.until_live();
    assert_eq!(window.eval("document.cookie"), "");
    assert_eq!(window.eval("location.hash"), "#/nodes/gpu-a");
    window.page.call("Page.reload", &json!({})).unwrap();
    window.shows_the_view_of("gpu-a");
    window.until("!document.getElementById('logout').hidden");
    window.tab_until("document.activeElement.id === 'logout'", 12);
    window.press("Enter");
    window.shows("Paste a token");
    window.page.go(&format!("https://{address}/")).unwrap();
    window.until("location.pathname === '/login'");
    let mut broken = window.page.complaints();
    broken.retain(|text| text.contains("Content Security Policy") || text.contains("exception"));
    assert_eq!(broken, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_works_on_loopback_without_tls_and_a_link_from_elsewhere_finds_it() {
    let (_cluster, address) = guarded(None).await;
    let window = open(address, "http", "", LIGHT);
    enter(&window, "viewer");
    window.shows("Packing over time");
    // A page of another site: requests from there carry no session cookie.
    window.page.requests();
    let elsewhere = "data:text/html,<title>elsewhere</title>";
    window.page.go(elsewhere).unwrap();
    window.until("document.title === 'elsewhere'");
    let url = json!(format!("http://{address}/#/nodes"));
    window.eval(&format!(
        "(() => {{ const link = document.createElement('a'); link.href = {url}; document.body.append(link); link.click(); }})()"
    ));
    window.shows("1 node");
    let asked = window.page.requests();
    assert!(asked.iter().any(|url| url.contains("/login")), "{asked:?}");
    assert_eq!(window.eval("location.hash"), "#/nodes");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_login_page_passes_the_accessibility_check_also_with_a_problem_on_it() {
    let (_cluster, address) = guarded(None).await;
    for look in [LIGHT, DARK] {
        let window = open(address, "http", "", look);
        window.is_accessible("empty");
        enter(&window, "forged");
        window.shows("does not know this token");
        window.is_accessible("refused");
        pictures::keep(&window, &format!("login-{}", window.scheme));
    }
}
