//! The output of programs, and assertions about it.

use assert_cmd::Command;
use serde_json::Value;

/// The output of a program that succeeds.
#[track_caller]
pub(crate) fn stdout(command: &mut Command) -> String {
    let assert = command.assert().success();
    String::from_utf8(assert.get_output().stdout.clone()).unwrap()
}

/// The complaint of a program that fails with this exit status.
#[track_caller]
pub(crate) fn stderr(command: &mut Command, code: i32) -> String {
    let assert = command.assert().code(code);
    String::from_utf8(assert.get_output().stderr.clone()).unwrap()
}

/// The object that a program prints before it ends with this exit status.
#[track_caller]
pub(crate) fn object(command: &mut Command, code: i32) -> Value {
    let assert = command.assert().code(code);
    serde_json::from_slice(&assert.get_output().stdout).unwrap()
}

/// Asserts that JSON and YAML say the same.
#[track_caller]
pub(crate) fn assert_same_object(json: &str, yaml: &str) {
    let from_json: Value = serde_json::from_str(json).unwrap();
    let from_yaml: Value = serde_saphyr::from_str(yaml).unwrap();
    assert_eq!(from_json, from_yaml);
}

/// Asserts that the text has each of these parts.
#[track_caller]
pub(crate) fn assert_parts(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} in {text}");
    }
}
