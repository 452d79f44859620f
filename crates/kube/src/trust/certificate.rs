//! When certificates expire.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use x509_cert::Certificate;
use x509_cert::der::Decode;

/// When the last of the certificates expires, in seconds since 1970; `None` if none can be read.
pub fn last_end(pem: &str) -> Option<i64> {
    let blocks = CertificateDer::pem_slice_iter(pem.as_bytes());
    blocks
        .filter_map(|block| {
            let certificate = Certificate::from_der(&block.ok()?).ok()?;
            let end = certificate.tbs_certificate.validity.not_after;
            i64::try_from(end.to_unix_duration().as_secs()).ok()
        })
        .max()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pem(year: i32) -> String {
        let mut params = rcgen::CertificateParams::new(vec!["a.test".to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(year, 3, 4);
        let key = rcgen::KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().pem()
    }

    #[test]
    fn the_last_end_of_a_bundle_is_read_in_both_ways_of_writing_it() {
        assert_eq!(last_end(&pem(2031)), Some(1_930_348_800));
        assert_eq!(last_end(&pem(2061)), Some(2_877_120_000));
        assert_eq!(
            last_end(&format!("{}{}", pem(2031), pem(2027))),
            Some(1_930_348_800)
        );
    }

    #[test]
    fn what_is_no_certificate_has_no_end_and_does_not_hide_the_others() {
        assert_eq!(last_end(""), None);
        assert_eq!(
            last_end("-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----"),
            None
        );
        let unreadable = format!(
            "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n{}",
            pem(2031)
        );
        assert_eq!(last_end(&unreadable), Some(1_930_348_800));
        let cut: String = pem(2031).chars().take(200).collect();
        assert_eq!(last_end(&cut), None);
    }
}
