//! An embedded Kubernetes API server: a library that answers like kube-apiserver 1.36 for the resources and verbs this
//! project uses, over plain HTTP on loopback. Tests run against it, and a sandbox can serve kubectl with it.
//!
//! Each layer uses only the layers below it: `http` (requests, streams, clock) over `registry` (verbs and admission)
//! over `rules`, `patch` and `fields` (pure functions of objects) over `store` and `watch` (versions, history,
//! watchers).
//!
//! # Current limitations
//! - Answers are JSON. Bodies may be protobuf where kubectl sends nothing else; unknown fields in it are refused.
//! - No controllers but the namespace's: deleting an owner does not delete its dependents, and propagation policies
//!   are accepted and treated as Background. Nothing creates pods for a Deployment.
//! - No authorisation, no quota enforcement; events do not expire.
//! - Admission webhooks are called according to their rules and selectors: `matchConditions` are not evaluated, only
//!   creations can be mutated, and no webhook is called again after another one's change.
//! - Logs come from the given source, all at once: they cannot be followed.
//! - Validation covers names, metadata and what users get wrong in pods, not every rule of every kind.
//! - Strategic merge and apply know the lists of the built-in kinds; lists of other kinds are replaced whole.

mod definition;
mod failure;
mod faults;
mod fields;
mod http;
mod json;
mod logs;
mod object;
mod patch;
mod protobuf;
mod quantity;
mod registry;
mod request;
mod resource;
mod rules;
mod schema;
mod selector;
mod server;
mod store;
mod table;
mod typed;
mod watch;

pub use failure::Failure;
pub use faults::{Answer, Fault, Faults, Gate, Times};
pub use logs::Logs;
pub use request::{On, Requests, Verb};
pub use server::{Builder, Server, StartError};
