//! Who may view the dashboard.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use gpushare_core::gpu;
use gpushare_daemon::Tasks;
use gpushare_dashboard::access::Access;
use gpushare_dashboard::{Config, StartError, start};
use gpushare_testkit::assert_contains;
use gpushare_testkit::http::Answer;

use crate::cluster::Cluster;
use crate::http::ask;
use crate::reviews::reviews;

/// A dashboard that the token `viewer` may view, and how often it asks the API server about tokens and rights.
async fn guarded() -> (Cluster, SocketAddr, Arc<AtomicUsize>) {
    let cluster = Cluster::start().await;
    let asked = Arc::new(AtomicUsize::new(0));
    let access = Access::tokens(reviews(asked.clone()));
    let address = cluster.dashboard_for(access);
    (cluster, address, asked)
}

async fn ask_with_token(to: SocketAddr, request: &str, token: &str) -> Answer {
    let bearer = format!("Bearer {token}");
    ask(to, request, &[("Authorization", &bearer)]).await
}

/// Logs in as `viewer`, and returns the cookie of the session with its attributes.
async fn log_in(to: SocketAddr) -> String {
    let answer = ask_with_token(to, "POST /login", "viewer").await;
    assert_eq!(answer.status, 204);
    answer.header("set-cookie").unwrap().to_owned()
}

/// The header with which a browser sends the cookie back.
fn session(cookie: &str) -> (&str, &str) {
    ("Cookie", cookie.split(';').next().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_token_there_is_nothing_to_see_but_the_login_page() {
    let (_cluster, dashboard, _) = guarded().await;
    for path in [
        "/api/snapshot",
        "/api/stream",
        "/api/nodes/a",
        "/api/pods/a/b",
        "/",
    ] {
        let answer = ask(dashboard, &format!("GET {path}"), &[]).await;
        assert_eq!(answer.status, 401, "{path}");
    }
    let browser = [("Accept", "text/html,*/*")];
    let answer = ask(dashboard, "GET /", &browser).await;
    let place = answer.header("location");
    assert_eq!((answer.status, place), (303, Some("/login")));
    assert_eq!(ask(dashboard, "GET /login", &[]).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_somebody_who_may_look_is_enough_and_is_remembered() {
    let (_cluster, dashboard, asked) = guarded().await;
    for _ in 0..5 {
        let answer = ask_with_token(dashboard, "GET /api/nodes/none", "viewer").await;
        assert_eq!(answer.status, 404);
    }
    assert_eq!(asked.load(Ordering::SeqCst), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_tokens_and_users_without_the_right_are_told_what_to_do() {
    let (_cluster, dashboard, _) = guarded().await;
    for (token, status, said) in [
        ("forged", 401, "does not know this token"),
        ("stranger", 403, "user stranger does not have the verb"),
    ] {
        for request in ["GET /api/snapshot", "POST /login"] {
            let answer = ask_with_token(dashboard, request, token).await;
            assert_eq!(answer.status, status, "{request}");
            assert!(answer.text().contains(said), "{answer:?}");
            assert_eq!(answer.header("set-cookie"), None);
        }
    }
    let no_bearer = [("Authorization", "Basic eA==")];
    let answer = ask(dashboard, "GET /api/snapshot", &no_bearer).await;
    assert_eq!(answer.status, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_lasts_until_it_is_ended() {
    let (_cluster, dashboard, _) = guarded().await;
    let cookie = log_in(dashboard).await;
    assert_contains(&cookie, "Secure; HttpOnly; SameSite=Strict");
    let session = [session(&cookie)];
    assert_eq!(ask(dashboard, "GET /", &session).await.status, 200);
    assert_eq!(ask(dashboard, "POST /logout", &session).await.status, 204);
    assert_eq!(ask(dashboard, "GET /", &session).await.status, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_tries_many_tokens_has_to_wait_and_keeps_nobody_else_out() {
    let (_cluster, dashboard, asked) = guarded().await;
    let cookie = log_in(dashboard).await;
    let mut waits = false;
    for guess in 0..500 {
        let before = asked.load(Ordering::SeqCst);
        let answer = ask_with_token(dashboard, "POST /login", &format!("guess-{guess}")).await;
        assert!(matches!(answer.status, 401 | 429), "{answer:?}");
        if answer.status == 429 {
            assert_contains(&answer.text(), "too many wrong tokens");
            assert_eq!(asked.load(Ordering::SeqCst), before, "nobody was asked");
            waits = true;
            break;
        }
    }
    assert!(waits, "nothing stopped it");
    let answer = ask(dashboard, "GET /", &[session(&cookie)]).await;
    assert_eq!(answer.status, 200);
    let answer = ask_with_token(dashboard, "GET /", "viewer").await;
    assert_eq!(answer.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_other_sites_can_link_here_and_do_nothing_else() {
    let (_cluster, dashboard, _) = guarded().await;
    let cookie = log_in(dashboard).await;
    let session = session(&cookie);
    for site in ["cross-site", "same-site"] {
        let foreign = |mode| [session, ("Sec-Fetch-Site", site), ("Sec-Fetch-Mode", mode)];
        for (request, mode) in [
            ("POST /logout", "navigate"),
            ("POST /logout", "no-cors"),
            ("POST /login", "cors"),
            ("GET /api/snapshot", "no-cors"),
            ("GET /api/stream", "cors"),
            ("GET /assets/main.js", "no-cors"),
        ] {
            let answer = ask(dashboard, request, &foreign(mode)).await;
            assert_eq!(answer.status, 403, "{request} {mode} {site}");
            assert_eq!(answer.header("set-cookie"), None);
        }
        let answer = ask(dashboard, "GET /", &foreign("navigate")).await;
        assert_eq!(answer.status, 200, "{site}");
    }
    let own = [session, ("Sec-Fetch-Site", "same-origin")];
    assert_eq!(ask(dashboard, "GET /", &own).await.status, 200);
    assert_eq!(ask(dashboard, "POST /logout", &own).await.status, 204);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_sites_name_for_this_machine_is_refused_where_nobody_logs_in() {
    let cluster = Cluster::start().await;
    let dashboard = cluster.dashboard();
    for host in [
        "evil.example",
        "evil.example:80",
        "127.0.0.1.evil.example",
        "",
    ] {
        let answer = ask(dashboard, "GET /", &[("Host", host)]).await;
        assert!(matches!(answer.status, 400 | 421), "{host}: {answer:?}");
        assert!(!answer.text().contains("<html"), "{host}");
    }
    for host in ["localhost:1234", "127.0.0.1", "[::1]:80"] {
        let answer = ask(dashboard, "GET /", &[("Host", host)]).await;
        assert_eq!(answer.status, 200, "{host}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_let_in_unasked_or_in_the_clear_on_an_open_address() {
    let cluster = Cluster::start().await;
    let started = |access| {
        let config = Config {
            listen: SocketAddr::from(([0, 0, 0, 0], 0)),
            admin_listen: None,
            tls: None,
            access,
            dialects: gpu::dialects(gpu::AliyunUnit::GiB),
            sample_every: Duration::from_secs(10),
        };
        start(&cluster.client, config, &Tasks::new())
    };
    let refused = started(Access::Open).unwrap_err();
    assert!(matches!(refused, StartError::OpenToAll(_)), "{refused}");
    let refused = started(Access::tokens(cluster.client.clone())).unwrap_err();
    assert!(matches!(refused, StartError::Plain(_)), "{refused}");
}
