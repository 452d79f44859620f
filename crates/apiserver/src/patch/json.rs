//! JSON patch (RFC 6902): a list of operations, all or nothing.

use serde_json::{Map, Value};

use crate::failure::Failure;

/// More operations than this are refused, as by the real server.
const MAX_OPERATIONS: usize = 10_000;

pub(super) fn parse(body: &[u8]) -> Result<json_patch::Patch, Failure> {
    let operations: Vec<Map<String, Value>> = serde_json::from_slice(body)
        .map_err(|e| Failure::bad_request(format!("error decoding patch: {e}")))?;
    if operations.len() > MAX_OPERATIONS {
        return Err(Failure::too_large(MAX_OPERATIONS));
    }
    let operations = operations.into_iter().map(Value::Object).collect::<Value>();
    serde_json::from_value(operations).map_err(|_| Failure::unprocessable_patch())
}

pub(super) fn patched(current: &Value, patch: &json_patch::Patch) -> Result<Value, Failure> {
    let mut value = current.clone();
    json_patch::patch(&mut value, patch).map_err(|_| Failure::unprocessable_patch())?;
    Ok(value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(operations: &Value, expected: Option<&Value>) {
        let current = json!({"metadata": {"labels": {"a": "1"}}});
        let patch = parse(operations.to_string().as_bytes()).unwrap();
        assert_eq!(
            patched(&current, &patch).ok().as_ref(),
            expected,
            "{operations}"
        );
    }

    #[test]
    fn operations_apply_together_or_not_at_all() {
        check(
            &json!([
                {"op": "test", "path": "/metadata/labels/a", "value": "1"},
                {"op": "replace", "path": "/metadata/labels/a", "value": "2"},
                {"op": "add", "path": "/metadata/labels/b~1c", "value": "3"},
            ]),
            Some(&json!({"metadata": {"labels": {"a": "2", "b/c": "3"}}})),
        );
        check(
            &json!([
                {"op": "replace", "path": "/metadata/labels/a", "value": "2"},
                {"op": "test", "path": "/metadata/labels/a", "value": "1"},
            ]),
            None,
        );
        check(
            &json!([{"op": "remove", "path": "/metadata/labels/gone"}]),
            None,
        );
    }

    #[test]
    fn something_else_than_a_list_of_operations_is_a_bad_request() {
        for body in ["{}", "[1]", "[", ""] {
            assert_eq!(parse(body.as_bytes()).unwrap_err().code, 400, "{body}");
        }
        let unknown = "[{\"op\":\"jump\",\"path\":\"/a\"}]";
        assert_eq!(parse(unknown.as_bytes()).unwrap_err().code, 422);
    }
}
