//! Kubernetes types that other crates watch and reduce themselves.

pub use k8s_openapi::api::core::v1::Namespace;
pub use k8s_openapi::api::scheduling::v1::PriorityClass;
pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
