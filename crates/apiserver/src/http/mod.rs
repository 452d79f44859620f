//! HTTP in front of the registry: routing, decoding, answering, streaming. The only place that reads the clock and
//! makes random identities.

mod discovery;
mod handler;
mod openapi;
mod options;
mod query;
mod reply;
mod route;
mod serve;
mod stream;

pub(crate) use serve::{Edge, serve};
