//! The default values that an installation gives to options.

use std::collections::BTreeMap;

/// Values of options, by the options' ids.
pub type Values = BTreeMap<&'static str, Vec<String>>;
