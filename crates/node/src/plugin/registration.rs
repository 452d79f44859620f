//! Keeps a resource registered: serves it on a socket, registers it, and starts over whenever the
//! kubelet has forgotten us.
//!
//! A kubelet that restarts deletes all plugin sockets and recreates its own; it does not notify plugins,
//! so both sockets are checked every second.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gpushare_kubelet_api::deviceplugin::device_plugin_client::DevicePluginClient;
use gpushare_kubelet_api::deviceplugin::device_plugin_server::DevicePluginServer;
use gpushare_kubelet_api::deviceplugin::registration_client::RegistrationClient;
use gpushare_kubelet_api::deviceplugin::{Empty, KUBELET_SOCKET, RegisterRequest, VERSION};
use gpushare_kubelet_api::socket::{self, ConnectError};
use thiserror::Error;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_stream::wrappers::UnixListenerStream;
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;
use uuid::Uuid;

use super::Plugin;
use super::service::{Listening, Service, options};

const LOOK: Duration = Duration::from_secs(1);
const CALL_DEADLINE: Duration = Duration::from_secs(10);
/// If a kubelet has accepted us but does not read our list within this time, it has forgotten us.
const LISTEN_DEADLINE: Duration = Duration::from_secs(30);

#[derive(Debug, Error)]
enum SessionError {
    #[error(
        "cannot listen on {socket}; check that the agent mounts the kubelet's plugin directory writable: {source}"
    )]
    Listen { socket: PathBuf, source: io::Error },
    #[error("cannot reach our own socket: {0}")]
    Own(String),
    #[error("the kubelet is not there: {0}")]
    Kubelet(#[from] ConnectError),
    #[error("the kubelet refused the registration: {0}")]
    Refused(String),
}

/// Why a session ended and the next one begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    KubeletRestarted,
    OurSocketGone,
    KubeletStoppedListening,
    TooManyDevices,
    ShuttingDown,
}

impl Plugin {
    /// Serves and registers, for as long as the process lives.
    pub async fn run(mut self) {
        let shutdown = self.tasks.shutdown().clone();
        let resource = self.division.resource();
        let mut said = String::new();
        while self.wait_for_devices(&shutdown).await {
            let stop = shutdown.child_token();
            let ended = self.session(&stop).await;
            // This also closes the streams and the server of a session that failed half way.
            stop.cancel();
            self.metrics.registered(resource, false);
            match ended {
                Ok(Ended::ShuttingDown) => return,
                Ok(reason) => {
                    tracing::info!(resource, ?reason, "registering again");
                    said.clear();
                }
                // Log it once, not every second while the kubelet is down.
                Err(error) if error.to_string() != said => {
                    tracing::warn!(resource, %error, "cannot register, trying again");
                    said = error.to_string();
                }
                Err(_) => {}
            }
            if shutdown.run_until_cancelled(sleep(LOOK)).await.is_none() {
                return;
            }
        }
    }

    /// True when there is a list to register with, false at shutdown.
    async fn wait_for_devices(&mut self, shutdown: &CancellationToken) -> bool {
        let mut said = false;
        loop {
            match self.list() {
                Some(Ok(_)) => return true,
                Some(Err(error)) if !said => {
                    tracing::error!(%error, "the resource is not offered");
                    said = true;
                }
                Some(Err(_)) | None => {}
            }
            match shutdown.run_until_cancelled(self.cards.changed()).await {
                Some(Ok(())) => {}
                Some(Err(_)) | None => return false,
            }
        }
    }

    async fn session(&mut self, stop: &CancellationToken) -> Result<Ended, SessionError> {
        let ours = self.own_socket().await;
        let _removed_at_the_end = RemoveAtEnd(ours.clone());
        let listening = self.serve(&ours, stop)?;
        dial(&ours).await?;

        let kubelet = self.directory.join(KUBELET_SOCKET);
        let born = identity(&kubelet).await;
        self.register(&kubelet, &ours).await?;
        let resource = self.division.resource();
        tracing::info!(resource, socket = %ours.display(), "registered with the kubelet");
        self.metrics.registered(resource, true);
        Ok(self.watch(&kubelet, born, &ours, listening, stop).await)
    }

    /// A new name each time, so that a file of an earlier session cannot be in the way.
    async fn own_socket(&self) -> PathBuf {
        let prefix = format!("gpushare-{}-", self.division.short_name());
        remove_dead_sockets(&self.directory, &prefix).await;
        let mut nonce = Uuid::new_v4().simple().to_string();
        nonce.truncate(8);
        self.directory.join(format!("{prefix}{nonce}.sock"))
    }

    fn serve(
        &self,
        socket: &Path,
        stop: &CancellationToken,
    ) -> Result<watch::Receiver<Listening>, SessionError> {
        let listener = UnixListener::bind(socket).map_err(|source| SessionError::Listen {
            socket: socket.to_owned(),
            source,
        })?;
        let listening = watch::Sender::new(Listening::NotYet);
        let heard = listening.subscribe();
        let service = Service {
            plugin: self.clone(),
            listening,
            stop: stop.clone(),
        };
        let server = Server::builder()
            .add_service(DevicePluginServer::new(service))
            .serve_with_incoming_shutdown(
                UnixListenerStream::new(listener),
                stop.clone().cancelled_owned(),
            );
        let resource = self.division.resource();
        self.tasks.job(async move {
            if let Err(error) = server.await {
                tracing::warn!(resource, %error, "the plugin's server ended");
            }
        });
        Ok(heard)
    }

    async fn register(&self, kubelet: &Path, ours: &Path) -> Result<(), SessionError> {
        let endpoint = ours.file_name().unwrap_or_default().to_string_lossy();
        let request = RegisterRequest {
            version: VERSION.to_owned(),
            endpoint: endpoint.into_owned(),
            resource_name: self.division.resource().to_owned(),
            options: Some(options()),
        };
        let mut client = RegistrationClient::new(socket::connect(kubelet).await?);
        match timeout(CALL_DEADLINE, client.register(request)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(status)) => Err(SessionError::Refused(status.message().to_owned())),
            Err(_) => Err(SessionError::Refused("no answer in time".to_owned())),
        }
    }

    /// Returns when this session has to end.
    async fn watch(
        &mut self,
        kubelet: &Path,
        born: Option<Identity>,
        ours: &Path,
        mut listening: watch::Receiver<Listening>,
        stop: &CancellationToken,
    ) -> Ended {
        let mut unheard = Duration::ZERO;
        loop {
            tokio::select! {
                () = stop.cancelled() => return Ended::ShuttingDown,
                _ = listening.wait_for(|now| *now == Listening::Ended) => {
                    return Ended::KubeletStoppedListening;
                }
                () = sleep(LOOK) => {}
            }
            if identity(kubelet).await != born {
                return Ended::KubeletRestarted;
            }
            if identity(ours).await.is_none() {
                return Ended::OurSocketGone;
            }
            if let Some(Err(error)) = self.list() {
                tracing::error!(%error, "the resource is no longer offered");
                return Ended::TooManyDevices;
            }
            if *listening.borrow() == Listening::NotYet {
                unheard += LOOK;
                if unheard >= LISTEN_DEADLINE {
                    return Ended::KubeletStoppedListening;
                }
            }
        }
    }
}

/// Makes sure that our server answers on the socket before the kubelet connects to it.
async fn dial(socket: &Path) -> Result<(), SessionError> {
    let call = async {
        let channel = socket::connect(socket).await.map_err(|e| e.to_string())?;
        let mut client = DevicePluginClient::new(channel);
        client
            .get_device_plugin_options(Empty {})
            .await
            .map_err(|status| status.message().to_owned())
    };
    match timeout(CALL_DEADLINE, call).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(reason)) => Err(SessionError::Own(reason)),
        Err(_) => Err(SessionError::Own("no answer in time".to_owned())),
    }
}

/// Tells one socket from another at the same path. The inode alone is not enough: file systems reuse
/// its number for the next file.
type Identity = (u64, u64, i64, i64);

async fn identity(path: &Path) -> Option<Identity> {
    let of = |file: Metadata| (file.dev(), file.ino(), file.ctime(), file.ctime_nsec());
    tokio::fs::symlink_metadata(path).await.ok().map(of)
}

/// Removes sockets that earlier runs of the agent left; one that answers belongs to a running agent.
async fn remove_dead_sockets(directory: &Path, prefix: &str) {
    let Ok(mut entries) = tokio::fs::read_dir(directory).await else {
        return;
    };
    while let Ok(Some(entry)) = entries.next_entry().await {
        let ours = entry.file_name().to_string_lossy().starts_with(prefix);
        if ours && UnixStream::connect(entry.path()).await.is_err() {
            // A file that stays behind is untidy, not harmful.
            let _ = tokio::fs::remove_file(entry.path()).await;
        }
    }
}

struct RemoveAtEnd(PathBuf);

impl Drop for RemoveAtEnd {
    fn drop(&mut self) {
        // The kubelet may have removed it before us.
        let _ = std::fs::remove_file(&self.0);
    }
}
