//! The dashboard on a real API server, over TLS, with the account and the rights of `deploy/dashboard.yaml`, and users
//! with and without the right to use it.

use std::collections::BTreeSet;

use axum::http::{HeaderValue, Request, header};
use kube::client::Body;

use crate::kubectl::Kubectl;
use crate::process::Process;
use crate::teller::{Answer, Teller};
use crate::wait;
use crate::world::{binary, install, kubeconfigs, launch, log_of, without_pods};

const ACCOUNT: &str = "gpushare-dashboard";
const SYSTEM: &str = "gpushare-system";
const ADDRESS: &str = "https://localhost:12356";
const ADMIN: &str = "127.0.0.1:12357";

#[derive(Debug)]
pub struct DashboardServer {
    _dashboard: Process,
    teller: &'static Teller,
}

impl DashboardServer {
    /// Starts the dashboard beside the timekeeper.
    pub fn start(teller: &'static Teller) -> Self {
        let rig = &teller.rig;
        install(rig, &["dashboard.yaml"]);
        without_pods(rig, ACCOUNT);
        let directory = teller.file("");
        kubeconfigs(rig, &directory, &[ACCOUNT]).expect("kubeconfigs");
        // The viewer of docs/dashboard.md, and an administrator of the whole cluster.
        for (name, role) in [
            ("gpushare-viewer", "gpushare-dashboard-viewer"),
            ("administrator", "cluster-admin"),
        ] {
            for create in [
                format!("serviceaccount {name} --namespace={SYSTEM}"),
                format!(
                    "clusterrolebinding {name} --clusterrole={role} --serviceaccount={SYSTEM}:{name}"
                ),
            ] {
                rig.ctl(&format!("create {create}")).expect("created");
            }
        }
        let mut command = rig.inside(binary("gpushare-control"));
        command
            .args(["dashboard", "--listen", "127.0.0.1:12356"])
            .args(["--admin-listen", ADMIN, "--log-format", "json"])
            .arg("--tls-cert")
            .arg(teller.file("tls.crt"))
            .arg("--tls-key")
            .arg(teller.file("tls.key"))
            .arg("--kubeconfig")
            .arg(teller.file(&format!("{ACCOUNT}.kubeconfig")));
        let dashboard = launch(rig, "dashboard", command, ACCOUNT);
        wait::until_ready(rig, "the dashboard", ADMIN);
        Self {
            _dashboard: dashboard,
            teller,
        }
    }

    /// A new token for an account in the system namespace.
    pub fn token(&self, account: &str) -> String {
        self.teller.token_of(SYSTEM, account)
    }

    /// Sends a request with a token.
    pub fn with_token(&self, method: &str, path: &str, token: &str) -> Answer {
        let bearer = HeaderValue::try_from(format!("Bearer {token}")).expect("a header");
        self.send(method, path, header::AUTHORIZATION, bearer)
    }

    /// Sends a request with the session from a login.
    pub fn with_session(&self, method: &str, path: &str, login: &Answer) -> Answer {
        let cookie = login.headers[header::SET_COOKIE].to_str().expect("text");
        let session = cookie.split(';').next().expect("a cookie");
        let session = HeaderValue::from_str(session).expect("a header");
        self.send(method, path, header::COOKIE, session)
    }

    fn send(
        &self,
        method: &str,
        path: &str,
        name: header::HeaderName,
        value: HeaderValue,
    ) -> Answer {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(name, value)
            .body(Body::empty())
            .expect("a request");
        self.teller.ask(ADDRESS, request)
    }

    /// Everything that an account may do with objects, as `verb resource`. Leaves out the reviews of its own
    /// rights, which every account may create.
    pub fn rights(&self, account: &str) -> BTreeSet<String> {
        let list = "auth can-i --list --no-headers";
        let said = self.teller.rig.ctl(&format!(
            "{list} --as=system:serviceaccount:{SYSTEM}:{account}"
        ));
        let said = said.expect("rights");
        let rules = said.lines().filter(|line| !line.starts_with(' '));
        rules
            .filter(|line| !line.starts_with("selfsubject"))
            .flat_map(|line| {
                let resource = line.split_whitespace().next().unwrap_or_default();
                let verbs = line.rsplit_once('[').map_or("", |(_, verbs)| verbs);
                let verbs = verbs.trim_end_matches(']').split_whitespace();
                verbs.map(move |verb| format!("{verb} {resource}"))
            })
            .collect()
    }

    /// What the dashboard has logged.
    pub fn logged(&self) -> String {
        log_of(&self.teller.rig, ACCOUNT)
    }
}
