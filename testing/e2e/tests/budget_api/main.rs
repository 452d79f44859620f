//! The API of budgets and the dashboard on a real API server, over TLS: who may ask for what, and what attackers get.
//! Run by `cargo xtask e2e`.

mod dashboard;

use std::process::Output;
use std::sync::LazyLock;

use e2e::Kubectl;
use e2e::teller::{HELD, OTHER, OWN, SPARE, Teller, Who};
use gpushare_testkit::assert_contains;
use serde_json::{Value, json};

/// One cluster for all tests.
static TELLER: LazyLock<Teller> = LazyLock::new(Teller::start);

/// What someone is shown at a path.
fn shown(who: Who, path: &str) -> Value {
    TELLER.get(&TELLER.token(who), path).good()
}

/// Every path that shows something about a team.
fn paths_of(team: &str) -> Vec<String> {
    vec![
        format!("/v1/namespaces/{team}/budget"),
        format!("/v1/namespaces/{team}/pods/p"),
        format!("/v1/namespaces/{team}/statement"),
        format!("/v1/budgets/{team}"),
        format!("/v1/budgets/{team}/statement"),
        format!("/budget/{team}"),
    ]
}

#[test]
fn a_tenant_reads_what_its_own_namespace_has_and_used() {
    let balance = shown(Who::Tenant, &format!("/v1/namespaces/{OWN}/budget"));
    assert_eq!(
        (&balance["namespace"], &balance["budget"]),
        (&json!(OWN), &json!(OWN))
    );
    assert_eq!(
        (&balance["amount"], &balance["used"]),
        (&json!("72000"), &json!("300"))
    );
    let path = format!("/v1/namespaces/{OWN}/statement?month={}", TELLER.month);
    let statement = shown(Who::Tenant, &path);
    assert_eq!(
        (&statement["total"], &statement["totalSeconds"]),
        (&json!("300"), &json!(HELD))
    );
    assert_eq!(statement["lines"][0]["pod"], format!("pod-of-{OWN}"));
}

#[test]
fn a_tenant_cannot_read_anything_of_another_nor_learn_that_it_exists() {
    let alike = |message: &str, team: &str| message.replace(team, "X");
    for who in [Who::Tenant, Who::Pod] {
        let token = TELLER.token(who);
        for (there, missing) in paths_of(OTHER).iter().zip(paths_of("team-none")) {
            let there = TELLER.get(&token, there).refused(403);
            let missing = TELLER.get(&token, &missing).refused(403);
            assert_eq!(alike(&there, OTHER), alike(&missing, "team-none"));
        }
        for path in ["/v1/budgets", "/v1/export"] {
            TELLER.get(&token, path).refused(403);
        }
    }
}

#[test]
fn a_pod_reads_the_balance_of_its_namespace_without_any_role_and_no_statement() {
    shown(Who::Pod, &format!("/v1/namespaces/{OWN}/budget"));
    let statement = format!("/v1/namespaces/{OWN}/statement");
    let message = TELLER.get(&TELLER.token(Who::Pod), &statement).refused(403);
    assert_contains(&message, "budgetstatements.gpushare.io");
}

#[test]
fn a_tenant_cannot_grant() {
    let granted = || shown(Who::Chief, &format!("/v1/budgets/{OTHER}"))["granted"].take();
    let before = granted();
    let body = json!({"id": "greed", "amount": "1000h", "reason": "because"});
    for who in [Who::Tenant, Who::Pod] {
        let token = TELLER.token(who);
        for team in [OWN, OTHER, "team-none"] {
            let path = format!("/v1/budgets/{team}/grants");
            let message = TELLER.post(&token, &path, &body).refused(403);
            assert!(message.contains("the verb \"grant\""), "{message}");
        }
    }
    assert_eq!(before, granted());
}

#[test]
fn tokens_that_are_not_for_us_are_no_good() {
    let revoked = TELLER.token_of(OWN, "revoked --audience=gpushare-timekeeper");
    let delete = format!("delete serviceaccount revoked --namespace={OWN}");
    TELLER.rig.ctl(&delete).unwrap();
    let mut forged = TELLER.token(Who::Chief);
    forged.replace_range(forged.len() - 8.., "AAAAAAAA");
    let tokens = [
        TELLER.token_of(OWN, "default --audience=vault"),
        revoked,
        forged,
        "garbage".to_owned(),
        "eyJhbGciOiJub25lIn0.eyJzdWIiOiJzeXN0ZW06bWFzdGVycyJ9.".to_owned(),
    ];
    for token in &tokens {
        for path in paths_of(OWN) {
            let answer = TELLER.get(token, &path);
            let refused = [400, 401].contains(&answer.status.as_u16());
            assert!(refused, "{} {answer:?}", &token[..7]);
        }
    }
}

/// The server answers and closes the connection while the client still sends, so the client may see only the end of the
/// connection.
#[test]
fn a_token_that_is_longer_than_headers_may_be_is_refused_before_it_is_read() {
    for path in paths_of(OWN) {
        if let Ok(answer) = TELLER.try_get(&"x".repeat(100_000), &path) {
            assert_eq!(answer.status, 431, "{answer:?}");
        }
    }
    let served = TELLER.get(&TELLER.token(Who::Chief), "/v1/budgets");
    assert_eq!(served.status, 200, "others are served as usual");
}

#[test]
fn t01_the_predecessors_path_answers_for_namespaces_that_there_are_to_those_who_may() {
    let told = shown(Who::Pod, &format!("/budget/{OWN}"));
    assert_eq!(
        (&told["budget_available"], &told["budget_remaining"]),
        (&json!(true), &json!(1195.0))
    );
    let chief = TELLER.token(Who::Chief);
    // The predecessor gave a full budget to unknown names.
    TELLER.get(&chief, "/budget/made-up").refused(404);
    let free = TELLER.get(&chief, "/budget/team-free").good();
    let unlimited = json!({"budget_available": true, "budget": null, "budget_remaining": null});
    assert_eq!(free, unlimited);
}

#[test]
fn t08_nobody_can_report_usage_for_anybody() {
    let used = || {
        let all = shown(Who::Chief, "/v1/budgets");
        let all = all["budgets"].as_array().unwrap().iter();
        let used = |one: &Value| (one["budget"].clone(), one["used"].clone());
        all.map(used).collect::<Vec<_>>()
    };
    let before = used();
    let report = json!({"usage_factor": -1000.0, "pod_name": format!("pod-of-{OTHER}")});
    for who in [Who::Tenant, Who::Pod, Who::Chief] {
        let token = TELLER.token(who);
        for team in [OWN, OTHER] {
            for verb in ["report", "increase"] {
                let path = format!("/budget/{team}/{verb}");
                TELLER.post(&token, &path, &report).refused(410);
            }
            for path in paths_of(team) {
                TELLER.post(&token, &path, &report).refused(405);
            }
        }
    }
    assert_eq!(used(), before);
}

fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

#[test]
fn grants_and_statements_go_through_the_plugin() {
    let reason = ["--reason", "a deadline", "--id", "ticket-7"];
    let grant = [&["grant", OTHER, "2h"], &reason[..]].concat();
    let as_chief = ["--as-service-account", "gpushare-system/chief"];
    for _ in 0..2 {
        let output = TELLER.plugin(&grant).args(as_chief).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let author = "author system:serviceaccount:gpushare-system:chief, id ticket-7";
        assert_contains(&said(&output), author);
    }
    let balance = shown(Who::Chief, &format!("/v1/budgets/{OTHER}"));
    assert_eq!(balance["granted"], "7200");
    let month = ["--month", &TELLER.month, "-o", "csv"];
    let statement = [&["statement", "-n", OTHER], &month[..]].concat();
    let output = TELLER.plugin(&statement).args(as_chief).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let csv = said(&output);
    let rows: Vec<&str> = csv.lines().collect();
    assert_eq!(rows.len(), 3, "{csv}");
    assert!(
        rows[1].starts_with(&format!("charge,{OTHER},pod-of-{OTHER},")),
        "{csv}"
    );
    assert!(
        rows[2].starts_with("total,") && rows[2].ends_with(",600,,,300,"),
        "{csv}"
    );
    let as_tenant = ["--as-service-account", &format!("{OWN}/tenant")];
    let output = TELLER.plugin(&statement).args(as_tenant).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_contains(&said(&output), "lacks the verb \"get\" on budgetstatements");
    let output = TELLER.plugin(&grant).args(as_tenant).output().unwrap();
    assert_contains(&said(&output), "lacks the verb \"grant\"");
}

#[test]
fn the_plugin_shows_what_stands_on_the_budgets() {
    let output = TELLER.plugin(&["show", OWN]).output().unwrap();
    let shown = said(&output);
    assert!(output.status.success(), "{shown}");
    let budget = format!("Budget:     {OWN}");
    for line in [budget.as_str(), "Used:       5m", "Ready:      yes"] {
        assert!(shown.contains(line), "{shown}");
    }
}

#[test]
fn the_export_has_every_posting() {
    let answer = TELLER.get(&TELLER.token(Who::Chief), "/v1/export");
    assert_eq!(answer.status, 200, "{answer:?}");
    let postings = answer
        .body
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let charged: Vec<Value> = postings
        .filter(|posting| posting["kind"] == "charge")
        .collect();
    assert_eq!(charged.len(), 2, "{charged:?}");
}

#[test]
fn every_grant_and_every_denial_is_in_the_audit_log() {
    let body = json!({"id": "audited", "amount": "1h", "reason": "to be seen"});
    let path = format!("/v1/budgets/{SPARE}/grants");
    TELLER
        .post(&TELLER.token(Who::Tenant), &path, &body)
        .refused(403);
    TELLER.post("nobody", &path, &body).refused(401);
    TELLER.post(&TELLER.token(Who::Chief), &path, &body).good();
    let logged = TELLER.logged();
    let lines = logged
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let audit: Vec<Value> = lines
        .filter(|line| line["target"] == "gpushare::audit")
        .collect();
    let find = |action: &str, reason: &str| {
        let mut all = audit.iter();
        all.find(|fields| fields["action"] == action && fields["reason"] == reason)
            .unwrap_or_else(|| panic!("no {action} {reason} in {audit:#?}"))
            .clone()
    };
    let granted = find("grant", "to be seen");
    assert_eq!(
        granted["user"],
        "system:serviceaccount:gpushare-system:chief"
    );
    assert_eq!(
        (&granted["budget"], &granted["gpu_seconds"]),
        (&json!(SPARE), &json!("3600"))
    );
    let user = format!("system:serviceaccount:{OWN}:tenant");
    assert!(audit.iter().any(|line| line["user"] == user.as_str()));
    find("deny", "forbidden");
    find("deny", "unauthenticated");
    // Tokens must not be logged.
    assert!(!logged.contains("eyJ"), "a token is in the log");
}
