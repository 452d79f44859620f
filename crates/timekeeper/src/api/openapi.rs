//! The API's description (OpenAPI 3.1), as `/openapi.json` serves it.
//!
//! Paths are written by hand, schemas are derived from the types of answers and requests; tests check real answers
//! against it.

use axum::Json;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use super::answers::{Balances, Pod, Posting, Statement};
use super::{grant_request, problem};

/// Where the document keeps its schemas.
const SCHEMAS: &str = "/components/schemas";

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
            "The state of the budget that pays for a namespace",
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
            "The state of a budget",
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
        "The verb grant on gpubudgets.gpushare.io. The author is the owner of the token.",
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
        "summary": "No longer served: usage is metered, and budgets are extended by grants", "deprecated": true, "security": [],
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
    let reference = format!("#{SCHEMAS}/{schema}");
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

/// Every schema that the paths refer to, by its name.
fn schemas() -> Value {
    let settings = SchemaSettings::draft2020_12();
    let settings = settings.with(|settings| settings.definitions_path = SCHEMAS.into());
    let mut answers = settings.clone().for_serialize().into_generator();
    answers.subschema_for::<Balances>();
    answers.subschema_for::<Pod>();
    answers.subschema_for::<Statement>();
    answers.subschema_for::<Posting>();
    answers.subschema_for::<problem::Body<'_>>();
    let mut requests = settings.into_generator();
    requests.subschema_for::<grant_request::GrantRequestBody>();
    let mut schemas = answers.take_definitions(true);
    schemas.extend(requests.take_definitions(true));
    // Its numbers are written digit by digit, so there is no type that it could be derived from.
    let number = json!({"type": ["number", "null"]});
    let predecessor = json!({
        "type": "object", "additionalProperties": false,
        "required": ["budget_available", "budget", "budget_remaining"],
        "properties": {"budget_available": {"type": "boolean"}, "budget": number, "budget_remaining": number},
    });
    schemas.insert("Predecessor".to_owned(), predecessor);
    Value::Object(schemas)
}
