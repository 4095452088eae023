//! Names of topics in Kafka, which begin with the installation's prefix.

use std::borrow::Cow;

/// The name in Kafka of a topic.
pub(crate) fn with<'t>(prefix: &str, topic: &'t str) -> Cow<'t, str> {
    match prefix.is_empty() {
        true => topic.into(),
        false => format!("{prefix}{topic}").into(),
    }
}

/// The topic with a name in Kafka. A name without the prefix stays as it is.
pub(crate) fn without(prefix: &str, mut name: String) -> String {
    if name.starts_with(prefix) {
        name.drain(..prefix.len());
    }
    name
}
