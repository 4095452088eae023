//! Names in definitions, topics and keys, each with its own type.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Longest name, in bytes, inclusive. Topic names are made of agent names, and Kafka allows 249
/// characters for a topic.
pub const MAX_NAME_BYTES: usize = 64;

/// The error of [`check_name`]: a name that breaks the rule. It holds the first [`MAX_NAME_BYTES`]
/// characters of the name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a valid name: use 1 to {MAX_NAME_BYTES} of a-z, 0-9, '-' and '_', starting with a letter"
)]
pub struct InvalidName(pub String);

/// Checks the one rule for all names: 1 to [`MAX_NAME_BYTES`] lower-case ASCII letters, digits, `-`
/// and `_`, and a letter first.
///
/// # Errors
/// [`InvalidName`] if the text breaks the rule.
pub fn check_name(text: &str) -> Result<(), InvalidName> {
    let starts = text.starts_with(|c: char| c.is_ascii_lowercase());
    let rest = text
        .bytes()
        .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_');
    if starts && rest && text.len() <= MAX_NAME_BYTES {
        Ok(())
    } else {
        let shown: String = text.chars().take(MAX_NAME_BYTES).collect();
        Err(InvalidName(shown))
    }
}

/// The error of [`check_event`]: a name that breaks the rule. It holds the first [`MAX_NAME_BYTES`] characters of
/// the name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a valid name: use 1 to {MAX_NAME_BYTES} of a-z, A-Z, 0-9, '-', '_' and '.', starting with a letter"
)]
pub struct InvalidEventName(pub String);

/// Checks the name of an event from outside: 1 to [`MAX_NAME_BYTES`] ASCII letters, digits, `-`, `_` and `.`, and a
/// letter first. It may be the type of a CloudEvent, such as `com.shop.payment-confirmed`.
///
/// # Errors
/// [`InvalidEventName`] if the text breaks the rule.
pub fn check_event(text: &str) -> Result<(), InvalidEventName> {
    let is_fit = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    let starts = text.starts_with(|c: char| c.is_ascii_alphabetic());
    match starts && text.bytes().all(is_fit) && text.len() <= MAX_NAME_BYTES {
        true => Ok(()),
        false => Err(InvalidEventName(
            text.chars().take(MAX_NAME_BYTES).collect(),
        )),
    }
}

/// Longest key of an event, in bytes, inclusive.
pub const MAX_KEY_BYTES: usize = 128;

/// The error of [`check_key`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a key is a text of 1 to {MAX_KEY_BYTES} bytes without control characters")]
pub struct InvalidKey;

/// Checks what the sender of an event names in place of its order: 1 to [`MAX_KEY_BYTES`] bytes, no control characters.
///
/// # Errors
/// [`InvalidKey`] if the text breaks the rule.
pub fn check_key(text: &str) -> Result<(), InvalidKey> {
    match (1..=MAX_KEY_BYTES).contains(&text.len()) && !text.contains(char::is_control) {
        true => Ok(()),
        false => Err(InvalidKey),
    }
}

/// Checks the name of a workflow: as [`check_name`], or several such names with `.` between them, for the part of a
/// workflow that a step makes, and for the parts of that. No author writes a name with a `.`.
///
/// # Errors
/// [`InvalidName`] if the text breaks the rule.
pub fn check_workflow(text: &str) -> Result<(), InvalidName> {
    match text.len() <= MAX_NAME_BYTES {
        true => text.split('.').try_for_each(check_name),
        false => check_name(text),
    }
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $check:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            #[doc = concat!("Takes a text that keeps the rule of [`", stringify!($check), "`].")]
            ///
            /// # Errors
            /// [`InvalidName`] if the text breaks the rule.
            pub fn new(text: impl AsRef<str>) -> Result<Self, InvalidName> {
                $check(text.as_ref())?;
                Ok(Self(text.as_ref().into()))
            }

            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidName;
            fn try_from(text: String) -> Result<Self, InvalidName> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0.as_ref().to_owned()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name! {
    /// Name of a workflow, shared by all its versions. That of a part of a workflow is the workflow's name, `.` and the
    /// id of the step that makes it.
    WorkflowName, check_workflow
}
name! {
    /// Name of a step, unique within its workflow.
    StepId, check_name
}
name! {
    /// Name of an agent; its topics are `agent.<name>` and, for high priority, `agent.<name>.high`.
    AgentName, check_name
}

name! {
    /// Name of a search key, unique within its workflow.
    SearchName, check_name
}

/// Longest name of an action, in bytes, inclusive. A name has at least one byte, and consists of ASCII
/// letters, digits, `-` and `_`.
pub const MAX_ACTION_BYTES: usize = 64;

/// Checks the name of an action. An action without a description becomes a path segment of the HTTP agent's URL.
///
/// # Errors
/// What is wrong with it, for its author.
pub(crate) fn check_action(action: &str) -> Result<(), String> {
    let fits = !action.is_empty()
        && action.len() <= MAX_ACTION_BYTES
        && action
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
    match fits {
        true => Ok(()),
        false => Err(format!(
            "{action:?} is not a valid action: use 1 to {MAX_ACTION_BYTES} of a-z, A-Z, 0-9, '-' and '_'"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_accepts_and_refuses() {
        for good in ["a", "order-fulfilment", "step_2", &"a".repeat(64)] {
            assert!(StepId::new(good).is_ok(), "{good}");
        }
        for bad in ["", "A", "2step", "-a", "a b", "a.b", "é", &"a".repeat(65)] {
            assert!(StepId::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_name_of_a_part_is_names_with_dots_between() {
        for good in ["order-line.ship_2", "a.b.way-1"] {
            assert!(WorkflowName::new(good).is_ok(), "{good}");
        }
        let long = format!("{}.b", "a".repeat(63));
        for bad in ["a.", ".a", "a..b", "a.b.1", "a.B", "A.b", &long] {
            assert!(WorkflowName::new(bad).is_err(), "{bad}");
        }
    }
}
