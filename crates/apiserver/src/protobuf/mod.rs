//! Objects as protobuf, the form in which `kubectl create` and `kubectl auth` send them: kubectl's clients for single
//! kinds do not fall back to JSON when a server refuses protobuf. Only bodies are read; answers are JSON, which every
//! client accepts.
//!
//! Only the fields that these commands set are known ([`shapes`]). Any other field is refused, never dropped.

mod shapes;
mod wire;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value};

use shapes::{Field, Kind, Many};
use wire::{Payload, Reader};

pub(crate) const CONTENT_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// Every object starts with this.
const MAGIC: &[u8] = b"k8s\0";

/// The object as JSON. The error says what is wrong with the body.
pub(crate) fn parse(body: &[u8]) -> Result<Value, String> {
    let envelope = body
        .strip_prefix(MAGIC)
        .ok_or("the body does not begin as an object in protobuf does")?;
    let (mut types, mut raw) = (Map::new(), &[][..]);
    for entry in Reader::new(envelope) {
        match entry? {
            (1, Payload::Bytes(bytes)) => types = message(shapes::TYPE_META, bytes, "")?,
            (2, Payload::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    let word = |name: &str| types.get(name).and_then(Value::as_str).unwrap_or_default();
    let kind = word("kind");
    let fields = shapes::of(word("apiVersion"), kind).ok_or_else(|| {
        format!("this server does not read {kind} as protobuf; send JSON or YAML, as `kubectl apply` does")
    })?;
    let mut object = message(fields, raw, kind)?;
    object.append(&mut types);
    Ok(Value::Object(object))
}

fn message(fields: &[Field], bytes: &[u8], path: &str) -> Result<Map<String, Value>, String> {
    let mut object = Map::new();
    for entry in Reader::new(bytes) {
        let (number, payload) = entry?;
        let field = fields.iter().find(|field| field.number == number).ok_or_else(|| {
            format!("this server does not read field {number} of {path} as protobuf; send JSON or YAML, as `kubectl apply` does")
        })?;
        let path = format!("{path}.{}", field.name);
        match field.many {
            Many::One => {
                if let Some(value) = value(&field.kind, payload, &path)? {
                    object.insert(field.name.to_owned(), value);
                }
            }
            Many::List => {
                let list = object
                    .entry(field.name)
                    .or_insert_with(|| Value::Array(Vec::new()));
                if let (Value::Array(list), Some(value)) =
                    (list, value(&field.kind, payload, &path)?)
                {
                    list.push(value);
                }
            }
            Many::Map => {
                let (key, value) = pair(&field.kind, payload, &path)?;
                let map = object
                    .entry(field.name)
                    .or_insert_with(|| Value::Object(Map::new()));
                if let Value::Object(map) = map {
                    map.insert(key, value);
                }
            }
        }
    }
    Ok(object)
}

/// Reads an entry of a map: a message with a key and a value.
fn pair(kind: &Kind, payload: Payload<'_>, path: &str) -> Result<(String, Value), String> {
    let (mut key, mut found) = (String::new(), Value::from(""));
    for entry in Reader::new(payload.bytes(path)?) {
        match entry? {
            (1, payload) => payload.text(path)?.clone_into(&mut key),
            (2, payload) => found = value(kind, payload, path)?.unwrap_or(found),
            _ => {}
        }
    }
    Ok((key, found))
}

/// `None` for what protobuf contains but JSON leaves out: an empty text, or a zero that means unset.
fn value(kind: &Kind, payload: Payload<'_>, path: &str) -> Result<Option<Value>, String> {
    Ok(match kind {
        Kind::Skipped => None,
        Kind::Text => Some(payload.text(path)?)
            .filter(|text| !text.is_empty())
            .map(Value::from),
        Kind::Bytes => Some(STANDARD.encode(payload.bytes(path)?).into()),
        Kind::Flag => payload.flag(path)?.then_some(Value::Bool(true)),
        Kind::ChosenFlag => Some(payload.flag(path)?.into()),
        Kind::Number => Some(payload.number(path)?)
            .filter(|number| *number != 0)
            .map(Value::from),
        Kind::ChosenNumber => Some(payload.number(path)?.into()),
        Kind::Quantity => {
            let quantity = message(shapes::QUANTITY, payload.bytes(path)?, path)?;
            quantity.into_iter().next().map(|(_, text)| text)
        }
        Kind::Time => time(payload.bytes(path)?, path)?,
        Kind::NumberOrText => Some(number_or_text(payload.bytes(path)?, path)?),
        Kind::Object(fields) => {
            let object = message(fields, payload.bytes(path)?, path)?;
            Some(Value::Object(object))
        }
    })
}

fn time(bytes: &[u8], path: &str) -> Result<Option<Value>, String> {
    let mut seconds = None;
    for entry in Reader::new(bytes) {
        if let (1, payload) = entry? {
            seconds = Some(payload.number(path)?);
        }
    }
    let moment = seconds.map(Timestamp::from_second).transpose();
    let moment = moment.map_err(|error| format!("{path}: {error}"))?;
    Ok(moment.map(|moment| moment.to_string().into()))
}

fn number_or_text(bytes: &[u8], path: &str) -> Result<Value, String> {
    let (mut is_text, mut number, mut text) = (false, 0, "");
    for entry in Reader::new(bytes) {
        match entry? {
            (1, payload) => is_text = payload.flag(path)?,
            (2, payload) => number = payload.number(path)?,
            (3, payload) => text = payload.text(path)?,
            _ => {}
        }
    }
    Ok(if is_text { text.into() } else { number.into() })
}

#[cfg(test)]
mod tests;
