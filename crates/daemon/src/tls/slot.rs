//! A slot for the certificate in use, filled by the code that issues it. A new one applies to new connections; open
//! connections continue.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use thiserror::Error;

/// Clones share the same slot.
#[derive(Clone, Debug, Default)]
pub struct Slot(Arc<ArcSwapOption<CertifiedKey>>);

#[derive(Debug, Error)]
pub enum SlotError {
    #[error("the issued {what} is not usable PEM: {reason}")]
    Pem { what: &'static str, reason: String },
    #[error("the issued certificate cannot be served: {0}")]
    Unusable(#[from] rustls::Error),
}

impl Slot {
    pub fn is_empty(&self) -> bool {
        self.0.load().is_none()
    }

    /// Replaces the certificate chain and its key.
    pub fn put(&self, chain: &str, key: &str) -> Result<(), SlotError> {
        let unreadable = |what| {
            move |error: rustls::pki_types::pem::Error| SlotError::Pem {
                what,
                reason: error.to_string(),
            }
        };
        let chain: Vec<_> = CertificateDer::pem_slice_iter(chain.as_bytes())
            .collect::<Result<_, _>>()
            .map_err(unreadable("certificate"))?;
        let key =
            PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(unreadable("private key"))?;
        let certified = CertifiedKey::from_der(chain, key, &default_provider())?;
        self.0.store(Some(Arc::new(certified)));
        Ok(())
    }
}

impl ResolvesServerCert for Slot {
    fn resolve(&self, _client: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.load_full()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_served_is_refused_and_the_old_certificate_stays() {
        let issue = || rcgen::generate_simple_self_signed(["a".to_owned()]).unwrap();
        let (one, other) = (issue(), issue());
        let slot = Slot::default();
        assert!(slot.is_empty());
        slot.put(&one.cert.pem(), &one.signing_key.serialize_pem())
            .unwrap();
        let before = slot.0.load_full().unwrap();
        for (chain, key) in [
            (one.cert.pem(), other.signing_key.serialize_pem()),
            (String::new(), one.signing_key.serialize_pem()),
            (one.cert.pem(), "no key".to_owned()),
        ] {
            slot.put(&chain, &key).unwrap_err();
        }
        assert!(Arc::ptr_eq(&before, &slot.0.load_full().unwrap()));
    }
}
