//! Bounds on the size and the nesting of a JSON value that is stored with an order.
//!
//! A process record holds the outputs of its steps and the inputs that operators have corrected. The parser that
//! reads it accepts a nesting of 128, and such a value is some levels deep in the record and in messages: a value of
//! almost that nesting could be written and not be read. Sizes in bytes are those of the stored value. Numbers may
//! grow when they are written again: `1e15` becomes `1000000000000000.0`.

use serde_json::Value;

/// Deepest nesting of an input or output, inclusive: how many objects and lists may be inside one
/// another.
pub const MAX_NESTING: usize = 64;

/// Why a value cannot be stored with an order. The text of the error follows the value's name, as in "the output has
/// 9000 bytes as it is stored; 8192 are allowed".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OutOfBounds {
    /// The value as JSON has more bytes than allowed.
    #[error("has {bytes} bytes as it is stored; {allowed} are allowed")]
    Bytes {
        /// The value's size as JSON, in bytes.
        bytes: usize,
        /// The largest size that is allowed, in bytes, inclusive.
        allowed: usize,
    },
    /// The value is nested deeper than [`MAX_NESTING`].
    #[error("is nested deeper than {MAX_NESTING}")]
    Nesting,
}

/// Checks that a value can be stored: at most `allowed` bytes as JSON, and nested at most [`MAX_NESTING`] deep.
///
/// # Errors
/// [`OutOfBounds::Nesting`] if the value is nested deeper, which is checked first; [`OutOfBounds::Bytes`] if
/// it is larger.
///
/// # Example
/// ```
/// use serde_json::json;
/// use triad_workflow::bounds::check;
/// assert!(check(&json!({"amount": 7}), 12).is_ok());
/// assert!(check(&json!({"amount": 7}), 11).is_err());
/// ```
pub fn check(value: &Value, allowed: usize) -> Result<(), OutOfBounds> {
    check_nesting(value)?;
    match value.to_string().len() {
        bytes if bytes > allowed => Err(OutOfBounds::Bytes { bytes, allowed }),
        _ => Ok(()),
    }
}

/// Checks that a value is nested at most [`MAX_NESTING`] deep. A text or a number is nested 0 deep, and an
/// empty list or object 1 deep.
///
/// # Errors
/// [`OutOfBounds::Nesting`] if the value is nested deeper.
pub fn check_nesting(value: &Value) -> Result<(), OutOfBounds> {
    match fits(value, MAX_NESTING) {
        true => Ok(()),
        false => Err(OutOfBounds::Nesting),
    }
}

/// Whether a value has at most `left` levels of nesting; the recursion ends there.
fn fits(value: &Value, left: usize) -> bool {
    match value {
        Value::Array(items) => left > 0 && items.iter().all(|v| fits(v, left - 1)),
        Value::Object(fields) => left > 0 && fields.values().all(|v| fits(v, left - 1)),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn nested(depth: usize) -> Value {
        (0..depth).fold(json!(7), |inner, n| match n % 2 {
            0 => json!([inner]),
            _ => json!({"a": inner}),
        })
    }

    #[test]
    fn a_value_at_the_bound_is_kept_and_one_beyond_is_not() {
        assert_eq!(check_nesting(&nested(MAX_NESTING)), Ok(()));
        let deep = nested(MAX_NESTING + 1);
        assert_eq!(check_nesting(&deep), Err(OutOfBounds::Nesting));
        assert_eq!(check(&deep, usize::MAX), Err(OutOfBounds::Nesting));
    }

    #[test]
    fn bytes_are_counted_as_they_are_stored() {
        let came: Value = serde_json::from_str("1e15").expect("a number");
        let (bytes, allowed) = ("1000000000000000.0".len(), 4);
        let refused = OutOfBounds::Bytes { bytes, allowed };
        assert_eq!(check(&came, allowed), Err(refused));
    }
}
