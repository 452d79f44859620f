//! Objects as rows of a table: what `kubectl get` prints. The server decides the columns, as the real one does, so that
//! every client shows the same.
//!
//! Pure functions of the object and the time. The caller chooses the objects.

mod age;
mod cells;
mod columns;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::json::Path;
use crate::resource::Resource;

pub(crate) use columns::{Cell, Column};

/// How much of each object its row includes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Include {
    Nothing,
    Metadata,
    Whole,
}

impl Include {
    /// Reads the parameter `includeObject`.
    pub(crate) fn parse(text: Option<&str>) -> Self {
        match text {
            Some("None") => Self::Nothing,
            Some("Object") => Self::Whole,
            _ => Self::Metadata,
        }
    }
}

/// A table of objects of one kind. `metadata` is the metadata of the list.
pub(crate) fn table<'v>(
    resource: &Resource,
    objects: impl Iterator<Item = &'v Value>,
    metadata: &Value,
    include: Include,
    now: Timestamp,
) -> Value {
    let columns = columns::of(resource);
    let rows: Vec<Value> = objects
        .map(|object| row(&columns, object, include, now))
        .collect();
    let definitions: Vec<Value> = columns.iter().map(definition).collect();
    json!({
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": definitions,
        "rows": rows,
    })
}

fn definition(column: &Column) -> Value {
    // kubectl shows columns with a priority above 0 only with -o wide.
    json!({
        "name": column.name,
        "type": column.kind(),
        "format": if column.name == "Name" { "name" } else { "" },
        "description": column.name,
        "priority": i32::from(column.wide),
    })
}

fn row(columns: &[Column], object: &Value, include: Include, now: Timestamp) -> Value {
    let cells: Vec<Value> = columns
        .iter()
        .map(|column| column.cell.read(object, now))
        .collect();
    let mut row = json!({ "cells": cells });
    match include {
        Include::Nothing => {}
        Include::Whole => row.put("object", object.clone()),
        Include::Metadata => row.put(
            "object",
            json!({
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": object.at("metadata"),
            }),
        ),
    }
    row
}

#[cfg(test)]
mod tests;
