//! HTTP in front of the registry: routing, decoding, answering, streaming. The only place that reads the clock and
//! generates uids.

mod discovery;
mod handler;
mod log;
mod openapi;
mod options;
mod query;
mod reply;
mod reviews;
mod route;
mod scale;
mod serve;
mod stream;
mod webhooks;

pub(crate) use openapi::KindSchema;
pub(crate) use reviews::Review;
pub(crate) use serve::{Edge, serve};
pub(crate) use webhooks::Webhooks;
