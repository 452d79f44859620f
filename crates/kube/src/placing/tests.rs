use serde_json::{Value, json};

use super::*;

/// Pods that demand this, what kube-scheduler 1.36 says about it, and whether a node of this kind takes them.
type Row = (&'static str, Value, Value, bool);

const TAKEN: bool = true;
const REFUSED: bool = false;

fn may_go(pod: &Value, node: &Value) -> bool {
    let spec: PodSpec = serde_json::from_value(pod.clone()).unwrap();
    let labels = json!({"zone": "a", "cards": "4", "size": "large"});
    let node = json!({"metadata": {"name": "n1", "labels": labels}, "spec": node});
    let node: Node = serde_json::from_value(node).unwrap();
    obstacles((&spec).into(), (&node).into()).next().is_none()
}

fn check(rows: Vec<Row>) {
    for (rule, pod, node, expected) in rows {
        assert_eq!(may_go(&pod, &node), expected, "{rule}: {pod} on {node}");
    }
}

/// Pods that a node takes, or refuses, by nothing but its name and labels.
fn check_pods<const N: usize>(expected: bool, rows: [(&str, Value); N]) {
    for (rule, pod) in rows {
        assert_eq!(may_go(&pod, &json!({})), expected, "{rule}: {pod}");
    }
}

fn tainted(value: &str, effect: &str) -> Value {
    json!({"taints": [{"key": "gpu", "value": value, "effect": effect}]})
}

fn tolerating(toleration: &Value) -> Value {
    json!({"tolerations": [toleration]})
}

fn required(terms: &Value) -> Value {
    json!({"affinity": {"nodeAffinity":
        {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}})
}

fn label(key: &str, operator: &str, values: &[&str]) -> Value {
    let rule = json!({"key": key, "operator": operator, "values": values});
    required(&json!([{"matchExpressions": [rule]}]))
}

fn field(key: &str, operator: &str, values: &[&str]) -> Value {
    let rule = json!({"key": key, "operator": operator, "values": values});
    required(&json!([{"matchFields": [rule]}]))
}

#[test]
fn a_taint_is_tolerated_by_effect_key_operator_and_value() {
    let five = || tainted("5", "NoSchedule");
    let rows = [
        ("key and value", json!({"key": "gpu", "value": "5"}), TAKEN),
        (
            "Equal is the default operator",
            json!({"key": "gpu", "operator": "Equal", "value": "5"}),
            TAKEN,
        ),
        (
            "another value",
            json!({"key": "gpu", "value": "6"}),
            REFUSED,
        ),
        ("no value is an empty one", json!({"key": "gpu"}), REFUSED),
        (
            "Exists ignores the value",
            json!({"key": "gpu", "operator": "Exists", "value": "6"}),
            TAKEN,
        ),
        (
            "Exists without a key tolerates everything",
            json!({"operator": "Exists"}),
            TAKEN,
        ),
        (
            "another effect",
            json!({"operator": "Exists", "effect": "NoExecute"}),
            REFUSED,
        ),
        (
            "an empty effect is every effect",
            json!({"operator": "Exists", "effect": ""}),
            TAKEN,
        ),
        (
            "another key",
            json!({"key": "other", "operator": "Exists"}),
            REFUSED,
        ),
        (
            "Equal without a key tolerates every key with the value",
            json!({"value": "5"}),
            TAKEN,
        ),
        (
            "an unknown operator tolerates nothing",
            json!({"key": "gpu", "operator": "In", "value": "5"}),
            REFUSED,
        ),
        (
            "Gt needs a feature gate",
            json!({"key": "gpu", "operator": "Gt", "value": "4"}),
            REFUSED,
        ),
        (
            "Lt needs a feature gate",
            json!({"key": "gpu", "operator": "Lt", "value": "5"}),
            REFUSED,
        ),
    ];
    let rows = rows.map(|(rule, toleration, taken)| (rule, tolerating(&toleration), five(), taken));
    check(rows.into());
}

#[test]
fn only_two_effects_keep_pods_off() {
    for (effect, expected) in [
        ("NoSchedule", REFUSED),
        ("NoExecute", REFUSED),
        ("PreferNoSchedule", TAKEN),
        ("", TAKEN),
        ("Never", TAKEN),
    ] {
        let taken = may_go(&json!({}), &tainted("", effect));
        assert_eq!(taken, expected, "{effect:?}");
    }
}

#[test]
fn a_cordon_is_tolerated_like_its_taint() {
    let cordoned = || json!({"unschedulable": true});
    let taint = json!({"taints": [{"key": CORDON, "effect": "NoSchedule"}]});
    check(vec![
        ("a cordon", json!({}), cordoned(), REFUSED),
        (
            "a tolerated cordon",
            tolerating(&json!({"key": CORDON, "operator": "Exists"})),
            cordoned(),
            TAKEN,
        ),
        (
            "a cordon has the effect NoSchedule",
            tolerating(&json!({"key": CORDON, "operator": "Exists", "effect": "NoExecute"})),
            cordoned(),
            REFUSED,
        ),
        ("the taint without the cordon", json!({}), taint, REFUSED),
    ]);
}

#[test]
fn labels_meet_valid_requirements_only() {
    check_pods(
        TAKEN,
        [
            ("In", label("zone", "In", &["b", "a"])),
            ("NotIn without the label", label("none", "NotIn", &["a"])),
            ("Exists", label("zone", "Exists", &[])),
            ("DoesNotExist", label("none", "DoesNotExist", &[])),
            ("Gt", label("cards", "Gt", &["3"])),
            ("Lt", label("cards", "Lt", &["5"])),
            ("an empty value", label("zone", "NotIn", &[""])),
            ("a DNS name", label("a-1.b/C_d", "DoesNotExist", &[])),
        ],
    );
    check_pods(
        REFUSED,
        [
            ("In without the label", label("none", "In", &["a"])),
            ("NotIn", label("zone", "NotIn", &["a"])),
            ("Exists without the label", label("none", "Exists", &[])),
            ("Gt is not at least", label("cards", "Gt", &["4"])),
            ("Lt without the label", label("none", "Lt", &["5"])),
            ("the label is no number", label("size", "Gt", &["3"])),
            ("no number", label("cards", "Gt", &["few"])),
            (
                "a number that is too large",
                label("cards", "Lt", &["9223372036854775808"]),
            ),
            // No label has a negative number as its value.
            ("a negative number", label("cards", "Gt", &["-1"])),
            ("two numbers", label("cards", "Gt", &["3", "2"])),
            ("NotIn without values", label("zone", "NotIn", &[])),
            ("Exists with values", label("zone", "Exists", &["a"])),
            (
                "DoesNotExist with values",
                label("none", "DoesNotExist", &["a"]),
            ),
            ("no label value", label("zone", "NotIn", &["a b"])),
            ("no label key", label("a/b/c", "DoesNotExist", &[])),
            ("no DNS name", label("A.b/c", "DoesNotExist", &[])),
            ("an unknown operator", label("zone", "Is", &["a"])),
        ],
    );
}

#[test]
fn the_name_is_the_only_field_and_is_compared_with_one_value() {
    let name = "metadata.name";
    check_pods(
        TAKEN,
        [
            ("In", field(name, "In", &["n1"])),
            ("NotIn", field(name, "NotIn", &["n2"])),
            (
                "other fields are empty",
                field("metadata.uid", "NotIn", &["n1"]),
            ),
        ],
    );
    check_pods(
        REFUSED,
        [
            ("another name", field(name, "In", &["n2"])),
            ("two names", field(name, "In", &["n1", "n2"])),
            ("another operator", field(name, "Exists", &[])),
            ("another field", field("metadata.uid", "In", &["n1"])),
        ],
    );
}

#[test]
fn one_term_that_matches_as_a_whole_is_enough() {
    let zone = || json!({"key": "zone", "operator": "Exists"});
    let none = || json!({"key": "none", "operator": "Exists"});
    let unknown = || json!({"key": "zone", "operator": "Is"});
    let elsewhere = json!({"key": "metadata.name", "operator": "In", "values": ["n2"]});
    let rows = [
        ("no term", json!([]), REFUSED),
        ("an empty term", json!([{}]), REFUSED),
        (
            "empty lists are an empty term",
            json!([{"matchExpressions": [], "matchFields": []}]),
            REFUSED,
        ),
        (
            "the second of two terms",
            json!([{"matchExpressions": [none()]}, {"matchExpressions": [zone()]}]),
            TAKEN,
        ),
        (
            "both of two requirements",
            json!([{"matchExpressions": [zone(), none()]}]),
            REFUSED,
        ),
        (
            "labels and fields",
            json!([{"matchExpressions": [zone()], "matchFields": [elsewhere]}]),
            REFUSED,
        ),
        (
            "a term that is not valid beside one that matches",
            json!([{"matchExpressions": [unknown()]}, {"matchExpressions": [zone()]}]),
            TAKEN,
        ),
    ];
    check(
        rows.map(|(rule, terms, taken)| (rule, required(&terms), json!({}), taken))
            .into(),
    );
    let mut both = label("zone", "In", &["a"]);
    both["nodeSelector"] = json!({"size": "small"});
    assert!(!may_go(&both, &json!({})), "the selector counts too");
}

#[test]
fn all_obstacles_are_found_in_kube_schedulers_order_and_words() {
    let mut pod = label("zone", "In", &["b"]);
    pod["nodeSelector"] = json!({"pool": "train", "zone": "b"});
    let spec: PodSpec = serde_json::from_value(pod).unwrap();
    let node = json!({"metadata": {"name": "n1", "labels": {"zone": "a"}}, "spec": {
        "unschedulable": true,
        "taints": [
            {"key": "x", "effect": "PreferNoSchedule"},
            {"key": "gpu", "effect": "NoSchedule"},
        ],
    }});
    let node: Node = serde_json::from_value(node).unwrap();
    let taint = &node.spec.as_ref().unwrap().taints.as_ref().unwrap()[1];
    let found: Vec<Obstacle> = obstacles((&spec).into(), (&node).into()).collect();
    let missing = |key, value| Obstacle::Label { key, value };
    let expected = [
        Obstacle::Cordoned,
        Obstacle::Taint(taint),
        missing("pool", "train"),
        missing("zone", "b"),
        Obstacle::Affinity,
    ];
    assert_eq!(found, expected);
    // Sorted as text, as kube-scheduler does it.
    let reasons = found.iter().map(Obstacle::reason);
    let said = "0/9 nodes are available: 1 node(s) had untolerated taint(s), \
                1 node(s) were unschedulable, 3 node(s) didn't match Pod's node affinity/selector.";
    assert_eq!(refusal(9, reasons), said);
}
