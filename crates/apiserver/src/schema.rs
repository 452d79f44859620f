//! How lists of the built-in kinds merge: which are keyed, by what, which are sets, which are replaced whole.
//! Data only; the patch code looks fields up here and names none itself.

/// How two versions of a list are merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListKind {
    /// Items are identified by fields: one in a strategic merge, possibly several in apply.
    Keyed {
        strategic: Option<&'static str>,
        apply: &'static [&'static str],
    },
    /// Scalars, each at most once.
    Set,
    /// Replaced as a whole.
    Atomic,
}

/// (enclosing field, list field, key of a strategic merge, keys of apply). Items of a list count as inside it;
/// an empty strategic key means that strategic merge replaces the list; empty apply keys mean that apply does.
const KEYED: &[(&str, &str, &str, &[&str])] = &[
    ("metadata", "ownerReferences", "uid", &["uid"]),
    ("status", "conditions", "type", &["type"]),
    ("status", "addresses", "type", &["type"]),
    ("status", "podIPs", "ip", &["ip"]),
    ("status", "hostIPs", "ip", &[]),
    ("status", "resourceClaimStatuses", "name", &["name"]),
    ("spec", "containers", "name", &["name"]),
    ("spec", "initContainers", "name", &["name"]),
    ("spec", "ephemeralContainers", "name", &["name"]),
    ("spec", "volumes", "name", &["name"]),
    ("spec", "imagePullSecrets", "name", &["name"]),
    ("spec", "hostAliases", "ip", &["ip"]),
    ("spec", "schedulingGates", "name", &["name"]),
    ("spec", "resourceClaims", "name", &["name"]),
    (
        "spec",
        "topologySpreadConstraints",
        "topologyKey",
        &["topologyKey", "whenUnsatisfiable"],
    ),
    ("spec", "ports", "port", &["port", "protocol"]),
    ("resources", "claims", "", &["name"]),
    ("", "secrets", "name", &["name"]),
    ("", "webhooks", "name", &["name"]),
    ("webhooks", "matchConditions", "name", &["name"]),
];

/// The same for the lists inside a container, whichever of the container lists it is in.
const IN_CONTAINER: &[(&str, &str, &[&str])] = &[
    ("env", "name", &["name"]),
    ("ports", "containerPort", &["containerPort", "protocol"]),
    ("volumeMounts", "mountPath", &["mountPath"]),
    ("volumeDevices", "devicePath", &["devicePath"]),
];

const SETS: &[(&str, &str)] = &[("metadata", "finalizers"), ("spec", "podCIDRs")];

/// Maps and structs that apply owns and replaces as a whole.
const ATOMIC_MAPS: &[&str] = &[
    "selector",
    "labelSelector",
    "namespaceSelector",
    "nodeSelector",
    "nodeSelectorTerms",
    "fieldRef",
    "resourceFieldRef",
    "configMapKeyRef",
    "secretKeyRef",
    "involvedObject",
    "related",
];

/// Map-valued fields of the built-in kinds: the API does not show them when they are empty.
pub(crate) const MAPS: &[&str] = &[
    "labels",
    "annotations",
    "nodeSelector",
    "matchLabels",
    "limits",
    "requests",
    "capacity",
    "allocatable",
    "data",
    "binaryData",
    "hard",
    "used",
    "overhead",
];

/// Maps from a resource name to a quantity.
pub(crate) const QUANTITY_MAPS: &[&str] = &[
    "limits",
    "requests",
    "capacity",
    "allocatable",
    "hard",
    "used",
    "overhead",
    "allocatedResources",
];

/// Single fields that hold a quantity.
pub(crate) const QUANTITIES: &[&str] = &["sizeLimit", "divisor"];

/// What defaulting fills in for a key that apply needs and users leave out.
pub(crate) fn default_key(field: &str) -> Option<&'static str> {
    (field == "protocol").then_some("TCP")
}

/// The kind of the list `field` inside the field `parent` (empty at the root).
pub(crate) fn list_kind(parent: &str, field: &str) -> ListKind {
    if SETS.contains(&(parent, field)) {
        return ListKind::Set;
    }
    if matches!(
        parent,
        "containers" | "initContainers" | "ephemeralContainers"
    ) {
        let found = IN_CONTAINER.iter().find(|(name, ..)| *name == field);
        return found.map_or(ListKind::Atomic, |(_, key, keys)| ListKind::Keyed {
            strategic: Some(key),
            apply: keys,
        });
    }
    match KEYED
        .iter()
        .find(|(inside, name, ..)| (*inside, *name) == (parent, field))
    {
        Some((_, _, key, keys)) => ListKind::Keyed {
            strategic: Some(*key).filter(|key| !key.is_empty()),
            apply: keys,
        },
        None => ListKind::Atomic,
    }
}

pub(crate) fn is_atomic_map(field: &str) -> bool {
    ATOMIC_MAPS.contains(&field)
}
