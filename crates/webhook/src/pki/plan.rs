//! What to do next with the certificates. Pure: times come in as arguments.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Authority, Lifetimes, Pki, Serving};

/// One change to the content of the Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A new authority that signs nothing yet.
    AddAuthority,
    /// A new certificate, signed by the authority of this name.
    Issue(String),
    /// Authorities that nothing relies on any more.
    Drop(Vec<String>),
}

/// What the certificates should be like.
#[derive(Clone, Debug)]
pub(super) struct CertificateSpec {
    pub(super) names: Vec<String>,
    pub(super) lifetimes: Lifetimes,
}

/// Since when each authority has been seen in all configurations that the API server uses.
pub(super) type PublicationTimes = BTreeMap<String, i64>;

/// The next step; `None` when nothing is to be done.
pub(super) fn next(
    pki: &Pki,
    spec: &CertificateSpec,
    published: &PublicationTimes,
    now: i64,
) -> Option<Step> {
    let lifetimes = &spec.lifetimes;
    let newest = pki.authorities.last();
    if newest.is_none_or(|newest| is_old(newest.created, newest.expires, now)) {
        return Some(Step::AddAuthority);
    }
    let signer = signer(pki, lifetimes, published, now)?;
    let Some(serving) = pki
        .serving
        .as_ref()
        .filter(|own| is_good(own, spec, signer, now))
    else {
        return Some(Step::Issue(signer.name.clone()));
    };
    let settled = serving.created.saturating_add(seconds(lifetimes.overlap)) <= now;
    let unused: Vec<String> = pki
        .authorities
        .iter()
        .take_while(|authority| authority.name != serving.authority)
        .map(|authority| authority.name.clone())
        .collect();
    (settled && !unused.is_empty()).then_some(Step::Drop(unused))
}

/// The newest authority that the API server certainly trusts, else the one that signed the current certificate. If
/// neither is valid, the newest authority: there is no working certificate to lose.
fn signer<'a>(
    pki: &'a Pki,
    lifetimes: &Lifetimes,
    published: &PublicationTimes,
    now: i64,
) -> Option<&'a Authority> {
    let believed = |authority: &&Authority| {
        let since = published.get(&authority.name);
        let overlap = seconds(lifetimes.overlap);
        now < authority.expires && since.is_some_and(|since| since.saturating_add(overlap) <= now)
    };
    let current = |authority: &&Authority| {
        let serving = pki.serving.as_ref();
        now < authority.expires
            && serving.is_some_and(|serving| serving.authority == authority.name)
    };
    let newest_first = || pki.authorities.iter().rev();
    newest_first()
        .find(believed)
        .or_else(|| newest_first().find(current))
        .or_else(|| pki.authorities.last())
}

fn is_good(serving: &Serving, spec: &CertificateSpec, signer: &Authority, now: i64) -> bool {
    serving.authority == signer.name
        && serving.names == spec.names
        && !is_old(serving.created, serving.expires, now)
}

/// At most a third of its lifetime is left, which is enough to notice if the renewal fails.
fn is_old(created: i64, expires: i64, now: i64) -> bool {
    let lasts = expires.saturating_sub(created);
    now.saturating_sub(created) >= lasts.saturating_mul(2) / 3
}

pub(super) fn seconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 24 * 3600;
    const OVERLAP: i64 = 600;

    fn spec() -> CertificateSpec {
        CertificateSpec {
            names: vec!["hook.svc".to_owned()],
            lifetimes: Lifetimes {
                authority: Duration::from_hours(360 * 24),
                certificate: Duration::from_hours(30 * 24),
                overlap: Duration::from_mins(10),
            },
        }
    }

    /// Applies a step without any cryptography.
    fn apply(pki: &mut Pki, step: &Step, now: i64) {
        match step {
            Step::AddAuthority => pki.authorities.push(Authority {
                name: format!("ca-{now}"),
                certificate: String::new(),
                key: String::new(),
                created: now,
                expires: now + 360 * DAY,
            }),
            Step::Issue(authority) => {
                pki.serving = Some(Serving {
                    authority: authority.clone(),
                    certificate: String::new(),
                    key: String::new(),
                    names: spec().names,
                    created: now,
                    expires: now + 30 * DAY,
                });
            }
            Step::Drop(names) => pki
                .authorities
                .retain(|authority| !names.contains(&authority.name)),
        }
    }

    fn steps(pki: &mut Pki, published: &PublicationTimes, now: i64) -> Vec<Step> {
        let mut done = Vec::new();
        while let Some(step) = next(pki, &spec(), published, now) {
            apply(pki, &step, now);
            done.push(step);
            assert!(done.len() < 10, "no end: {done:?}");
        }
        done
    }

    #[test]
    fn a_beginning_makes_an_authority_and_a_certificate_at_once() {
        let mut pki = Pki::default();
        let done = steps(&mut pki, &PublicationTimes::new(), 0);
        assert_eq!(done, [Step::AddAuthority, Step::Issue("ca-0".to_owned())]);
    }

    #[test]
    fn a_certificate_is_renewed_long_before_its_end_and_for_other_names() {
        let mut pki = Pki::default();
        steps(&mut pki, &PublicationTimes::new(), 0);
        let published = PublicationTimes::from([("ca-0".to_owned(), 0)]);
        assert_eq!(steps(&mut pki, &published, 19 * DAY), []);
        let renewed = [Step::Issue("ca-0".to_owned())];
        assert_eq!(steps(&mut pki, &published, 20 * DAY), renewed);
        pki.serving.as_mut().unwrap().names = vec!["old.svc".to_owned()];
        assert_eq!(steps(&mut pki, &published, 20 * DAY), renewed);
    }

    #[test]
    fn a_new_authority_signs_only_after_it_has_been_believed_for_the_overlap_and_the_old_one_goes_later()
     {
        let mut pki = Pki::default();
        steps(&mut pki, &PublicationTimes::new(), 0);
        let mut published = PublicationTimes::from([("ca-0".to_owned(), 0)]);
        let now = 240 * DAY;
        let done = steps(&mut pki, &published, now);
        assert_eq!(done, [Step::AddAuthority, Step::Issue("ca-0".to_owned())]);
        let new = format!("ca-{now}");
        // The new authority is not published yet.
        assert_eq!(steps(&mut pki, &published, now + 10 * OVERLAP), []);
        published.insert(new.clone(), now + OVERLAP);
        assert_eq!(steps(&mut pki, &published, now + 2 * OVERLAP - 1), []);
        let done = steps(&mut pki, &published, now + 2 * OVERLAP);
        assert_eq!(done, [Step::Issue(new.clone())]);
        assert_eq!(steps(&mut pki, &published, now + 3 * OVERLAP - 1), []);
        let done = steps(&mut pki, &published, now + 3 * OVERLAP);
        assert_eq!(done, [Step::Drop(vec!["ca-0".to_owned()])]);
    }

    #[test]
    fn an_authority_that_has_expired_unnoticed_is_replaced_at_once() {
        let mut pki = Pki::default();
        steps(&mut pki, &PublicationTimes::new(), 0);
        let published = PublicationTimes::from([("ca-0".to_owned(), 0)]);
        let now = 400 * DAY;
        let done = steps(&mut pki, &published, now);
        let issued = Step::Issue(format!("ca-{now}"));
        assert_eq!(done[..2], [Step::AddAuthority, issued]);
    }

    /// Over years, with a publisher that is slow now and then, the presented certificate is always valid and
    /// trusted by the API server.
    #[test]
    fn what_is_shown_is_always_believed() {
        let mut pki = Pki::default();
        let mut published = PublicationTimes::new();
        let mut bundle: Vec<String> = Vec::new();
        let mut now = 0;
        for turn in 0..40_000_i64 {
            let Pki { authorities, .. } = &pki;
            if turn % 7 != 3 {
                bundle = authorities.iter().map(|own| own.name.clone()).collect();
                published.retain(|name, _| bundle.contains(name));
                for name in &bundle {
                    published.entry(name.clone()).or_insert(now);
                }
            }
            if let Some(step) = next(&pki, &spec(), &published, now) {
                apply(&mut pki, &step, now);
            }
            if turn > 10 {
                let serving = pki.serving.as_ref().unwrap();
                assert!(bundle.contains(&serving.authority), "at {now}: {pki:?}");
                assert!(now < serving.expires);
                assert!(pki.authorities.len() <= 3, "{pki:?}");
            }
            now += if turn % 11 == 0 { 3600 } else { 400 };
        }
        assert!(now > 300 * DAY);
    }
}
