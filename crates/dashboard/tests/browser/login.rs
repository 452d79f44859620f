//! Logging in and out, as people do it: with a mouse, with the keyboard alone, and through a link from elsewhere.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use gpushare_browser::axe;
use gpushare_daemon::tls::{Tls, TlsFiles};
use gpushare_dashboard::access::Access;
use serde_json::json;

use crate::cluster::{A100, Cluster};
use crate::reviews::reviews;
use crate::{DARK, LIGHT, Window, pictures};

/// A dashboard that the token `viewer` may view.
async fn guarded(tls: Option<Tls>) -> (Cluster, SocketAddr) {
    let cluster = Cluster::start().await;
    cluster.add_node("gpu-a", &[A100]).await;
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

fn open(address: SocketAddr, scheme: &str, place: &str) -> Window {
    let window = Window::open(address, LIGHT);
    let trust = json!({"ignore": true});
    window
        .page
        .call("Security.setIgnoreCertificateErrors", &trust)
        .unwrap();
    window
        .page
        .go(&format!("{scheme}://{address}/{place}"))
        .unwrap();
    window.page.wait_for_text("Paste a token").unwrap();
    window
}

/// Types a token into the login page and presses Enter.
fn enter(window: &Window, token: &str) {
    window
        .page
        .wait("document.activeElement.id === 'token'")
        .unwrap();
    window.page.type_text(token).unwrap();
    window.page.press("Enter").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_logs_in_stays_and_logs_out_with_the_keyboard_alone() {
    let (_cluster, address) = guarded(Some(certificate())).await;
    let window = open(address, "https", "#/nodes/gpu-a");
    let page = &window.page;
    enter(&window, "forged");
    page.wait_for_text("does not know this token").unwrap();
    page.wait("document.getElementById('token').getAttribute('aria-invalid') === 'true'")
        .unwrap();
    // The page has selected the rejected token, so that typing the next one replaces it.
    enter(&window, "stranger");
    page.wait_for_text("stranger does not have the verb \"get\" on dashboards.gpushare.io")
        .unwrap();
    page.wait_for_text("gpushare-dashboard-viewer").unwrap();
    enter(&window, "viewer");
    // The browser is now at the view that was requested before the login.
    page.wait("document.querySelector('h1')?.textContent === 'gpu-a'")
        .unwrap();
    page.wait("document.getElementById('live').textContent === 'Live'")
        .unwrap();
    assert_eq!(page.eval("document.cookie").unwrap(), json!(""));
    assert_eq!(page.eval("location.hash").unwrap(), json!("#/nodes/gpu-a"));
    page.call("Page.reload", &json!({})).unwrap();
    page.wait("document.querySelector('h1')?.textContent === 'gpu-a'")
        .unwrap();
    let on_button = "document.activeElement.id === 'logout'";
    page.wait("!document.getElementById('logout').hidden")
        .unwrap();
    for _ in 0..12 {
        page.press("Tab").unwrap();
        if page.eval(on_button).unwrap() == json!(true) {
            break;
        }
    }
    page.wait(on_button).unwrap();
    page.press("Enter").unwrap();
    page.wait_for_text("Paste a token").unwrap();
    page.go(&format!("https://{address}/")).unwrap();
    page.wait("location.pathname === '/login'").unwrap();
    let broken: Vec<String> = window
        .page
        .complaints()
        .into_iter()
        .filter(|text| text.contains("Content Security Policy") || text.contains("exception"))
        .collect();
    assert_eq!(broken, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_works_on_loopback_without_tls_and_a_link_from_elsewhere_finds_it() {
    let (_cluster, address) = guarded(None).await;
    let window = open(address, "http", "");
    let page = &window.page;
    enter(&window, "viewer");
    page.wait_for_text("Packing over time").unwrap();
    // A page of another site: requests from there carry no session cookie.
    page.requests();
    page.go("data:text/html,<title>elsewhere</title>").unwrap();
    page.wait("document.title === 'elsewhere'").unwrap();
    let url = json!(format!("http://{address}/#/nodes"));
    page.eval(&format!(
        "(() => {{ const link = document.createElement('a'); link.href = {url}; document.body.append(link); link.click(); }})()"
    ))
    .unwrap();
    page.wait_for_text("1 node").unwrap();
    let asked = page.requests();
    assert!(asked.iter().any(|url| url.contains("/login")), "{asked:?}");
    assert_eq!(page.eval("location.hash").unwrap(), json!("#/nodes"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_login_page_passes_the_accessibility_check_also_with_a_problem_on_it() {
    let script = axe::script().unwrap();
    let (_cluster, address) = guarded(None).await;
    for look in [LIGHT, DARK] {
        let window = Window::open(address, look);
        window.page.go(&format!("http://{address}/")).unwrap();
        window.page.wait_for_text("Paste a token").unwrap();
        let check = |when: &str| {
            let findings = axe::findings(&window.page, &script).unwrap();
            assert_eq!(
                findings,
                Vec::<String>::new(),
                "{when}, dark: {}",
                look.dark
            );
        };
        check("empty");
        enter(&window, "forged");
        window
            .page
            .wait_for_text("does not know this token")
            .unwrap();
        check("refused");
        let scheme = if look.dark { "dark" } else { "light" };
        pictures::keep(&window, &format!("login-{scheme}"));
    }
}
