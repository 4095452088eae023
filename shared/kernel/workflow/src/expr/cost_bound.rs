//! A bound on the work of expressions.
//!
//! Without macros the work of an expression is bounded by its source and by the values that it reads. Macros multiply
//! it: two nested ones over 4,000 elements have sixteen million iterations. So the work inside macros is counted
//! during the evaluation: each iteration, and the size of each value that it makes, compares or joins. The functions of
//! [`super::functions`] are counted outside of macros too. The count is of work, not of time, so the same order has the
//! same result on every machine. This module holds the remaining work and reduces it; [`super::meter`] adds the counting
//! to an expression.

use std::cell::Cell;

use cel::{ExecutionError, Value as CelValue};

use super::failed;

/// Most work, inclusive, of all expressions of one scope, such as those of the whole input of a step, or its
/// condition. One unit each is an iteration of a macro, a value that is made or compared in a macro, the value of a
/// whole expression, each element of such a value, each whole 32 bytes of its text, eight keys of a mapping in a
/// macro's range, and what a function reads and makes: each element of a list, each whole 32 bytes of a text. A unit
/// takes one to two microseconds.
pub const MAX_WORK: u64 = 250_000;

/// Bytes of a text that are one unit of work.
const BYTES: u64 = 32;

thread_local! {
    /// Work left for the scope that this thread evaluates.
    static LEFT: Cell<u64> = const { Cell::new(0) };
}

/// Evaluates with `left` units of work, and returns the units left afterwards.
pub(super) fn with_left<T>(left: u64, compute: impl FnOnce() -> T) -> (T, u64) {
    let before = LEFT.replace(left);
    let value = compute();
    (value, LEFT.replace(before))
}

/// Subtracts the size of a computed value from the work left.
///
/// # Errors
/// A reason for people, if that is more than is left.
pub(super) fn count(value: &CelValue) -> Result<(), ExecutionError> {
    let mut left = LEFT.get();
    let is_enough = take(value, &mut left);
    LEFT.set(left);
    if is_enough { Ok(()) } else { Err(used_up()) }
}

/// Subtracts units of work from the work left.
///
/// # Errors
/// A reason for people, if there are fewer left.
pub(super) fn take_units(units: u64) -> Result<(), ExecutionError> {
    let left = LEFT.get().checked_sub(units);
    LEFT.set(left.unwrap_or_default());
    left.map(|_| ()).ok_or_else(used_up)
}

/// Subtracts a call that makes a text of at most so many bytes.
///
/// # Errors
/// As [`take_units`].
pub(super) fn take_bytes(bytes: usize) -> Result<(), ExecutionError> {
    take_units(1 + bytes as u64 / BYTES)
}

fn used_up() -> ExecutionError {
    failed::execution_error(format!(
        "takes more than {MAX_WORK} units of work for this order: turns of macros, the sizes of the \
         values in them, and the texts and lists of functions"
    ))
}

/// Subtracts a value's size from `left`; false, with nothing left, if there is not enough.
fn take(value: &CelValue, left: &mut u64) -> bool {
    let own = match value {
        CelValue::String(text) => 1 + text.len() as u64 / BYTES,
        CelValue::Bytes(bytes) => 1 + bytes.len() as u64 / BYTES,
        _ => 1,
    };
    let Some(rest) = left.checked_sub(own) else {
        *left = 0;
        return false;
    };
    *left = rest;
    match value {
        CelValue::List(items) => items.iter().all(|item| take(item, left)),
        CelValue::Map(map) => map.map.values().all(|item| take(item, left)),
        _ => true,
    }
}
