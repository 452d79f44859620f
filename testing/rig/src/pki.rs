//! Keys and certificates of one rig: new at every start, removed with the rig.

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};

/// Certificates and keys in PEM form.
#[derive(Debug)]
pub(crate) struct Pki {
    /// The certificate that every component in the rig trusts.
    pub(crate) authority: String,
    /// What the API server presents to its clients.
    pub(crate) server: Identity,
    /// What the API server presents to the kubelet, for logs and exec.
    pub(crate) kubelet_client: Identity,
    /// Signs service account tokens.
    pub(crate) service_account_key: String,
    /// Checks service account tokens.
    pub(crate) service_account_public_key: String,
}

/// A certificate with its key.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Pki {
    /// Makes all keys and certificates. The API server's certificate is valid for each of `server_names`.
    pub(crate) fn generate(server_names: &[&str]) -> Result<Self> {
        let mut params = CertificateParams::new(Vec::new()).context("the rig's authority")?;
        params
            .distinguished_name
            .push(DnType::CommonName, "gpushare rig");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)
            .context("cannot make the rig's certificate authority")?;
        let service_account = KeyPair::generate().context("cannot make the account key")?;
        Ok(Self {
            server: identity(&authority, "kube-apiserver", None, server_names)?,
            kubelet_client: identity(
                &authority,
                "kube-apiserver-kubelet-client",
                Some("system:masters"),
                &[],
            )?,
            authority: authority.pem(),
            service_account_key: service_account.serialize_pem(),
            service_account_public_key: service_account.public_key_pem(),
        })
    }
}

fn identity(
    authority: &CertifiedIssuer<'_, KeyPair>,
    name: &str,
    group: Option<&str>,
    alternative_names: &[&str],
) -> Result<Identity> {
    let subject = || format!("cannot create the certificate of {name}");
    let names: Vec<String> = alternative_names
        .iter()
        .map(|name| (*name).to_owned())
        .collect();
    let mut params = CertificateParams::new(names).with_context(subject)?;
    params.distinguished_name.push(DnType::CommonName, name);
    if let Some(group) = group {
        params
            .distinguished_name
            .push(DnType::OrganizationName, group);
    }
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    let key = KeyPair::generate().with_context(subject)?;
    let certificate = params.signed_by(&key, authority).with_context(subject)?;
    Ok(Identity {
        certificate: certificate.pem(),
        key: key.serialize_pem(),
    })
}
