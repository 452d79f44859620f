//! Those parts of the schema that cannot be derived, with the rules by which the API server refuses nonsense when
//! a budget is applied. Each rule says what to write instead.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

/// Digits are bounded so that no sum of them exceeds what the ledger can hold.
const DURATION: &str = "^([0-9]{1,7}d)?([0-9]{1,8}h)?([0-9]{1,9}m)?([0-9]{1,10}s)?$";

fn rule(rule: &str, message: &str) -> Value {
    json!({"rule": rule, "message": message})
}

pub(super) fn amount(_: &mut SchemaGenerator) -> Schema {
    let number = format!(
        "type(self) == string ? self.matches('{DURATION}') && self.matches('[1-9]') \
         : self > 0 && self <= 1000000000000"
    );
    json_schema!({
        "x-kubernetes-int-or-string": true,
        "maxLength": 40,
        "x-kubernetes-validations": [rule(
            &number,
            "an amount is a positive number of GPU-seconds, or a duration in days, hours, minutes and seconds \
             in this order, such as 20h, 1d12h or 90m",
        )],
    })
}

pub(super) fn formula(_: &mut SchemaGenerator) -> Schema {
    let weight = |what: &str| {
        json!({
            "description": format!("With Weighted: the weight of the {what} fraction."),
            "type": "integer", "format": "int64", "minimum": 0, "maximum": 1000,
        })
    };
    json_schema!({
        "type": "object",
        "properties": {
            "kind": {"type": "string", "enum": ["Max", "Weighted"], "default": "Max"},
            "memory": weight("memory"),
            "core": weight("compute"),
        },
        "default": {},
        "x-kubernetes-validations": [
            rule(
                "self.kind != 'Weighted' || (has(self.memory) && has(self.core) && self.memory + self.core > 0)",
                "Weighted needs both weights, memory and core, and one of them above 0",
            ),
            rule(
                "self.kind == 'Weighted' || (!has(self.memory) && !has(self.core))",
                "weights apply only with kind: Weighted; leave them out, or write kind: Weighted",
            ),
        ],
    })
}

pub(super) fn period(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "properties": {
            "kind": {"type": "string", "enum": ["Month", "Week", "Day", "Rolling"], "default": "Month"},
            "timeZone": {
                "description": "The time zone in which periods begin, by its name in the IANA database.",
                "type": "string", "maxLength": 64, "default": "UTC",
                "x-kubernetes-validations": [
                    rule(
                        "self.matches('^[A-Z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$')",
                        "write a time zone as the IANA database names it, such as Europe/Berlin",
                    ),
                    rule(
                        "timestamp('2000-01-01T00:00:00Z').getFullYear(self) > 0",
                        "the IANA database has no such time zone; write one such as Europe/Berlin",
                    ),
                ],
            },
            "window": {
                "description": "The length of a rolling window, from 1h to 366d, such as 7d.",
                "type": "string", "maxLength": 40,
                "x-kubernetes-validations": [rule(
                    "self.matches('^([1-9][0-9]{0,2}d|[1-9][0-9]{0,3}h)$')",
                    "a window is a number of days or hours, such as 7d or 12h",
                )],
            },
        },
        "default": {},
        "x-kubernetes-validations": [rule(
            "has(self.window) == (self.kind == 'Rolling')",
            "a window belongs to kind: Rolling, which needs one, such as window: 7d",
        )],
    })
}

pub(super) fn when_exhausted(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "enum": ["Demote", "ThrottleNew", "EvictWithGrace"],
        "default": "Demote",
    })
}

pub(super) fn selector(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "properties": {
            "matchLabels": {
                "type": "object", "maxProperties": 32,
                "additionalProperties": {"type": "string", "maxLength": 63},
            },
            "matchExpressions": {
                "type": "array", "maxItems": 32, "x-kubernetes-list-type": "atomic",
                "items": {
                    "type": "object",
                    "required": ["key", "operator"],
                    "properties": {
                        "key": {"type": "string", "maxLength": 317},
                        "operator": {"type": "string", "enum": ["In", "NotIn", "Exists", "DoesNotExist"]},
                        "values": {
                            "type": "array", "maxItems": 64, "x-kubernetes-list-type": "atomic",
                            "items": {"type": "string", "maxLength": 63},
                        },
                    },
                    "x-kubernetes-validations": [rule(
                        "(self.operator in ['In', 'NotIn']) == (has(self.values) && self.values.size() > 0)",
                        "In and NotIn need values; Exists and DoesNotExist take none",
                    )],
                },
            },
        },
        "x-kubernetes-validations": [rule(
            "(has(self.matchLabels) && self.matchLabels.size() > 0) \
             || (has(self.matchExpressions) && self.matchExpressions.size() > 0)",
            "an empty selector would select every namespace of the cluster: name at least one label",
        )],
    })
}

pub(super) fn time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "format": "date-time", "nullable": true})
}

pub(super) fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["type", "status", "reason", "message", "lastTransitionTime"],
            "properties": {
                "type": {"type": "string"},
                "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
                "reason": {"type": "string"},
                "message": {"type": "string"},
                "lastTransitionTime": {"type": "string", "format": "date-time"},
                "observedGeneration": {"type": "integer", "format": "int64"},
            },
        },
    })
}
