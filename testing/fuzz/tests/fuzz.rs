//! Lets libFuzzer search for inputs that break a target. `cargo xtask fuzz` builds it with coverage and runs it;
//! `GPUSHARE_FUZZ_TARGET` names the target.

#![no_main]
#![expect(clippy::panic, reason = "without a target there is nothing to do")]

use std::sync::OnceLock;

use gpushare_fuzz::Target;
use libfuzzer_sys::fuzz_target;

static TARGET: OnceLock<&'static Target> = OnceLock::new();

fuzz_target!(|data: &[u8]| {
    let target = TARGET.get_or_init(|| {
        let name = std::env::var("GPUSHARE_FUZZ_TARGET").unwrap_or_default();
        Target::find(&name).unwrap_or_else(|| panic!("GPUSHARE_FUZZ_TARGET: no target {name:?}"))
    });
    (target.check)(data);
});
