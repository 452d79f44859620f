//! When certificates expire: the only field of X.509 that is read here, from PEM.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";

const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// When the last of the certificates expires, in seconds since 1970; `None` if none can be read.
pub fn last_end(pem: &str) -> Option<i64> {
    let blocks = pem.split(BEGIN).skip(1);
    blocks
        .filter_map(|block| {
            let (text, _) = block.split_once(END)?;
            let text: String = text.split_whitespace().collect();
            not_after(&STANDARD.decode(text).ok()?)
        })
        .max()
}

/// Certificate → tbsCertificate → validity → notAfter.
fn not_after(der: &[u8]) -> Option<i64> {
    let (certificate, _) = expect(der, SEQUENCE)?;
    let (mut rest, _) = expect(certificate, SEQUENCE)?;
    if rest.first() == Some(&VERSION) {
        rest = item(rest)?.2;
    }
    // Serial number, signature algorithm, issuer.
    for _ in 0..3 {
        rest = item(rest)?.2;
    }
    let (validity, _) = expect(rest, SEQUENCE)?;
    let (_, _, after) = item(validity)?;
    let (tag, value, _) = item(after)?;
    time(tag, std::str::from_utf8(value).ok()?)
}

fn expect(der: &[u8], wanted: u8) -> Option<(&[u8], &[u8])> {
    let (tag, value, rest) = item(der)?;
    (tag == wanted).then_some((value, rest))
}

/// Tag, value, and what follows.
fn item(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = der.split_first()?;
    let (first, mut rest) = rest.split_first()?;
    let mut length = usize::from(*first);
    if *first & 0x80 != 0 {
        let bytes = usize::from(*first & 0x7f);
        if bytes > 4 {
            return None;
        }
        let (digits, after) = rest.split_at_checked(bytes)?;
        length = digits
            .iter()
            .fold(0, |length, digit| length << 8 | usize::from(*digit));
        rest = after;
    }
    let (value, rest) = rest.split_at_checked(length)?;
    Some((*tag, value, rest))
}

/// `YYMMDDHHMMSSZ`, or the same with a four-digit year.
fn time(tag: u8, text: &str) -> Option<i64> {
    let digits = text.strip_suffix('Z')?;
    let (year, rest) = match tag {
        UTC_TIME => {
            let year: i16 = digits.get(..2)?.parse().ok()?;
            // RFC 5280: years below 50 are in this century.
            (
                if year < 50 { 2000 + year } else { 1900 + year },
                digits.get(2..)?,
            )
        }
        GENERALIZED_TIME => (digits.get(..4)?.parse().ok()?, digits.get(4..)?),
        _ => return None,
    };
    let two = |at: usize| -> Option<i8> { rest.get(at..at + 2)?.parse().ok() };
    let at = DateTime::new(year, two(0)?, two(2)?, two(4)?, two(6)?, two(8)?, 0).ok()?;
    let zoned = at.to_zoned(TimeZone::UTC).ok()?;
    Some(zoned.timestamp().as_second())
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
    fn what_is_no_certificate_has_no_end() {
        assert_eq!(last_end(""), None);
        assert_eq!(
            last_end("-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----"),
            None
        );
        let cut: String = pem(2031).chars().take(200).collect();
        assert_eq!(last_end(&cut), None);
    }
}
