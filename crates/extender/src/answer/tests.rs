use serde_json::{Value, json};

use super::*;
use crate::wire::Args;

fn body(names: &Value) -> String {
    json!({"Pod": {"metadata": {"uid": "u"}}, "NodeNames": names}).to_string()
}

fn no_cards(class: &str) -> Why {
    Why::NoCards {
        class: class.into(),
    }
}

fn written(answer: &Answer<'_>) -> Value {
    serde_json::from_slice(&answer.write().unwrap()).unwrap()
}

#[test]
fn every_name_is_offered_or_refused_with_its_own_reason() {
    let body = body(&json!(["a", "b", "c", "d"]));
    let args = Args::parse(body.as_bytes()).unwrap();
    let answer = Answer::of(&args.candidates, |name| match name {
        "a" | "d" => Some(no_cards("gpu")),
        "c" => Some(no_cards("rdma")),
        _ => None,
    });
    let (gpu, rdma) = (
        format!("gpushare: {}", no_cards("gpu")),
        format!("gpushare: {}", no_cards("rdma")),
    );
    assert_eq!(
        written(&answer),
        json!({
            "NodeNames": ["b"],
            "FailedNodes": {},
            "FailedAndUnresolvableNodes": {"a": gpu, "c": rdma, "d": gpu},
            "Error": "",
        })
    );
    let refusals: Vec<u64> = answer.refusals().map(|(_, nodes)| nodes).collect();
    assert_eq!(refusals, [2, 1], "equal reasons are counted together");
    assert_eq!((answer.asked(), answer.refused()), (4, 3));
    assert_eq!(answer.why_none(), None);
}

#[test]
fn names_that_json_must_escape_come_back_as_they_went() {
    let names = json!(["plain", "quo\"te", "back\\slash", "tab\t", "ü", "\u{1f600}"]);
    let body = body(&names).replace('ü', "\\u00fc");
    let args = Args::parse(body.as_bytes()).unwrap();
    let offered = written(&Answer::offering_all(&args.candidates));
    assert_eq!(offered["NodeNames"], names);
    let why = |_: &str| Some(no_cards("gpu"));
    let refused = written(&Answer::of(&args.candidates, why));
    let refused = refused["FailedAndUnresolvableNodes"].as_object().unwrap();
    assert!(
        names
            .as_array()
            .unwrap()
            .iter()
            .all(|name| refused.contains_key(name.as_str().unwrap()))
    );
}

#[test]
fn a_reason_that_json_must_escape_is_read_as_it_was_meant() {
    let body = body(&json!(["a"]));
    let args = Args::parse(body.as_bytes()).unwrap();
    let reason = "container \"main\": \\ is no number";
    let answer = Answer::refusing_all(&args.candidates, &reason, Refusal::InvalidRequest);
    let expected = format!("gpushare: {reason}");
    assert_eq!(
        written(&answer)["FailedAndUnresolvableNodes"],
        json!({"a": expected})
    );
    assert_eq!(answer.why_none(), Some(&*expected));
}

#[test]
fn whole_nodes_come_back_word_for_word() {
    let node = r#"{ "metadata": {"name":"a"}, "unknown" : [1.50, {}] }"#;
    let other = r#"{"metadata":{"name":"b"}}"#;
    let body = format!(
        r#"{{"Pod":{{"metadata":{{"uid":"u"}}}},"Nodes":{{"items":[{node},{other}]}},"NodeNames":null}}"#
    );
    let args = Args::parse(body.as_bytes()).unwrap();
    let answer = Answer::of(&args.candidates, |name| {
        (name == "b").then(|| no_cards("gpu"))
    });
    let text = String::from_utf8(answer.write().unwrap()).unwrap();
    let start = format!(r#"{{"Nodes":{{"metadata":{{}},"items":[{node}]}},"FailedNodes":{{}},"#);
    assert!(text.starts_with(&start), "{text}");
    assert!(written(&answer)["FailedAndUnresolvableNodes"]["b"].is_string());
}

#[test]
fn an_error_says_nothing_of_the_nodes() {
    let body = body(&json!(["a"]));
    let args = Args::parse(body.as_bytes()).unwrap();
    let answer = Answer::error(
        &args.candidates,
        &"nodes are not listed yet",
        Refusal::NotReady,
    );
    assert_eq!(
        written(&answer),
        json!({
            "FailedNodes": {}, "FailedAndUnresolvableNodes": {},
            "Error": "gpushare: nodes are not listed yet",
        })
    );
    assert_eq!(
        answer.why_none(),
        Some("gpushare: nodes are not listed yet")
    );
}

#[test]
fn no_candidates_make_an_empty_answer() {
    let body = body(&json!([]));
    let args = Args::parse(body.as_bytes()).unwrap();
    let answer = Answer::offering_all(&args.candidates);
    assert_eq!(written(&answer)["NodeNames"], json!([]));
    assert_eq!(answer.why_none(), None);
}
