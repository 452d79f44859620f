use serde_json::json;

use super::*;

/// A field that holds bytes, as a client writes it.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut written = vec![number << 3 | 2, u8::try_from(bytes.len()).unwrap()];
    written.extend(bytes);
    written
}

fn body(api_version: &str, kind: &str, object: &[u8]) -> Vec<u8> {
    let types = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
    let fields = [field(1, &types), field(2, object), field(3, b"")].concat();
    [MAGIC, &fields].concat()
}

fn named(name: &str) -> Vec<u8> {
    // Includes unset fields that clients write nevertheless: an empty text, and a time without a value.
    let metadata = [field(1, name.as_bytes()), field(2, b""), field(8, b"")].concat();
    field(1, &metadata)
}

#[test]
fn maps_bytes_and_texts_are_read_and_what_says_nothing_is_left_out() {
    let data = field(2, &[field(1, b"key"), field(2, b"value")].concat());
    let secret = [named("s"), data, field(3, b"Opaque")].concat();
    assert_eq!(
        parse(&body("v1", "Secret", &secret)).unwrap(),
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"},
            "data": {"key": "dmFsdWU="}, "type": "Opaque",
        })
    );
}

#[test]
fn a_zero_that_was_chosen_stays_and_quantities_keep_their_spelling() {
    let quantity = field(1, b"2048");
    let limit = [field(1, b"gpushare.io/gpu-mem"), field(2, &quantity)].concat();
    let container = [
        field(1, b"app"),
        field(3, b"sleep"),
        field(3, b"5"),
        field(8, &field(1, &limit)),
    ]
    .concat();
    let template = field(2, &field(2, &container));
    // replicas: 0, minReadySeconds: 0
    let spec = [vec![1 << 3, 0], field(3, &template), vec![5 << 3, 0]].concat();
    let deployment = [named("d"), field(2, &spec)].concat();
    let read = parse(&body("apps/v1", "Deployment", &deployment)).unwrap();
    assert_eq!(
        read["spec"],
        json!({"replicas": 0, "template": {"spec": {"containers": [{
            "name": "app", "command": ["sleep", "5"],
            "resources": {"limits": {"gpushare.io/gpu-mem": "2048"}},
        }]}}})
    );
}

#[test]
fn ports_may_be_numbers_or_names() {
    let named_port = [vec![1 << 3, 1], field(3, b"web")].concat();
    let numbered = vec![2 << 3, 80];
    for (target, expected) in [(named_port, json!("web")), (numbered, json!(80))] {
        let spec = field(1, &field(4, &target));
        let service = [named("s"), field(2, &spec)].concat();
        let read = parse(&body("v1", "Service", &service)).unwrap();
        assert_eq!(read["spec"]["ports"][0]["targetPort"], expected);
    }
}

#[test]
fn what_is_not_known_is_refused_by_name_and_with_a_way_out() {
    let unknown = parse(&body("v1", "Endpoints", b"")).unwrap_err();
    assert!(
        unknown.contains("Endpoints") && unknown.contains("kubectl apply"),
        "{unknown}"
    );
    let volumes = [named("p"), field(2, &field(1, b""))].concat();
    let refused = parse(&body("v1", "Pod", &volumes)).unwrap_err();
    assert!(refused.contains("field 1 of Pod.spec"), "{refused}");
}

#[test]
fn a_body_that_is_cut_off_anywhere_is_refused_or_read_and_never_a_panic() {
    let whole = body("v1", "Secret", &named("s"));
    assert!(parse(&whole).is_ok());
    for end in 0..whole.len() {
        let _either = parse(&whole[..end]);
    }
    for inside_a_field in [1, 3] {
        let cut = parse(&whole[..whole.len() - inside_a_field]);
        assert!(cut.is_err(), "{cut:?}");
    }
    assert!(parse(b"{}").is_err());
    assert!(parse(&[MAGIC, &[0xff; 12]].concat()).is_err());
}
