//! The fields of a `GpuBudget`, from the schema that the API server checks.

use std::fmt::Write as _;

use anyhow::{Context, Result};
use gpushare_kube::gpu_budget::GpuBudget;
use kube::CustomResourceExt;
use serde_json::Value;

use crate::begin;
use crate::table::{code, table};

const ABOUT: &str = "`gpubudgets.gpushare.io`, cluster-scoped, short `gb`. What budgets do, with examples: [budgets.md](../budgets.md). Conditions and their \
    reasons: [names.md](names.md#conditions-of-budgets).";

/// Deeper levels contain no fields of ours, only labels and the like.
const DEEPEST: usize = 3;

pub(crate) fn page() -> Result<String> {
    let definition = serde_json::to_value(GpuBudget::crd())?;
    let schema = definition
        .pointer("/spec/versions/0/schema/openAPIV3Schema")
        .context("the definition of GpuBudget has no schema")?;
    let mut text = begin("GpuBudget", ABOUT);
    for (title, part) in [("Spec", "spec"), ("Status", "status")] {
        let schema = schema
            .pointer(&format!("/properties/{part}"))
            .with_context(|| format!("a GpuBudget has no {part}"))?;
        let mut rows = Vec::new();
        collect(schema, "", 1, &mut rows);
        let _ = write!(text, "\n## {title}\n");
        text.push_str(&table(["field", "type", "default", "meaning"], &rows));
        let rules = rules(schema);
        if !rules.is_empty() {
            text.push_str("\nThe API server refuses, with these words:\n\n");
            for rule in rules {
                let _ = writeln!(text, "- {rule}");
            }
        }
    }
    Ok(text)
}

fn collect(schema: &Value, prefix: &str, depth: usize, rows: &mut Vec<[String; 4]>) {
    let required: Vec<&str> = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let properties = schema["properties"].as_object();
    for (name, field) in properties.into_iter().flatten() {
        let path = format!("{prefix}{name}");
        let default = match &field["default"] {
            Value::Null if required.contains(&name.as_str()) => "required".to_owned(),
            Value::Null | Value::Object(_) => String::new(),
            Value::String(text) => code(text),
            other => code(&other.to_string()),
        };
        let described = field["description"].as_str().unwrap_or_default().to_owned();
        rows.push([code(&path), kind(field), default, described]);
        if depth < DEEPEST && name != "conditions" && name != "selector" {
            collect(field, &format!("{path}."), depth + 1, rows);
            collect(&field["items"], &format!("{path}[]."), depth + 1, rows);
        }
    }
}

fn kind(field: &Value) -> String {
    if let Some(values) = field["enum"].as_array() {
        let values = values.iter().filter_map(Value::as_str).map(code);
        return values.collect::<Vec<_>>().join(", ");
    }
    if field["x-kubernetes-int-or-string"] == true {
        return "number or text".to_owned();
    }
    let plain = match field["type"].as_str() {
        Some("string") if field["format"] == "date-time" => "time",
        Some("string") => "text",
        Some("integer") => "number",
        Some("boolean") => "true or false",
        Some("array") => "list",
        _ => "object",
    };
    let bound = |name: &str| field[name].as_f64();
    match (bound("minimum"), bound("maximum")) {
        (Some(least), Some(most)) => format!("{plain}, {least} to {most}"),
        _ => plain.to_owned(),
    }
}

/// The messages of all rules of a schema, in order and once each.
fn rules(schema: &Value) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let own = schema["x-kubernetes-validations"].as_array();
    let messages = own
        .into_iter()
        .flatten()
        .filter_map(|rule| rule["message"].as_str());
    found.extend(messages.map(str::to_owned));
    let properties = schema["properties"].as_object().into_iter().flatten();
    let below = properties
        .map(|(_, field)| field)
        .chain(schema.get("items"));
    for field in below {
        for message in rules(field) {
            if !found.contains(&message) {
                found.push(message);
            }
        }
    }
    found
}
