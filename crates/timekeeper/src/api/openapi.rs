//! The API's description (OpenAPI 3.1), as `/openapi.json` serves it.
//!
//! Written by hand beside the answers that it describes; tests check real answers against it.

use axum::Json;
use serde_json::{Value, json};

pub(super) async fn serve() -> Json<Value> {
    Json(document())
}

/// The whole description.
pub fn document() -> Value {
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "gpushare timekeeper",
            "version": "1",
            "description": "Budgets of GPU time: what remains, statements, grants and export. Amounts are GPU-seconds as \
                decimal texts with at most six digits after the point, exact. Times are RFC 3339. Every refusal has a \
                body of the schema Problem.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "security": [{"bearer": []}],
        "paths": paths(),
        "components": {
            "securitySchemes": {"bearer": {
                "type": "http", "scheme": "bearer",
                "description": "A token of the cluster, or one with the audience gpushare-timekeeper.",
            }},
            "schemas": schemas(),
        },
    })
}

fn paths() -> Value {
    json!({
        "/v1/namespaces/{namespace}/budget": {"get": operation(
            "How the budget that pays for a namespace stands",
            "The verb get on budgetbalances.gpushare.io in the namespace; service accounts of the namespace always may.",
            &[path("namespace")], &json_answer("Balance"),
        )},
        "/v1/namespaces/{namespace}/pods/{pod}": {"get": operation(
            "What a pod should know of its budget",
            "As for the budget of the namespace.",
            &[path("namespace"), path("pod")], &json_answer("Pod"),
        )},
        "/v1/namespaces/{namespace}/statement": {"get": operation(
            "What a namespace used in a time, to the second",
            "The verb get on budgetstatements.gpushare.io in the namespace.",
            &statement_parameters("namespace"), &statement_answer(),
        )},
        "/v1/budgets": {"get": operation(
            "How all budgets stand",
            "The verb list on gpubudgets.gpushare.io.", &[], &json_answer("Balances"),
        )},
        "/v1/budgets/{budget}": {"get": operation(
            "How a budget stands",
            "The verb get on gpubudgets.gpushare.io.", &[path("budget")], &json_answer("Balance"),
        )},
        "/v1/budgets/{budget}/statement": {"get": operation(
            "What was charged to a budget and its descendants in a time, and what was granted",
            "The verb get on gpubudgets/statement.gpushare.io.",
            &statement_parameters("budget"), &statement_answer(),
        )},
        "/v1/budgets/{budget}/grants": {"post": grant()},
        "/v1/export": {"get": operation(
            "Every posting that was written in a time, one JSON object of the schema Posting in each line",
            "The verb export on gpubudgets.gpushare.io.",
            &[query("from", "Not before this time"), query("to", "Before this time")],
            &json!({"description": "The postings", "content": {"application/x-ndjson": {"schema": {"type": "string"}}}}),
        )},
        "/budget/{namespace}": {"get": deprecated(operation(
            "The predecessor's answer, in GPU-minutes; null where nothing limits the namespace",
            "As for the budget of the namespace.", &[path("namespace")], &json_answer("Predecessor"),
        ))},
        "/budget/{namespace}/report": {"post": gone()},
        "/budget/{namespace}/increase": {"post": gone()},
        "/openapi.json": {"get": {
            "summary": "This description", "security": [],
            "responses": {"200": {"description": "This description", "content": {"application/json": {"schema": {"type": "object"}}}}},
        }},
    })
}

fn operation(summary: &str, right: &str, parameters: &[Value], answer: &Value) -> Value {
    json!({
        "summary": summary, "description": format!("Needs: {right}"), "parameters": parameters,
        "responses": {
            "200": answer,
            "400": problem("A name or parameter is wrong"),
            "401": problem("The token is missing or no good"),
            "403": problem("A right is missing; the message says which"),
            "404": problem("There is none"),
            "410": problem("The details of that time were given up"),
            "429": problem("Too many requests; Retry-After says how long to wait"),
            "503": problem("Not now; Retry-After says when to try again"),
        },
    })
}

fn grant() -> Value {
    let given = json!({"description": "It was granted by an earlier request of the same id",
        "content": content("Grant")});
    let mut grant = operation(
        "Grant a budget more for its current period, once for each id",
        "The verb grant on gpubudgets.gpushare.io. The author is whoever the token belongs to.",
        &[path("budget")],
        &given,
    );
    let body = json!({"required": true, "content": content("GrantRequest")});
    let made = json!({"description": "It is granted", "content": content("Grant")});
    if let Some(fields) = grant.as_object_mut() {
        fields.insert("requestBody".to_owned(), body);
    }
    if let Some(answers) = grant.get_mut("responses").and_then(Value::as_object_mut) {
        answers.insert("201".to_owned(), made);
        let other = problem("The id belongs to another grant of this budget");
        answers.insert("409".to_owned(), other);
        let large = problem("The body is too large");
        answers.insert("413".to_owned(), large);
    }
    grant
}

fn gone() -> Value {
    json!({
        "summary": "Not served any more: usage is metered, and more is granted", "deprecated": true, "security": [],
        "parameters": [path("namespace")],
        "responses": {"410": problem("Always; nothing is changed")},
    })
}

fn deprecated(mut operation: Value) -> Value {
    if let Some(fields) = operation.as_object_mut() {
        fields.insert("deprecated".to_owned(), json!(true));
    }
    operation
}

fn path(name: &str) -> Value {
    json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}})
}

fn query(name: &str, description: &str) -> Value {
    json!({"name": name, "in": "query", "description": description, "schema": {"type": "string"}})
}

fn statement_parameters(of: &str) -> [Value; 5] {
    [
        path(of),
        query(
            "month",
            "Such as 2026-11, in the budget's time zone; the current one if no time is given",
        ),
        query("from", "Instead of a month: from this time"),
        query("to", "Up to this time; now if left out"),
        query(
            "format",
            "json or csv; without it Accept: text/csv asks for CSV",
        ),
    ]
}

fn content(schema: &str) -> Value {
    let reference = format!("#/components/schemas/{schema}");
    json!({"application/json": {"schema": {"$ref": reference}}})
}

fn json_answer(schema: &str) -> Value {
    json!({"description": "The answer", "content": content(schema)})
}

fn statement_answer() -> Value {
    let mut answer = json_answer("Statement");
    if let Some(content) = answer.get_mut("content").and_then(Value::as_object_mut) {
        let csv = json!({"schema": {"type": "string"}});
        content.insert("text/csv".to_owned(), csv);
    }
    answer
}

fn problem(description: &str) -> Value {
    json!({"description": description, "content": content("Problem")})
}

/// All fields are required except those that are named as optional, and no others are allowed.
fn object(fields: &Value, optional: &[&str]) -> Value {
    let names = fields
        .as_object()
        .into_iter()
        .flat_map(|fields| fields.keys());
    let required: Vec<&String> = names
        .filter(|name| !optional.contains(&name.as_str()))
        .collect();
    json!({"type": "object", "required": required, "properties": fields, "additionalProperties": false})
}

fn list(schema: &str) -> Value {
    json!({"type": "array", "items": {"$ref": format!("#/components/schemas/{schema}")}})
}

fn schemas() -> Value {
    let text = json!({"type": "string"});
    let truth = json!({"type": "boolean"});
    let whole = json!({"type": "integer", "format": "int64"});
    let time = json!({"type": ["string", "null"], "format": "date-time"});
    let amount = json!({"type": "string", "pattern": r"^-?[0-9]+(\.[0-9]{1,6})?$"});
    let policy = json!({"type": "string", "enum": ["Demote", "ThrottleNew", "EvictWithGrace"]});
    let number = json!({"type": ["number", "null"]});
    let reference = |name: &str| json!({"$ref": format!("#/components/schemas/{name}")});
    json!({
        "Balance": object(&json!({
            "namespace": text, "budget": text, "whenExhausted": policy,
            "amount": amount, "granted": amount, "carriedOver": amount,
            "used": amount, "held": amount, "remaining": amount,
            "exhausted": truth, "exhaustsAt": time, "periodStarts": time, "periodEnds": time, "at": time,
        }), &["namespace"]),
        "Balances": object(&json!({"budgets": list("Balance")}), &[]),
        "Pod": object(&json!({
            "namespace": text, "pod": text,
            "budget": {"anyOf": [reference("Short"), {"type": "null"}]},
            "overBudget": truth, "evictAt": time,
        }), &[]),
        "Short": object(&json!({
            "name": text, "whenExhausted": policy, "remaining": amount, "remainingSeconds": whole,
            "exhausted": truth, "exhaustsAt": time, "periodEnds": time,
        }), &[]),
        "Statement": object(&json!({
            "namespace": text, "budget": text, "from": time, "to": time,
            "lines": list("Line"), "totalSeconds": whole, "total": amount, "grants": list("Grant"),
        }), &["namespace", "budget", "grants"]),
        "Line": object(&json!({
            "namespace": text, "pod": text, "podUid": text, "from": time, "to": time,
            "seconds": whole, "rate": amount, "formula": text, "amount": amount, "cards": list("HeldCard"),
        }), &[]),
        "HeldCard": object(&json!({
            "id": text, "model": text, "memoryMiB": whole, "ofMemoryMiB": whole, "corePercent": whole,
        }), &[]),
        "GrantRequest": object(&json!({
            "id": {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,128}$"},
            "amount": {"anyOf": [{"type": "integer", "minimum": 1}, text],
                "description": "GPU-seconds, or a duration such as 20h, 1d12h or 90m"},
            "reason": {"type": "string", "minLength": 1, "maxLength": 1024},
        }), &[]),
        "Grant": object(&json!({
            "id": text, "budget": text, "amount": amount, "author": text, "reason": text,
            "periodStarts": time, "grantedAt": time,
        }), &[]),
        "Posting": object(&json!({
            "id": whole, "entry": whole,
            "kind": {"type": "string", "enum": ["charge", "reversal", "issue", "rollover", "grant", "carry"]},
            "writtenAt": time, "from": reference("Side"), "to": reference("Side"), "amount": amount,
            "author": text, "reason": text, "held": reference("Held"),
        }), &["author", "reason", "held"]),
        "Side": object(&json!({"account": text, "name": text, "periodStarts": time}), &["periodStarts"]),
        "Held": object(&json!({
            "namespace": text, "pod": text, "podUid": text, "from": time, "to": time, "rate": amount,
        }), &[]),
        "Predecessor": object(&json!({
            "budget_available": truth, "budget": number, "budget_remaining": number,
        }), &[]),
        "Problem": object(&json!({
            "code": {"type": "integer"}, "reason": text, "message": text,
        }), &[]),
    })
}
