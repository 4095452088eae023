//! Which mutant is switched on. tests/mutants.sh puts this file into the scratch copy, for the patches that use the
//! macro.

use std::sync::LazyLock;

/// The mutant that the environment variable names; 0 if there is none.
static ON: LazyLock<u64> =
    LazyLock::new(|| std::env::var("TRIAD_MUTANT").map_or(0, |name| digest(&name)));

/// Whether the mutant with this digest is switched on.
#[must_use]
pub fn is(mutant: u64) -> bool {
    *ON == mutant
}

/// The FNV-1a digest of a name, so that the checks compare numbers.
#[must_use]
pub const fn digest(name: &str) -> u64 {
    let bytes = name.as_bytes();
    let mut digest = 0xcbf2_9ce4_8422_2325_u64;
    let mut at = 0;
    while at < bytes.len() {
        digest = (digest ^ bytes[at] as u64).wrapping_mul(0x0000_0100_0000_01b3);
        at += 1;
    }
    digest
}

/// Whether a mutant is switched on.
#[macro_export]
macro_rules! mutant {
    ($name:literal) => {
        $crate::mutant::is(const { $crate::mutant::digest($name) })
    };
}
