//! Certificates in a bundle: the latest expiry is found whatever text surrounds them, and duplicates change nothing.

use gpushare_kube::trust::certificate::last_end;

use super::on_text;
use crate::Verdict;

pub(crate) fn check(data: &[u8]) -> Verdict {
    on_text(data, |text| {
        let Some(end) = last_end(text) else {
            return Verdict::Refused;
        };
        assert_eq!(last_end(&format!("{text}\n{text}")), Some(end));
        assert_eq!(last_end(&format!("# a comment\n{text}")), Some(end));
        Verdict::Accepted
    })
}
