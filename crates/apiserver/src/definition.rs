//! Custom resources, as their CustomResourceDefinitions describe them.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceDefinition,
};
use serde_json::Value;

use crate::resource::{Habits, NameRule, Resource, Subresource};
use crate::table::{Cell, Column};

/// The version that is stored as a resource, and the schema of its objects. The error says what cannot be served.
pub(crate) fn resource(crd: &CustomResourceDefinition) -> Result<(Resource, Value), String> {
    let (spec, names) = (&crd.spec, &crd.spec.names);
    let version = spec.versions.iter().find(|version| version.storage);
    let version = version.ok_or("no version of it is stored")?;
    let schema = version.schema.as_ref();
    let schema = schema.and_then(|schema| schema.open_api_v3_schema.as_ref());
    let schema = schema.ok_or("it has no schema")?;
    let schema = serde_json::to_value(schema).map_err(|error| error.to_string())?;
    let status = version.subresources.as_ref();
    let status = status.is_some_and(|subresources| subresources.status.is_some());
    let columns = version.additional_printer_columns.iter().flatten();
    let columns: Vec<Column> = columns
        // Every table ends with the age.
        .filter(|column| column.name != "Age")
        .map(column)
        .collect::<Result<_, _>>()?;
    let singular = names.singular.clone();
    let resource = Resource {
        group: keep(&spec.group),
        version: keep(&version.name),
        plural: keep(&names.plural),
        singular: keep(&singular.unwrap_or_else(|| names.kind.to_lowercase())),
        kind: keep(&names.kind),
        namespaced: spec.scope != "Cluster",
        short_names: keep_all(names.short_names.as_deref()),
        categories: keep_all(names.categories.as_deref()),
        subresources: if status { &[Subresource::Status] } else { &[] },
        selectable: &[],
        names: NameRule::Subdomain,
        habits: Habits {
            unconditional_update: false,
            create_on_update: false,
            returns_deleted: false,
            generation: true,
            resets_status_on_create: true,
        },
        columns: columns.leak(),
    };
    Ok((resource, schema))
}

fn column(definition: &CustomResourceColumnDefinition) -> Result<Column, String> {
    let (name, path) = (&definition.name, &definition.json_path);
    let condition = path
        .strip_prefix(".status.conditions[?(@.type=='")
        .and_then(|rest| rest.strip_suffix("')].status"));
    let cell = match (condition, path.strip_prefix('.')) {
        (Some(kind), _) => Cell::Condition(keep(kind)),
        (None, Some(path)) if !path.contains(['[', '*']) => Cell::Field(keep(path)),
        _ => {
            return Err(format!(
                "column {name}: {path} is not a field or a condition"
            ));
        }
    };
    Ok(Column {
        name: keep(name),
        cell,
        wide: definition.priority.unwrap_or(0) > 0,
    })
}

/// Leaks the text, because rows of the resource table are static. A process serves few definitions, so it leaks little.
fn keep(text: &str) -> &'static str {
    text.to_owned().leak()
}

fn keep_all(texts: Option<&[String]>) -> &'static [&'static str] {
    let texts = texts.unwrap_or_default().iter();
    texts.map(|text| keep(text)).collect::<Vec<_>>().leak()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definition(change: impl FnOnce(&mut Value)) -> CustomResourceDefinition {
        let mut definition = json!({
            "metadata": {"name": "widgets.example.com"},
            "spec": {
                "group": "example.com",
                "scope": "Namespaced",
                "names": {"plural": "widgets", "kind": "Widget"},
                "versions": [
                    {"name": "v1alpha1", "served": true, "storage": false},
                    {"name": "v1", "served": true, "storage": true,
                        "schema": {"openAPIV3Schema": {"type": "object"}},
                        "additionalPrinterColumns": [
                            {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                            {"name": "Ready", "type": "string", "priority": 1,
                                "jsonPath": ".status.conditions[?(@.type=='Ready')].status"},
                            {"name": "Age", "type": "date",
                                "jsonPath": ".metadata.creationTimestamp"},
                        ]},
                ],
            },
        });
        change(&mut definition["spec"]);
        serde_json::from_value(definition).unwrap()
    }

    #[test]
    fn a_definition_becomes_a_row_of_its_stored_version() {
        let (row, schema) = resource(&definition(|_| {})).unwrap();
        assert_eq!(row.api_version(), "example.com/v1");
        assert_eq!((row.singular, row.namespaced), ("widget", true));
        assert!(row.subresources.is_empty() && row.short_names.is_empty());
        assert_eq!(schema, json!({"type": "object"}));
        let [size, ready] = row.columns else {
            panic!("{:?}", row.columns)
        };
        assert!(matches!(size.cell, Cell::Field("spec.size")) && !size.wide);
        assert!(matches!(ready.cell, Cell::Condition("Ready")) && ready.wide);
        let (row, _) = resource(&definition(|spec| {
            spec["scope"] = json!("Cluster");
            spec["names"]["shortNames"] = json!(["w"]);
            spec["versions"][1]["subresources"] = json!({"status": {}});
        }))
        .unwrap();
        assert_eq!((row.namespaced, row.short_names), (false, &["w"][..]));
        assert_eq!(row.subresources, [Subresource::Status]);
    }

    #[test]
    fn what_cannot_be_served_is_named() {
        let unstored = definition(|spec| spec["versions"][1]["storage"] = json!(false));
        assert!(resource(&unstored).unwrap_err().contains("stored"));
        let path = json!(".spec.sizes[0]");
        let odd = definition(|spec| {
            spec["versions"][1]["additionalPrinterColumns"][0]["jsonPath"] = path;
        });
        assert!(resource(&odd).unwrap_err().contains(".spec.sizes[0]"));
    }
}
