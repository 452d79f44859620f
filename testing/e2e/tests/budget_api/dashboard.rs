//! Logging in to the dashboard: the real API server says whose token it is and who may use the dashboard.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use e2e::dashboard::DashboardServer;
use e2e::teller::{OTHER, OWN};
use gpushare_testkit::assert_contains;
use serde_json::{Value, json};

use crate::TELLER;

static DASHBOARD: LazyLock<DashboardServer> = LazyLock::new(|| DashboardServer::start(&TELLER));

#[test]
fn a_viewer_logs_in_to_the_dashboard_sees_the_cluster_and_logs_out() {
    let login = DASHBOARD.with_token("POST", "/login", &DASHBOARD.token("gpushare-viewer"));
    assert_eq!(login.status, 204, "{login:?}");
    let cookie = login.headers["set-cookie"].to_str().unwrap();
    for attribute in ["__Host-", "Secure", "HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(cookie.contains(attribute), "{cookie}");
    }
    let snapshot = DASHBOARD
        .with_session("GET", "/api/snapshot", &login)
        .good();
    let budgets: BTreeSet<&str> = snapshot["budgets"]
        .as_array()
        .unwrap()
        .iter()
        .map(|budget| budget["name"].as_str().unwrap())
        .collect();
    assert!(
        budgets.contains(OWN) && budgets.contains(OTHER),
        "{budgets:?}"
    );
    assert_eq!(DASHBOARD.with_session("GET", "/", &login).status, 200);
    assert_eq!(
        DASHBOARD.with_session("POST", "/logout", &login).status,
        204
    );
    assert_eq!(DASHBOARD.with_session("GET", "/", &login).status, 401);
    assert!(!DASHBOARD.logged().contains("eyJ"), "a token is in the log");
}

#[test]
fn administrators_of_the_cluster_may_look_at_the_dashboard() {
    let administrator = DASHBOARD.token("administrator");
    DASHBOARD
        .with_token("GET", "/api/snapshot", &administrator)
        .good();
}

#[test]
fn whoever_may_not_look_at_the_dashboard_is_told_what_to_do() {
    let error = |token: &str, code: u16| {
        let answer = DASHBOARD.with_token("POST", "/login", token);
        assert_eq!(answer.status, code, "{answer:?}");
        assert!(!answer.headers.contains_key("set-cookie"), "{answer:?}");
        let problem: Value = serde_json::from_str(&answer.body).unwrap();
        problem["error"].as_str().unwrap().to_owned()
    };
    // This user may do nearly everything in one namespace, but nothing in the cluster.
    let tenant = error(&TELLER.token_of(OWN, "tenant"), 403);
    let user = format!("user system:serviceaccount:{OWN}:tenant does not have the verb");
    assert!(tenant.contains(&user), "{tenant}");
    assert_contains(&tenant, "ClusterRole gpushare-dashboard-viewer");
    let mut forged = DASHBOARD.token("gpushare-viewer");
    forged.replace_range(forged.len() - 8.., "AAAAAAAA");
    let elsewhere = TELLER.token_of("gpushare-system", "gpushare-viewer --audience=vault");
    for token in [&forged, &elsewhere, "garbage"] {
        let unknown = error(token, 401);
        assert!(unknown.contains("kubectl create token"), "{unknown}");
    }
}

#[test]
fn the_dashboards_own_account_may_do_nothing_but_its_work() {
    let expected = json!([
        "list nodes",
        "watch nodes",
        "list pods",
        "watch pods",
        "list namespaces",
        "watch namespaces",
        "list gpubudgets.gpushare.io",
        "watch gpubudgets.gpushare.io",
        "list events",
        "create tokenreviews.authentication.k8s.io",
        "create subjectaccessreviews.authorization.k8s.io",
    ]);
    let expected: BTreeSet<String> = serde_json::from_value(expected).unwrap();
    assert_eq!(DASHBOARD.rights("gpushare-dashboard"), expected);
    // A viewer of the dashboard gets no other right.
    let viewer = DASHBOARD.rights("gpushare-viewer");
    assert_eq!(
        viewer,
        BTreeSet::from(["get dashboards.gpushare.io".to_owned()])
    );
}
