//! Our own CDI files, as a restarted agent finds them: they read back as written, and their names are safe as part of a
//! path.

use gpushare_node::cdi::Slot;

use crate::Verdict;

pub(crate) fn check(data: &[u8]) -> Verdict {
    let Some(slot) = Slot::decode(data) else {
        return Verdict::Refused;
    };
    let name = slot.name.as_str();
    let safe = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    assert!(!name.is_empty() && name.bytes().all(safe), "{name:?}");
    assert_eq!(Slot::decode(slot.encode().as_bytes()), Some(slot));
    Verdict::Accepted
}
