//! The files of `deploy/` agree with the program: names, resources, rights.

use gpushare_core::names;
use gpushare_daemon::args::read;
use gpushare_dashboard::role as dashboard;
use gpushare_ledger::store::database::Database;
use gpushare_timekeeper as timekeeper;
use gpushare_webhook::config::{Certificates, Config, RawConfig};
use serde_json::Value;

const DASHBOARD: &str = include_str!("../../../../deploy/dashboard.yaml");
const WEBHOOK: &str = include_str!("../../../../deploy/webhook.yaml");
const ADMISSION: &str = include_str!("../../../../deploy/admission.yaml");
const RBAC: &str = include_str!("../../../../deploy/rbac.yaml");
const TIMEKEEPER: &str = include_str!("../../../../deploy/timekeeper.yaml");

fn defaults() -> Config {
    read::<RawConfig>([]).unwrap().try_into().unwrap()
}

fn objects(text: &str) -> Vec<Value> {
    let documents = text.split("\n---\n");
    documents
        .map(|document| serde_saphyr::from_str(document).unwrap())
        .collect()
}

fn find(text: &str, kind: &str, name: &str) -> Value {
    let mut all = objects(text).into_iter();
    all.find(|object| object["kind"] == kind && object["metadata"]["name"] == name)
        .unwrap_or_else(|| panic!("no {kind} {name}"))
}

/// The prefixes of resource names in a CEL list such as `['gpushare.io/', 'aliyun.com/gpu-']`.
fn prefixes(expression: &str) -> Vec<Vec<String>> {
    let lists = expression.split("['").skip(1);
    lists
        .map(|list| {
            let list = list.split("']").next().unwrap();
            list.split("', '").map(str::to_owned).collect()
        })
        .collect()
}

#[test]
fn every_resource_of_ours_is_sent_to_the_webhook_and_nobody_elses_is() {
    let mutating = find(WEBHOOK, "MutatingWebhookConfiguration", "gpushare");
    let validating = find(WEBHOOK, "ValidatingWebhookConfiguration", "gpushare");
    let policy = find(
        ADMISSION,
        "ValidatingAdmissionPolicy",
        "gpushare-priority-classes",
    );
    let mut lists = Vec::new();
    for webhook in [&mutating["webhooks"][0], &validating["webhooks"][0]] {
        let mut conditions = webhook["matchConditions"].as_array().unwrap().iter();
        let devices = conditions.find(|condition| condition["name"] == "asks-for-our-devices");
        lists.extend(prefixes(devices.unwrap()["expression"].as_str().unwrap()));
    }
    assert_eq!(lists.len(), 4, "limits and requests of both");
    let ours = policy["spec"]["variables"][0]["expression"]
        .as_str()
        .unwrap();
    lists.extend(prefixes(ours));
    let dialects = defaults().dialects;
    for list in lists {
        for resource in dialects.resources() {
            let sent = list.iter().any(|prefix| resource.starts_with(prefix));
            assert!(sent, "{resource} is not in {list:?}");
        }
        for other in [
            "nvidia.com/gpu",
            "aliyun.com/other",
            "tencent.com/other",
            "cpu",
        ] {
            assert!(
                !list.iter().any(|prefix| other.starts_with(prefix)),
                "{other}"
            );
        }
    }
}

#[test]
fn the_configurations_call_the_webhook_briefly_and_never_for_its_own_namespace() {
    for (kind, policy) in [
        ("MutatingWebhookConfiguration", "Fail"),
        ("ValidatingWebhookConfiguration", "Ignore"),
    ] {
        let configuration = find(WEBHOOK, kind, "gpushare");
        let webhook = &configuration["webhooks"][0];
        assert_eq!(webhook["timeoutSeconds"], 2);
        assert_eq!(webhook["sideEffects"], "None");
        assert_eq!(webhook["failurePolicy"], policy);
        let excluded = &webhook["namespaceSelector"]["matchExpressions"][0];
        assert_eq!(excluded["key"], "kubernetes.io/metadata.name");
        assert_eq!(excluded["operator"], "NotIn");
        let system = find(RBAC, "Namespace", "gpushare-system");
        let excluded = excluded["values"].as_array().unwrap();
        assert!(excluded.contains(&system["metadata"]["name"]));
        for rule in webhook["rules"].as_array().unwrap() {
            let pods = rule["resources"]
                .as_array()
                .unwrap()
                .contains(&Value::from("pods"));
            let update = rule["operations"]
                .as_array()
                .unwrap()
                .contains(&Value::from("UPDATE"));
            assert!(!(pods && update), "a pod that exists is never touched");
        }
    }
}

#[test]
fn rights_names_and_addresses_are_the_programs_defaults() {
    let Certificates::Own { settings, .. } = defaults().certificates else {
        panic!("own certificates are the default")
    };
    let cluster = find(WEBHOOK, "ClusterRole", "gpushare-webhook");
    let rules = cluster["rules"].as_array().unwrap();
    let writing: Vec<&Value> = rules
        .iter()
        .filter(|rule| {
            rule["verbs"]
                .as_array()
                .unwrap()
                .iter()
                .any(|verb| verb == "patch")
        })
        .collect();
    assert_eq!(
        writing.len(),
        1,
        "it writes one kind of thing in the cluster"
    );
    assert_eq!(writing[0]["resourceNames"][0], *settings.configuration);
    let role = find(WEBHOOK, "Role", "gpushare-webhook");
    assert_eq!(role["metadata"]["namespace"], *settings.namespace);
    assert_eq!(role["rules"][1]["resourceNames"][0], *settings.secret);
    let service = find(WEBHOOK, "Service", "gpushare-webhook");
    let name = |field: &str| service["metadata"][field].as_str().unwrap();
    let address = format!("{}.{}.svc", name("name"), name("namespace"));
    assert_eq!(settings.names, [address]);
    let deployment = find(WEBHOOK, "Deployment", "gpushare-webhook");
    assert_eq!(deployment["spec"]["replicas"], 2);
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    let flags = container["args"].as_array().unwrap().iter().skip(1);
    let flags = flags.map(|flag| flag.as_str().unwrap());
    let config = Config::try_from(read::<RawConfig>(flags).unwrap()).unwrap();
    let ports = &container["ports"];
    assert_eq!(ports[0]["containerPort"], config.listen.port());
    assert_eq!(
        ports[1]["containerPort"],
        config.admin_listen.unwrap().port()
    );
}

#[test]
fn pods_over_budget_rank_below_ordinary_ones_and_make_nobody_go() {
    let within = find(WEBHOOK, "PriorityClass", names::IN_BUDGET);
    assert_eq!(within["value"], 0);
    assert_eq!(within.get("globalDefault"), None);
    let over = find(WEBHOOK, "PriorityClass", names::OVER_BUDGET);
    assert!(over["value"].as_i64().unwrap() < 0);
    assert_eq!(over["preemptionPolicy"], "Never");
    for class in [names::IN_BUDGET, names::OVER_BUDGET] {
        assert!(class.starts_with(names::OUR_CLASSES));
    }
}

#[test]
fn everything_that_enforces_budgets_is_kept_out_of_tenants_hands() {
    for policy in ["gpushare-budget-marks", "gpushare-timekeeper-pods"] {
        let found = find(ADMISSION, "ValidatingAdmissionPolicy", policy);
        let mut variables = found["spec"]["variables"].as_array().unwrap().iter();
        let ours = variables
            .find(|variable| variable["name"] == "ours")
            .unwrap();
        let marks = [
            names::OVER_BUDGET_MARK,
            names::RESTORED_MARK,
            names::EVICT_AT,
        ];
        let listed = prefixes(ours["expression"].as_str().unwrap());
        assert_eq!(listed, [marks], "{policy}");
        let binding = find(ADMISSION, "ValidatingAdmissionPolicyBinding", policy);
        assert_eq!(binding["spec"]["validationActions"][0], "Deny");
    }
    let metering = find(ADMISSION, "ValidatingAdmissionPolicy", "gpushare-metering");
    let condition = metering["spec"]["matchConditions"][0]["expression"].to_string();
    for name in [names::METERING, names::BUDGET_GATE] {
        assert!(condition.contains(name), "{name}");
    }
}

#[test]
fn the_timekeeper_has_the_rights_that_it_uses_and_of_pods_it_only_patches() {
    let role = find(TIMEKEEPER, "ClusterRole", "gpushare-timekeeper");
    let rules = role["rules"].as_array().unwrap();
    let verbs = |resource: &str| -> Vec<&str> {
        let rules = rules.iter().filter(|rule| {
            let resources = rule["resources"].as_array().unwrap();
            resources.iter().any(|other| other == resource)
        });
        rules
            .flat_map(|rule| rule["verbs"].as_array().unwrap())
            .map(|verb| verb.as_str().unwrap())
            .collect()
    };
    assert_eq!(verbs("pods"), ["get", "list", "watch", "patch"]);
    assert_eq!(verbs("nodes"), ["get", "list", "watch"]);
    assert_eq!(verbs("gpubudgets"), ["get", "list", "watch", "settle"]);
    assert_eq!(verbs("gpubudgets/status"), ["patch"]);
    let policy = find(ADMISSION, "ValidatingAdmissionPolicy", "gpushare-metering");
    let asked = policy["spec"]["validations"][0]["expression"].as_str();
    assert!(asked.unwrap().contains("check('settle')"));
}

#[test]
fn the_timekeepers_lease_ports_and_database_are_those_of_its_flags() {
    let deployment = find(TIMEKEEPER, "Deployment", "gpushare-timekeeper");
    let pod = &deployment["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let flags = container["args"].as_array().unwrap().iter().skip(1);
    let flags = flags.map(|flag| flag.as_str().unwrap());
    let raw: timekeeper::config::RawConfig = read(flags).unwrap();
    let config = timekeeper::config::Config::try_from(raw).unwrap();
    let ports = &container["ports"];
    assert_eq!(ports[0]["containerPort"], config.listen.port());
    let admin = config.admin_listen.unwrap();
    assert_eq!(ports[1]["containerPort"], admin.port());
    let election = config.election.unwrap();
    let role = find(TIMEKEEPER, "Role", "gpushare-timekeeper");
    assert_eq!(role["metadata"]["namespace"], *election.namespace);
    assert_eq!(role["rules"][1]["resourceNames"][0], *election.name);
    let mount = container["volumeMounts"][0]["mountPath"].as_str().unwrap();
    let file = match config.database {
        Database::Sqlite(path) => path,
        Database::Postgres(_) => panic!("a file is the default"),
    };
    assert!(file.starts_with(mount), "{}", file.display());
    let claim = find(TIMEKEEPER, "PersistentVolumeClaim", "gpushare-ledger");
    let volume = &pod["volumes"][0]["persistentVolumeClaim"];
    assert_eq!(volume["claimName"], claim["metadata"]["name"]);
    // With two replicas, or during a rolling update, two pods would write the same database file.
    assert_eq!(deployment["spec"]["replicas"], 1);
    assert_eq!(deployment["spec"]["strategy"]["type"], "Recreate");
}

#[test]
fn the_dashboard_reads_only_asks_for_tokens_and_serves_with_a_certificate() {
    let role = find(DASHBOARD, "ClusterRole", "gpushare-dashboard");
    for rule in role["rules"].as_array().unwrap() {
        let reviews = rule["resources"][0].as_str().unwrap().ends_with("reviews");
        for verb in rule["verbs"].as_array().unwrap() {
            let reads = verb == "list" || verb == "watch";
            assert!(reads || (reviews && verb == "create"), "{rule}");
        }
    }
    let viewer = find(DASHBOARD, "ClusterRole", "gpushare-dashboard-viewer");
    let look = serde_json::json!({
        "apiGroups": ["gpushare.io"], "resources": ["dashboards"], "verbs": ["get"]
    });
    assert_eq!(viewer["rules"], serde_json::json!([look]));
    let deployment = find(DASHBOARD, "Deployment", "gpushare-dashboard");
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    let flags = container["args"].as_array().unwrap().iter().skip(1);
    let flags = flags.map(|flag| flag.as_str().unwrap());
    let raw: dashboard::config::RawConfig = read(flags).unwrap();
    let config = dashboard::config::Config::try_from(raw).unwrap();
    assert_eq!(config.auth, dashboard::config::Auth::Token);
    assert!(config.tls.is_some());
    let ports = &container["ports"];
    assert_eq!(ports[0]["containerPort"], config.listen.port());
    assert_eq!(
        ports[1]["containerPort"],
        config.admin_listen.unwrap().port()
    );
}
