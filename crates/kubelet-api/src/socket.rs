//! gRPC over unix sockets, as the kubelet uses it.

use std::path::{Path, PathBuf};

use hyper_util::rt::TokioIo;
use thiserror::Error;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

#[derive(Debug, Error)]
#[error("cannot connect to {socket}: {reason}")]
pub struct ConnectError {
    socket: PathBuf,
    reason: String,
}

/// Connects now, so that an absent or dead socket is an error here and not at the first call.
pub async fn connect(socket: &Path) -> Result<Channel, ConnectError> {
    let failed = |reason: String| ConnectError {
        socket: socket.to_owned(),
        reason,
    };
    // Connect here, because the transport hides why it could not connect.
    let stream = UnixStream::connect(socket)
        .await
        .map_err(|error| failed(error.to_string()))?;
    let mut stream = Some(TokioIo::new(stream));
    // The kubelet ignores the authority; HTTP/2 needs a valid one.
    Endpoint::from_static("http://localhost")
        .connect_with_connector(service_fn(move |_| {
            let stream = stream.take();
            async move { stream.ok_or_else(|| std::io::Error::other("the connection is closed")) }
        }))
        .await
        .map_err(|error| failed(error.to_string()))
}
