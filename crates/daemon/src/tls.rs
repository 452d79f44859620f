//! TLS: certificates from files or from the code that issues them, client authentication, and new certificates
//! without a restart.
//!
//! Files are compared by content, not watched: the kubelet replaces a mounted Secret by swapping a
//! symbolic link, which file notifications on the certificate itself do not show.

mod slot;

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use thiserror::Error;
use tokio_util::sync::CancellationToken;

use crate::files::{self, Links};

pub use slot::{Slot, SlotError};

pub const POLL: Duration = Duration::from_secs(10);

/// Many times larger than any CA bundle in use.
const LARGEST_FILE: u64 = 4 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// Clients must show a certificate signed by one of these.
    pub client_ca: Option<PathBuf>,
}

#[derive(Debug, Error)]
pub enum TlsError {
    #[error("cannot read {}: {source}", path.display())]
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{} holds no usable PEM {what}: {reason}", path.display())]
    Pem {
        path: PathBuf,
        what: &'static str,
        reason: String,
    },
    #[error("the certificate {} cannot be served: {reason}", path.display())]
    Certificate { path: PathBuf, reason: String },
    #[error("the client CA {} cannot be used: {reason}", path.display())]
    ClientCa { path: PathBuf, reason: String },
}

#[derive(PartialEq, Eq)]
struct Contents {
    /// `None` if the certificate is in a slot.
    certificate: Option<Pair>,
    client_ca: Option<Vec<u8>>,
}

#[derive(PartialEq, Eq)]
struct Pair {
    chain: Vec<u8>,
    key: Vec<u8>,
}

/// A TLS configuration that follows its files.
#[derive(Debug)]
pub struct Tls {
    /// Read for each handshake.
    pub(crate) config: Arc<ArcSwap<ServerConfig>>,
    source: Source,
    loaded: Contents,
}

/// Where certificates come from.
#[derive(Debug)]
enum Source {
    Files(TlsFiles),
    Slot {
        slot: Slot,
        client_ca: Option<PathBuf>,
    },
}

impl std::fmt::Debug for Contents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Contents(secret)")
    }
}

impl Tls {
    pub fn load(files: TlsFiles) -> Result<Self, TlsError> {
        Self::of(Source::Files(files))
    }

    /// Serves the certificate that is in the slot; while it is empty, handshakes fail.
    pub fn from_slot(slot: Slot, client_ca: Option<PathBuf>) -> Result<Self, TlsError> {
        Self::of(Source::Slot { slot, client_ca })
    }

    fn of(source: Source) -> Result<Self, TlsError> {
        let loaded = source.read()?;
        let config = ArcSwap::from_pointee(source.server_config(&loaded)?);
        Ok(Self {
            config: Arc::new(config),
            source,
            loaded,
        })
    }

    /// Loads files again when their content has changed. Unusable ones are reported, and the old
    /// certificate stays in use.
    pub(crate) async fn follow(
        mut self,
        poll: Duration,
        shutdown: CancellationToken,
    ) -> Result<(), Infallible> {
        while shutdown
            .run_until_cancelled(tokio::time::sleep(poll))
            .await
            .is_some()
        {
            let contents = match self.source.read() {
                Ok(contents) if contents != self.loaded => contents,
                Ok(_) => continue,
                Err(error) => {
                    tracing::warn!(%error, "keeping the old certificate");
                    continue;
                }
            };
            match self.source.server_config(&contents) {
                Ok(config) => {
                    self.config.store(Arc::new(config));
                    tracing::info!(files = ?self.source, "new certificates");
                }
                Err(error) => tracing::warn!(%error, "keeping the old certificate"),
            }
            self.loaded = contents;
        }
        Ok(())
    }
}

impl Source {
    fn client_ca(&self) -> Option<&Path> {
        match self {
            Self::Files(files) => files.client_ca.as_deref(),
            Self::Slot { client_ca, .. } => client_ca.as_deref(),
        }
    }

    fn read(&self) -> Result<Contents, TlsError> {
        let read = |path: &Path| {
            files::read(path, Links::Follow, LARGEST_FILE).map_err(|source| TlsError::Read {
                path: path.to_owned(),
                source,
            })
        };
        let certificate = match self {
            Self::Files(files) => Some(Pair {
                chain: read(&files.certificate)?,
                key: read(&files.key)?,
            }),
            Self::Slot { .. } => None,
        };
        Ok(Contents {
            certificate,
            client_ca: self.client_ca().map(read).transpose()?,
        })
    }

    fn server_config(&self, contents: &Contents) -> Result<ServerConfig, TlsError> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| self.unusable(&error))?;
        let builder = match (self.client_ca(), &contents.client_ca) {
            (Some(path), Some(pem)) => {
                let roots = Arc::new(roots(path, pem)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider)
                    .build()
                    .map_err(|error| TlsError::ClientCa {
                        path: path.to_owned(),
                        reason: error.to_string(),
                    })?;
                builder.with_client_cert_verifier(verifier)
            }
            _ => builder.with_no_client_auth(),
        };
        let mut config = match (self, &contents.certificate) {
            (Self::Files(files), Some(pair)) => {
                let key = PrivateKeyDer::from_pem_slice(&pair.key)
                    .map_err(|error| pem_error(&files.key, "private key", error.to_string()))?;
                let chain = certificates(&files.certificate, &pair.chain)?;
                builder
                    .with_single_cert(chain, key)
                    .map_err(|error| self.unusable(&error))?
            }
            (Self::Slot { slot, .. }, _) => builder.with_cert_resolver(Arc::new(slot.clone())),
            (Self::Files(files), None) => {
                let reason = "it was not read".to_owned();
                return Err(pem_error(&files.certificate, "certificate", reason));
            }
        };
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }

    fn unusable(&self, error: &rustls::Error) -> TlsError {
        let path = match self {
            Self::Files(files) => files.certificate.clone(),
            Self::Slot { .. } => PathBuf::from("(issued)"),
        };
        TlsError::Certificate {
            path,
            reason: error.to_string(),
        }
    }
}

fn roots(path: &Path, pem: &[u8]) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path, pem)? {
        roots.add(certificate).map_err(|error| TlsError::ClientCa {
            path: path.to_owned(),
            reason: error.to_string(),
        })?;
    }
    Ok(roots)
}

fn certificates(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|error| pem_error(path, "certificate", error.to_string()))?;
    if found.is_empty() {
        return Err(pem_error(path, "certificate", "none found".to_owned()));
    }
    Ok(found)
}

/// The certificates in a PEM text, in the form in which clients take the CAs that they trust.
pub fn authorities(pem: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let found: Vec<Vec<u8>> = CertificateDer::pem_slice_iter(pem)
        .map(|certificate| certificate.map(|der| der.to_vec()))
        .collect::<Result<_, _>>()
        .map_err(|error| error.to_string())?;
    if found.is_empty() {
        return Err("none found".to_owned());
    }
    Ok(found)
}

fn pem_error(path: &Path, what: &'static str, reason: String) -> TlsError {
    TlsError::Pem {
        path: path.to_owned(),
        what,
        reason,
    }
}
