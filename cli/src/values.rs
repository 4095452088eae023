//! What an installation says of options which nobody has given.

use std::collections::BTreeMap;

/// Values of options, by the options' ids.
pub type Values = BTreeMap<&'static str, Vec<String>>;
