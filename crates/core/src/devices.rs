//! Further device classes from configuration: their names, the dimensions in which they are shared, and
//! the resources with which pods ask for them. The code knows nothing else about them.

use std::sync::Arc;

use serde::Deserialize;
use thiserror::Error;

use crate::amounts::{DeviceClass, MAX_DIMENSIONS};
use crate::dialect::{Chooser, Chooses, Count, Dialect, Dialects, PartDefault, PartRule, Scale};

/// The configuration as written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Devices {
    #[serde(default)]
    pub classes: Vec<Class>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Class {
    /// The name used in inventories and records.
    pub name: String,
    pub dimensions: Vec<Dimension>,
    /// The resources that a pod names in its limits.
    pub requests: Vec<Request>,
    /// Annotations with which a pod chooses among the devices.
    #[serde(default)]
    pub annotations: Vec<Annotation>,
}

/// One way in which a device is shared.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dimension {
    pub name: String,
    #[serde(default)]
    pub unit: String,
}

/// One family of resources; a container uses one family.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    pub name: String,
    /// The resource that counts devices; asking for it alone means whole devices.
    #[serde(default)]
    pub count: Option<String>,
    #[serde(default)]
    pub parts: Vec<RequestPart>,
}

/// A resource that asks for a part of each device.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestPart {
    pub resource: String,
    pub dimension: String,
    /// How many of the dimension's units one unit of the resource is.
    #[serde(default = "one")]
    pub each: u64,
    /// A value of more than this many of the dimension's units is refused as a mistake.
    #[serde(default = "no_limit")]
    pub most: u64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Annotation {
    pub name: String,
    pub chooses: Chooses,
}

fn one() -> u64 {
    1
}

fn no_limit() -> u64 {
    u64::MAX
}

#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum DevicesError {
    #[error("device class {0:?} is listed twice; give each class its own name")]
    ClassTwice(String),
    #[error("{field} of device class {class:?} is empty; write a name")]
    Empty { class: String, field: &'static str },
    #[error(
        "device class {class:?} has {found} dimensions; write 1 to {MAX_DIMENSIONS} under `dimensions`"
    )]
    Dimensions { class: String, found: usize },
    #[error("resource {0:?} is used twice; each resource belongs to one request of one class")]
    ResourceTwice(String),
    #[error(
        "resource {0:?} is not the name of an extended resource; write one such as example.com/device"
    )]
    Resource(String),
    #[error("device class {class:?} has no dimension {dimension:?}; it has {known}")]
    NoDimension {
        class: String,
        dimension: String,
        known: String,
    },
    #[error(
        "request {request:?} of device class {class:?} names no resource; write `count`, `parts` or both"
    )]
    NoResource { class: String, request: String },
    #[error("`each` of {0:?} is 0; write how many of the dimension's units one of it is")]
    Each(String),
}

impl Devices {
    /// The dialects with these classes added.
    pub fn add_to(&self, dialects: Dialects) -> Result<Dialects, DevicesError> {
        let mut dialects = dialects;
        for class in &self.classes {
            class.add_to(&mut dialects)?;
        }
        let mut resources: Vec<&str> = dialects.resources().map(|name| &**name).collect();
        resources.sort_unstable();
        let same = |pair: &&[&str]| pair.first() == pair.last();
        let twice = resources.windows(2).find(same).and_then(<[&str]>::first);
        match twice {
            Some(resource) => Err(DevicesError::ResourceTwice((*resource).to_owned())),
            None => Ok(dialects),
        }
    }
}

impl Class {
    fn add_to(&self, dialects: &mut Dialects) -> Result<(), DevicesError> {
        self.check()?;
        if dialects.classes.get(&self.name).is_some() {
            return Err(DevicesError::ClassTwice(self.name.clone()));
        }
        let dimensions: Vec<(&str, &str)> = self
            .dimensions
            .iter()
            .map(|dimension| (dimension.name.as_str(), dimension.unit.as_str()))
            .collect();
        let class = DeviceClass::new(&self.name, &dimensions);
        let known = dialects.classes.iter().cloned();
        dialects.classes = known.chain(class).collect();
        for request in &self.requests {
            dialects.dialects.push(request.dialect(self)?);
        }
        let choosers = self.annotations.iter().map(|annotation| Chooser {
            annotation: annotation.name.as_str().into(),
            class: self.name.as_str().into(),
            chooses: annotation.chooses,
        });
        dialects.choosers.extend(choosers);
        Ok(())
    }

    fn check(&self) -> Result<(), DevicesError> {
        let empty = |field| DevicesError::Empty {
            class: self.name.clone(),
            field,
        };
        if self.name.trim().is_empty() {
            return Err(empty("`name`"));
        }
        if !(1..=MAX_DIMENSIONS).contains(&self.dimensions.len()) {
            return Err(DevicesError::Dimensions {
                class: self.name.clone(),
                found: self.dimensions.len(),
            });
        }
        if self
            .dimensions
            .iter()
            .any(|dimension| dimension.name.is_empty())
        {
            return Err(empty("`name` of a dimension"));
        }
        if self
            .annotations
            .iter()
            .any(|annotation| annotation.name.is_empty())
        {
            return Err(empty("`name` of an annotation"));
        }
        Ok(())
    }

    fn dimension(&self, name: &str) -> Result<(usize, Arc<str>), DevicesError> {
        let mut dimensions = self.dimensions.iter().enumerate();
        let found = dimensions.find(|(_, dimension)| dimension.name == name);
        found
            .map(|(index, dimension)| (index, dimension.unit.as_str().into()))
            .ok_or_else(|| {
                let known = self
                    .dimensions
                    .iter()
                    .map(|dimension| dimension.name.as_str());
                DevicesError::NoDimension {
                    class: self.name.clone(),
                    dimension: name.to_owned(),
                    known: known.collect::<Vec<_>>().join(", "),
                }
            })
    }
}

impl Request {
    fn dialect(&self, class: &Class) -> Result<Dialect, DevicesError> {
        if self.count.is_none() && self.parts.is_empty() {
            return Err(DevicesError::NoResource {
                class: class.name.clone(),
                request: self.name.clone(),
            });
        }
        let count = self.count.as_deref().map(|name| {
            Ok(Count {
                resource: resource(name)?,
                required: false,
                whole_alone: true,
            })
        });
        let parts = self.parts.iter().map(|part| part.rule(class));
        Ok(Dialect {
            name: self.name.as_str().into(),
            class: class.name.as_str().into(),
            count: count.transpose()?,
            parts: parts.collect::<Result<_, _>>()?,
            zero_is_absent: false,
        })
    }
}

impl RequestPart {
    fn rule(&self, class: &Class) -> Result<PartRule, DevicesError> {
        let (dimension, unit) = class.dimension(&self.dimension)?;
        if self.each == 0 {
            return Err(DevicesError::Each(self.resource.clone()));
        }
        Ok(PartRule {
            resource: resource(&self.resource)?,
            dimension,
            scale: Scale::Units {
                unit,
                each: self.each,
                most: self.most,
            },
            absent: PartDefault::Nothing,
        })
    }
}

fn resource(name: &str) -> Result<Arc<str>, DevicesError> {
    let (domain, rest) = name.split_once('/').unwrap_or_default();
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let named = |part: &str| !part.is_empty() && part.len() <= 253 && part.chars().all(allowed);
    if named(domain) && named(rest) {
        Ok(name.into())
    } else {
        Err(DevicesError::Resource(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::gpu::{self, AliyunUnit};

    fn read(classes: &Value) -> Result<Dialects, DevicesError> {
        let devices: Devices = serde_json::from_value(json!({"classes": classes})).unwrap();
        devices.add_to(gpu::dialects(AliyunUnit::GiB))
    }

    fn rdma() -> Value {
        json!({
            "name": "rdma", "dimensions": [{"name": "bandwidth", "unit": "Mbit/s"}],
            "requests": [{"name": "rdma", "count": "rdma/hca", "parts": [
                {"resource": "rdma/bandwidth", "dimension": "bandwidth", "most": 800_000}]}],
            "annotations": [{"name": "rdma/card-models", "chooses": "models"}],
        })
    }

    #[test]
    fn a_class_adds_its_resources_to_those_of_gpus() {
        let dialects = read(&json!([rdma()])).unwrap();
        assert!(dialects.class("rdma").is_some() && dialects.class("gpu").is_some());
        assert!(dialects.resources().any(|name| **name == *"rdma/bandwidth"));
    }

    #[test]
    fn a_mistake_is_named_with_its_remedy() {
        let with = |path: &str, value: Value| {
            let mut class = rdma();
            *class.pointer_mut(path).unwrap() = value;
            read(&json!([class])).unwrap_err().to_string()
        };
        for (path, value, expected) in [
            ("/name", json!("gpu"), "is listed twice"),
            ("/name", json!(""), "write a name"),
            ("/dimensions", json!([]), "write 1 to 4 under `dimensions`"),
            (
                "/requests/0/count",
                json!("hca"),
                "such as example.com/device",
            ),
            (
                "/requests/0/count",
                json!("gpushare.io/gpu"),
                "is used twice",
            ),
            (
                "/requests/0/parts/0/dimension",
                json!("speed"),
                "it has bandwidth",
            ),
            (
                "/requests/0",
                json!({"name": "none"}),
                "write `count`, `parts` or both",
            ),
        ] {
            let error = with(path, value);
            assert!(error.contains(expected), "{path}: {error}");
        }
    }
}
