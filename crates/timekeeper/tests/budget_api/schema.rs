//! As much of JSON Schema as the description uses. An unknown keyword is a failure, so that nothing goes unchecked.
//!
//! The crate `jsonschema` is not used: it brings two dozen crates that nothing else here needs, for these few words.

use regex::Regex;
use serde_json::Value;

/// Everything in which a value differs from a schema.
pub(crate) fn differences(document: &Value, schema: &Value, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    check(document, schema, value, "$", &mut found);
    found
}

/// A schema by its name.
pub(crate) fn named<'a>(document: &'a Value, name: &str) -> &'a Value {
    let schema = &document["components"]["schemas"][name];
    assert!(schema.is_object(), "no schema {name}");
    schema
}

fn check(document: &Value, schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    for (word, wanted) in schema.as_object().unwrap() {
        let mut expect = |holds: bool| {
            if !holds {
                found.push(format!("{at}: {value} is not of {word} {wanted}"));
            }
        };
        match word.as_str() {
            "$ref" => {
                let name = wanted.as_str().unwrap().rsplit('/').next().unwrap();
                check(document, named(document, name), value, at, found);
            }
            "type" => {
                let kinds = wanted.as_array().cloned();
                let kinds = kinds.unwrap_or_else(|| vec![wanted.clone()]);
                expect(kinds.iter().any(|kind| is(value, kind.as_str().unwrap())));
            }
            "const" => expect(value == wanted),
            "enum" => expect(wanted.as_array().unwrap().contains(value)),
            "anyOf" | "oneOf" => {
                let fits = |schema: &&Value| differences(document, schema, value).is_empty();
                let fitting = wanted.as_array().unwrap().iter().filter(fits).count();
                expect(fitting == 1 || fitting > 1 && word == "anyOf");
            }
            "required" => {
                let mut names = wanted.as_array().unwrap().iter();
                expect(names.all(|name| value.get(name.as_str().unwrap()).is_some()));
            }
            "properties" => {
                for (name, schema) in wanted.as_object().unwrap() {
                    if let Some(value) = value.get(name) {
                        check(document, schema, value, &format!("{at}.{name}"), found);
                    }
                }
            }
            "additionalProperties" => {
                assert_eq!(*wanted, Value::Bool(false));
                let known = &schema["properties"];
                let fields = value.as_object().into_iter().flatten();
                for (name, _) in fields.filter(|(name, _)| known.get(name).is_none()) {
                    found.push(format!("{at}: {name} is not described"));
                }
            }
            "items" => {
                for (number, item) in value.as_array().into_iter().flatten().enumerate() {
                    check(document, wanted, item, &format!("{at}[{number}]"), found);
                }
            }
            "pattern" => {
                let pattern = Regex::new(wanted.as_str().unwrap()).unwrap();
                expect(value.as_str().is_none_or(|text| pattern.is_match(text)));
            }
            "format" if wanted == "date-time" => expect(
                value
                    .as_str()
                    .is_none_or(|text| text.parse::<jiff::Timestamp>().is_ok()),
            ),
            "minimum" => expect(
                value
                    .as_i64()
                    .is_none_or(|it| it >= wanted.as_i64().unwrap()),
            ),
            "maximum" => expect(
                value
                    .as_i64()
                    .is_none_or(|it| it <= wanted.as_i64().unwrap()),
            ),
            "minLength" => expect(length(value).is_none_or(|it| it >= wanted.as_u64().unwrap())),
            "maxLength" => expect(length(value).is_none_or(|it| it <= wanted.as_u64().unwrap())),
            "format" | "description" => {}
            other => found.push(format!("{at}: the word {other} is not understood here")),
        }
    }
}

fn length(value: &Value) -> Option<u64> {
    Some(value.as_str()?.chars().count() as u64)
}

fn is(value: &Value, kind: &str) -> bool {
    match kind {
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64(),
        "number" => value.is_number(),
        "null" => value.is_null(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    }
}
