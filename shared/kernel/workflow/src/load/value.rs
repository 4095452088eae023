//! Values of a YAML text, read by serde: without positions, and without error texts.

use serde_json::Value;
use serde_saphyr::{DuplicateKeyPolicy, Error};

/// Reads one YAML document. If a key occurs twice, the first value is used.
pub(super) fn read(text: &str) -> Result<Value, Error> {
    let options = serde_saphyr::options! {
        // As in YAML 1.2: `y`, `no` and `on` are texts.
        strict_booleans: true,
        duplicate_keys: DuplicateKeyPolicy::FirstWins,
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options(text, options)
}
