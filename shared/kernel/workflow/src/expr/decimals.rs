//! Numbers are decimals: an operator computes with the digits that an author sees, and not with those of binary
//! fractions.
//!
//! JSON has one kind of number, and the language three: a price that is 20 in one order and 19.99 in the next would be
//! an `int` here and a `double` there. So the arithmetic operators take any two numbers. Each becomes a decimal, a
//! `double` by its shortest text, the result is exact, and becomes a number of the language again:
//!
//! - a whole result within 64 bits is an `int`, or a `uint` above that one's range;
//! - any other is the nearest `double`, whose shortest text has the digits of every result of up to 15 significant
//!   ones;
//! - a whole result beyond 64 bits that no `double` has exactly is an error, because an identifier or an amount would
//!   change.
//!
//! Bound: a `double` has at most 309 digits before the point and 324 behind it, so an exact result has at most 1,300
//! digits. An operation takes about a microsecond.

use bigdecimal::num_bigint::BigInt;
use bigdecimal::{BigDecimal, Zero};
use cel::common::ast::operators;
use cel::common::types::{CelDouble, CelInt, CelUInt, DYN_TYPE};
use cel::common::value::{CowVal, Val};
use cel::{Env, ExecutionError, Value as CelValue};

use crate::numbers::shortest;

/// Significant digits of a quotient that has no end, at least; a `double` has 17.
const QUOTIENT_DIGITS: u64 = 40;

/// An arithmetic operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

/// The language's operators, and the functions that are called in their place. Authors cannot write the sign `@` in an
/// expression.
const OPERATORS: [(&str, &str); 5] = [
    (operators::ADD, "@add"),
    (operators::SUBSTRACT, "@subtract"),
    (operators::MULTIPLY, "@multiply"),
    (operators::DIVIDE, "@divide"),
    (operators::MODULO, "@remainder"),
];

/// The function that is called in place of an operator; `None` for what is no arithmetic operator.
pub(super) fn in_place_of(operator: &str) -> Option<&'static str> {
    let mut all = OPERATORS.iter();
    all.find(|(known, _)| *known == operator)
        .map(|(_, function)| *function)
}

/// Whether an operator between two numbers may have a result of another kind of number than theirs.
#[cfg(feature = "load")]
pub(crate) fn may_change_kind(operator: &str, are_whole: bool) -> bool {
    in_place_of(operator).is_some() && (operator == operators::DIVIDE || !are_whole)
}

/// Adds the functions of [`in_place_of`] to the language.
pub(super) fn declare(env: &mut Env) {
    let functions: [cel::common::functions::Function; 5] = [
        |args| binary(args, Operator::Add),
        |args| binary(args, Operator::Subtract),
        |args| binary(args, Operator::Multiply),
        |args| binary(args, Operator::Divide),
        |args| binary(args, Operator::Remainder),
    ];
    for ((_, name), function) in OPERATORS.iter().zip(functions) {
        // It fails only for a name that the language has already.
        let _ = env.add_overload(name, name, vec![DYN_TYPE, DYN_TYPE], function);
    }
}

fn binary<'b, 'v>(
    args: Vec<CowVal<'b, 'v>>,
    operator: Operator,
) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let [left, right] = args.as_slice() else {
        return Err(ExecutionError::MissingArgumentOrTarget);
    };
    let (left, right) = (left.as_ref(), right.as_ref());
    if let Some(whole) = of_whole(left, right, operator) {
        return Ok(CowVal::owned(CelInt::from(whole)));
    }
    match (Number::of(left), Number::of(right)) {
        (Some(Number::Decimal(a)), Some(Number::Decimal(b))) => {
            let exact = match operator {
                Operator::Add => a + b,
                Operator::Subtract => a - b,
                Operator::Multiply => a * b,
                Operator::Divide if b.is_zero() => {
                    return Err(ExecutionError::DivisionByZero(owned(left)));
                }
                Operator::Remainder if b.is_zero() => {
                    return Err(ExecutionError::RemainderByZero(owned(left)));
                }
                Operator::Divide => quotient(&a, &b),
                Operator::Remainder => a % b,
            };
            let value = value(&exact);
            let value = value.ok_or_else(|| {
                ExecutionError::Overflow(operator.name(), owned(left), owned(right))
            })?;
            Ok(CowVal::Owned(value.try_into()?))
        }
        (Some(a), Some(b)) => {
            let (a, b) = (a.double(), b.double());
            let double = match operator {
                Operator::Add => a + b,
                Operator::Subtract => a - b,
                Operator::Multiply => a * b,
                Operator::Divide => a / b,
                Operator::Remainder => a % b,
            };
            Ok(CowVal::owned(CelDouble::from(double)))
        }
        _ => by_language(left, right, operator),
    }
}

impl Operator {
    /// As the language's errors call it.
    fn name(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Subtract => "sub",
            Self::Multiply => "mul",
            Self::Divide => "div",
            Self::Remainder => "rem",
        }
    }
}

/// The most frequent operations: of two `int`s, with an `int` as result.
fn of_whole(left: &dyn Val, right: &dyn Val, operator: Operator) -> Option<i64> {
    let a = *left.downcast_ref::<CelInt>()?.inner();
    let b = *right.downcast_ref::<CelInt>()?.inner();
    match operator {
        Operator::Add => a.checked_add(b),
        Operator::Subtract => a.checked_sub(b),
        Operator::Multiply => a.checked_mul(b),
        Operator::Divide => a.checked_rem(b).filter(|rest| *rest == 0).map(|_| a / b),
        Operator::Remainder => a.checked_rem(b),
    }
}

/// What the language does with values that are not both numbers: it joins texts, lists and bytes.
fn by_language<'b, 'v>(
    left: &(dyn Val + 'v),
    right: &(dyn Val + 'v),
    operator: Operator,
) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let found = match operator {
        Operator::Add => left.as_adder().map(|left| left.add(right)),
        Operator::Subtract => left.as_subtractor().map(|left| left.sub(right)),
        Operator::Multiply => left.as_multiplier().map(|left| left.mul(right)),
        Operator::Divide => left.as_divider().map(|left| left.div(right)),
        Operator::Remainder => left.as_modder().map(|left| left.modulo(right)),
    };
    let found = found.ok_or_else(|| {
        ExecutionError::UnsupportedBinaryOperator(operator.name(), owned(left), owned(right))
    })?;
    Ok(CowVal::Owned(found?.into_owned()))
}

fn owned(value: &dyn Val) -> CelValue {
    CelValue::try_from(value).unwrap_or(CelValue::Null)
}

/// A number of the language.
pub(super) enum Number {
    Decimal(BigDecimal),
    /// An infinite one, or none.
    NotFinite(f64),
}

impl Number {
    /// `None` for a value that is no number.
    pub(super) fn of(value: &dyn Val) -> Option<Self> {
        if let Some(whole) = value.downcast_ref::<CelInt>() {
            return Some(Self::Decimal(BigDecimal::from(*whole.inner())));
        }
        if let Some(whole) = value.downcast_ref::<CelUInt>() {
            return Some(Self::Decimal(BigDecimal::from(*whole.inner())));
        }
        let double = *value.downcast_ref::<CelDouble>()?.inner();
        Some(decimal(double).map_or(Self::NotFinite(double), Self::Decimal))
    }

    fn double(&self) -> f64 {
        match self {
            Self::Decimal(exact) => nearest(exact),
            Self::NotFinite(double) => *double,
        }
    }
}

/// The decimal of a `double`'s shortest text; `None` if it is infinite or no number.
fn decimal(double: f64) -> Option<BigDecimal> {
    shortest(double).parse().ok()
}

/// The `double` that is nearest; infinite beyond the range.
fn nearest(exact: &BigDecimal) -> f64 {
    let (digits, scale) = exact.as_bigint_and_scale();
    let text = format!("{digits}e{}", -scale);
    text.parse().unwrap_or(f64::NAN)
}

/// A decimal as a number of the language, as the documentation of this module has it; `None` for a whole number that
/// no kind of number has exactly.
pub(super) fn value(exact: &BigDecimal) -> Option<CelValue> {
    if let Some(whole) = whole(exact) {
        return Some(whole);
    }
    let near = nearest(exact);
    let Some(rounded) = decimal(near) else {
        // Beyond the range; `json` refuses it.
        return Some(CelValue::Float(near));
    };
    if exact.is_integer() && rounded != *exact {
        return None;
    }
    Some(whole(&rounded).unwrap_or(CelValue::Float(near)))
}

/// A decimal as an integer; `None` if it has a fraction, or does not fit 64 bits.
fn whole(exact: &BigDecimal) -> Option<CelValue> {
    let digits = match exact.as_bigint_and_scale() {
        (digits, 0) => digits.into_owned(),
        _ => {
            let (digits, scale) = exact.normalized().into_bigint_and_scale();
            // Twenty digits may fit, and more zeros than those do not.
            let zeros = u32::try_from(-scale).ok().filter(|zeros| *zeros < 20)?;
            digits * BigInt::from(10).pow(zeros)
        }
    };
    let int = i64::try_from(&digits).map(CelValue::Int);
    int.or_else(|_| u64::try_from(&digits).map(CelValue::UInt))
        .ok()
}

/// `a / b` with all its digits, if there are at most [`QUOTIENT_DIGITS`], and else with at least those. `b` is not 0.
fn quotient(a: &BigDecimal, b: &BigDecimal) -> BigDecimal {
    let more = (QUOTIENT_DIGITS + b.digits()).saturating_sub(a.digits());
    let more = u32::try_from(more).unwrap_or(u32::MAX);
    let (a, of_a) = a.as_bigint_and_scale();
    let (b, of_b) = b.as_bigint_and_scale();
    let digits = a.as_ref() * BigInt::from(10).pow(more) / b.as_ref();
    BigDecimal::from_bigint(digits, of_a - of_b + i64::from(more))
}
