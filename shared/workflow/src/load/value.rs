//! The values of a YAML text, as serde has them: no places, and no word about the text.

use serde_json::Value;
use serde_saphyr::{DuplicateKeyPolicy, Error};

/// Reads one YAML document. Of a key that stands twice the first value is taken.
pub(super) fn read(text: &str) -> Result<Value, Error> {
    let options = serde_saphyr::options! {
        // As YAML 1.2 has it: `y`, `no` and `on` are texts.
        strict_booleans: true,
        duplicate_keys: DuplicateKeyPolicy::FirstWins,
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options(text, options)
}
