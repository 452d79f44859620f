//! Signing: steps of the plan become keys and certificates.

use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};
use thiserror::Error;
use uuid::Uuid;

use super::plan::{CertificateSpec, Step, seconds};
use super::{Authority, Pki, Serving};

/// Clocks of API servers may be behind ours.
const BACKDATED: i64 = 3600;

#[derive(Debug, Error)]
pub(super) enum IssueError {
    #[error("cannot create the certificate: {0}")]
    Sign(#[from] rcgen::Error),
    #[error("there is no CA {0} to sign with")]
    NoAuthority(String),
}

impl Pki {
    /// The content of the Secret after the step.
    pub(super) fn after(
        self,
        step: &Step,
        spec: &CertificateSpec,
        now: i64,
    ) -> Result<Self, IssueError> {
        let mut next = self;
        match step {
            Step::AddAuthority => next.authorities.push(Authority::new(spec, now)?),
            Step::Issue(name) => {
                let mut known = next.authorities.iter();
                let authority = known.find(|authority| authority.name == *name);
                let authority = authority.ok_or_else(|| IssueError::NoAuthority(name.clone()))?;
                next.serving = Some(authority.issue(spec, now)?);
            }
            Step::Drop(names) => next
                .authorities
                .retain(|authority| !names.contains(&authority.name)),
        }
        Ok(next)
    }
}

impl Authority {
    fn new(spec: &CertificateSpec, now: i64) -> Result<Self, IssueError> {
        let name = format!("gpushare-webhook-{}", Uuid::new_v4().simple());
        let expires = now.saturating_add(seconds(spec.lifetimes.authority));
        let key = KeyPair::generate()?;
        let params = Self::params(&name, now, expires);
        Ok(Self {
            certificate: params.self_signed(&key)?.pem(),
            key: key.serialize_pem(),
            name,
            created: now,
            expires,
        })
    }

    fn params(name: &str, created: i64, expires: i64) -> CertificateParams {
        let mut params = params(name, created, expires);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params
    }

    fn issue(&self, spec: &CertificateSpec, now: i64) -> Result<Serving, IssueError> {
        let params_of_issuer = Self::params(&self.name, self.created, self.expires);
        let issuer = Issuer::new(params_of_issuer, KeyPair::from_pem(&self.key)?);
        let expires = now
            .saturating_add(seconds(spec.lifetimes.certificate))
            .min(self.expires);
        let names = spec.names.clone();
        let common_name = names.first().map_or("gpushare-webhook", String::as_str);
        let key = KeyPair::generate()?;
        let mut own = params(common_name, now, expires);
        own.subject_alt_names = CertificateParams::new(names.clone())?.subject_alt_names;
        own.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        own.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        own.use_authority_key_identifier_extension = true;
        Ok(Serving {
            authority: self.name.clone(),
            certificate: own.signed_by(&key, &issuer)?.pem(),
            key: key.serialize_pem(),
            names,
            created: now,
            expires,
        })
    }
}

fn params(name: &str, created: i64, expires: i64) -> CertificateParams {
    let since_1970 = |at: i64| Duration::from_secs(u64::try_from(at).unwrap_or(0));
    let epoch = || rcgen::date_time_ymd(1970, 1, 1);
    let mut params = CertificateParams::default();
    params.not_before = epoch() + since_1970(created.saturating_sub(BACKDATED));
    params.not_after = epoch() + since_1970(expires);
    params.distinguished_name = DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::CommonName, short(name));
    params
}

/// Common names have at most 64 characters; only the alternative names matter.
fn short(name: &str) -> String {
    name.chars().take(64).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use gpushare_daemon::tls::Slot;
    use rustls::RootCertStore;
    use rustls::client::WebPkiServerVerifier;
    use rustls::client::danger::ServerCertVerifier;
    use rustls::crypto::aws_lc_rs::default_provider;
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, ServerName, UnixTime};

    use super::super::Lifetimes;
    use super::*;

    fn spec() -> CertificateSpec {
        CertificateSpec {
            names: vec!["hook.system.svc".to_owned(), "127.0.0.1".to_owned()],
            lifetimes: Lifetimes {
                authority: Duration::from_hours(24),
                certificate: Duration::from_hours(12),
                overlap: Duration::from_mins(1),
            },
        }
    }

    const NOW: i64 = 1_800_000_000;

    fn with_authority(pki: Pki, spec: &CertificateSpec) -> Pki {
        pki.after(&Step::AddAuthority, spec, NOW).unwrap()
    }

    /// With a certificate that the authority of this number has signed.
    fn issued_by(pki: Pki, authority: usize, spec: &CertificateSpec) -> Pki {
        let issue = Step::Issue(pki.authorities[authority].name.clone());
        pki.after(&issue, spec, NOW).unwrap()
    }

    /// With an authority and its certificate.
    fn issued(spec: &CertificateSpec) -> Pki {
        issued_by(with_authority(Pki::default(), spec), 0, spec)
    }

    fn is_believed(bundle: &str, certificate: &str, name: &str, at: i64) -> bool {
        let mut roots = RootCertStore::empty();
        for authority in CertificateDer::pem_slice_iter(bundle.as_bytes()) {
            roots.add(authority.unwrap()).unwrap();
        }
        let provider = Arc::new(default_provider());
        let roots = Arc::new(roots);
        let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider).build();
        let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let at = UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(at).unwrap()));
        let outcome = verifier
            .unwrap()
            .verify_server_cert(&certificate, &[], &name, &[], at);
        outcome.is_ok()
    }

    #[test]
    fn what_is_issued_is_believed_by_its_authority_for_its_names_and_its_time() {
        let now = NOW;
        let pki = issued(&spec());
        // Another authority, created in the same way, did not sign this certificate.
        let other = issued(&spec());
        let serving = pki.serving.as_ref().unwrap();
        let certificate = serving.certificate.as_str();
        for name in spec().names {
            assert!(is_believed(&pki.bundle(), certificate, &name, now));
            assert!(!is_believed(&other.bundle(), certificate, &name, now));
            let expired = serving.expires + 1;
            assert!(!is_believed(&pki.bundle(), certificate, &name, expired));
        }
        let stranger = "hook.other.svc";
        assert!(!is_believed(&pki.bundle(), certificate, stranger, now));
        Slot::default().put(certificate, &serving.key).unwrap();
    }

    #[test]
    fn a_bundle_of_two_authorities_believes_both() {
        let mut pki = with_authority(Pki::default(), &spec());
        pki = with_authority(pki, &spec());
        for number in 0..2 {
            pki = issued_by(pki, number, &spec());
            let certificate = &pki.serving.as_ref().unwrap().certificate;
            assert!(is_believed(&pki.bundle(), certificate, "127.0.0.1", NOW));
        }
    }

    #[test]
    fn a_certificate_does_not_outlive_its_authority() {
        let mut spec = spec();
        spec.lifetimes.certificate = Duration::from_secs(u64::MAX);
        let pki = issued(&spec);
        assert_eq!(pki.serving.unwrap().expires, pki.authorities[0].expires);
    }

    #[test]
    fn keys_never_show_in_logs() {
        let pki = issued(&spec());
        assert!(!format!("{pki:?}").contains("PRIVATE KEY"));
    }
}
