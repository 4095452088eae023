//! Functions of numbers, texts and times that the language itself does not have.
//!
//! Cost: one unit of work for a call, one for each element of a list that is read or made, and one for each 32 bytes
//! of the largest text that the call can make. It is subtracted before memory is allocated, outside of macros too,
//! because `replace` and `join` make long texts of short ones.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt::Write;

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bigdecimal::{BigDecimal, RoundingMode};
use cel::common::functions::Function;
use cel::common::types::{
    CelList, CelString, CelTimestamp, DYN_TYPE, LIST_TYPE, STRING_TYPE, TIMESTAMP_TYPE, Type,
};
use cel::common::value::{CowVal, Val};
use cel::{Env, ExecutionError, Value as CelValue};
use chrono::format::{Item, StrftimeItems};
use chrono_tz::Tz;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::{Digest, Sha256};

use super::cost_bound::{take_bytes, take_units};
use super::decimals::{self, Number};
use super::failed;

/// Most decimals of [`round`] and [`fixed`], inclusive. A number has at most 17 digits or 64 bits.
const MAX_DECIMALS: usize = 20;

/// What a text in an address may not have as it stands: all but the unreserved characters of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Writes padding, and reads texts with it and without.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

type Args<'b, 'v> = Vec<CowVal<'b, 'v>>;
type Found<'b, 'v> = Result<CowVal<'b, 'v>, ExecutionError>;

/// Adds the functions to the language.
pub(super) fn declare(env: &mut Env) {
    let alone: [(&str, Vec<Type>, Function); 12] = [
        ("round", vec![DYN_TYPE, DYN_TYPE], round),
        ("floor", vec![DYN_TYPE], |args| {
            rounded(&args, "floor", RoundingMode::Floor)
        }),
        ("ceil", vec![DYN_TYPE], |args| {
            rounded(&args, "ceil", RoundingMode::Ceiling)
        }),
        ("abs", vec![DYN_TYPE], |args| {
            out("abs", &number(&args, 0, "abs")?.abs())
        }),
        ("min", vec![DYN_TYPE, DYN_TYPE], |args| {
            either(&args, "min", Ordering::Less)
        }),
        ("max", vec![DYN_TYPE, DYN_TYPE], |args| {
            either(&args, "max", Ordering::Greater)
        }),
        ("sum", vec![LIST_TYPE], sum),
        ("fixed", vec![DYN_TYPE, DYN_TYPE], fixed),
        ("base64", vec![STRING_TYPE], base64),
        ("base64_decode", vec![STRING_TYPE], base64_decode),
        ("url_encode", vec![STRING_TYPE], url_encode),
        ("sha256", vec![STRING_TYPE], sha256),
    ];
    let of_text: [(&str, Vec<Type>, Function); 6] = [
        ("lower", vec![], |args| case(&args, str::to_lowercase)),
        ("upper", vec![], |args| case(&args, str::to_uppercase)),
        ("trim", vec![], trim),
        ("split", vec![STRING_TYPE], split),
        ("replace", vec![STRING_TYPE, STRING_TYPE], replace),
        ("substring", vec![DYN_TYPE, DYN_TYPE], substring),
    ];
    // They fail only for a name that the language has already.
    for (name, args, function) in alone {
        let _ = env.add_overload(name, name, args, function);
    }
    for (name, args, function) in of_text {
        let _ = env.add_member_overload(name, name, STRING_TYPE, args, function);
    }
    let args = vec![STRING_TYPE, STRING_TYPE];
    let _ = env.add_member_overload("format", "format", TIMESTAMP_TYPE, args, format);
    let _ = env.add_member_overload("join", "join", LIST_TYPE, vec![STRING_TYPE], join);
}

fn arg<'a, 'b, 'v>(
    args: &'a Args<'b, 'v>,
    at: usize,
) -> Result<&'a (dyn Val + 'v), ExecutionError> {
    let arg = args.get(at).map(AsRef::as_ref);
    arg.ok_or(ExecutionError::MissingArgumentOrTarget)
}

fn number(args: &Args<'_, '_>, at: usize, function: &str) -> Result<BigDecimal, ExecutionError> {
    number_of(arg(args, at)?, function)
}

fn number_of(value: &dyn Val, function: &str) -> Result<BigDecimal, ExecutionError> {
    match Number::of(value) {
        Some(Number::Decimal(exact)) => Ok(exact),
        Some(Number::NotFinite(_)) => Err(failed::execution_error(format!(
            "`{function}` has a number that is infinite or not a number"
        ))),
        None => {
            let kind = CelValue::try_from(value).map_or("a value", |value| failed::kind(&value));
            let reason = format!("`{function}` takes numbers, and not {kind}");
            Err(failed::execution_error(reason))
        }
    }
}

/// A whole number from 0 to `most`.
fn count(
    args: &Args<'_, '_>,
    at: usize,
    function: &str,
    most: usize,
) -> Result<usize, ExecutionError> {
    let exact = number(args, at, function)?;
    let found = match decimals::value(&exact) {
        Some(CelValue::Int(whole)) => usize::try_from(whole).ok(),
        _ => None,
    };
    found.filter(|found| *found <= most).ok_or_else(|| {
        let to = match most {
            usize::MAX => String::new(),
            most => format!(" to {most}"),
        };
        failed::execution_error(format!("`{function}` takes a whole number from 0{to}"))
    })
}

fn text<'a>(args: &'a Args<'_, '_>, at: usize) -> Result<&'a str, ExecutionError> {
    let text = arg(args, at)?.downcast_ref::<CelString>();
    text.map(CelString::inner)
        .ok_or(ExecutionError::MissingArgumentOrTarget)
}

fn elements<'a, 'v>(args: &'a Args<'_, 'v>) -> Result<&'a [Box<dyn Val + 'v>], ExecutionError> {
    let list = arg(args, 0)?.downcast_ref::<CelList>();
    list.map(CelList::inner)
        .ok_or(ExecutionError::MissingArgumentOrTarget)
}

fn out<'b, 'v>(function: &'static str, exact: &BigDecimal) -> Found<'b, 'v> {
    let value = decimals::value(exact);
    let null = || CelValue::Null;
    let value = value.ok_or_else(|| ExecutionError::Overflow(function, null(), null()))?;
    Ok(CowVal::Owned(value.try_into()?))
}

fn out_text<'b, 'v>(text: String) -> Found<'b, 'v> {
    Ok(CowVal::owned(CelString::from(text)))
}

/// `round(x, decimals)`: half away from zero, as invoices round.
fn round<'b, 'v>(args: Args<'b, 'v>) -> Found<'b, 'v> {
    let exact = number(&args, 0, "round")?;
    let decimals = count(&args, 1, "round", MAX_DECIMALS)?;
    out(
        "round",
        &exact.with_scale_round(decimals as i64, RoundingMode::HalfUp),
    )
}

fn rounded<'b, 'v>(args: &Args<'b, 'v>, name: &'static str, mode: RoundingMode) -> Found<'b, 'v> {
    out(name, &number(args, 0, name)?.with_scale_round(0, mode))
}

fn either<'b, 'v>(args: &Args<'b, 'v>, name: &'static str, wanted: Ordering) -> Found<'b, 'v> {
    let (a, b) = (number(args, 0, name)?, number(args, 1, name)?);
    out(name, if a.cmp(&b) == wanted { &a } else { &b })
}

fn sum<'b, 'v>(args: Args<'b, 'v>) -> Found<'b, 'v> {
    let elements = elements(&args)?;
    take_units(1 + elements.len() as u64)?;
    let mut sum = BigDecimal::from(0);
    for element in elements {
        sum += number_of(element.as_ref(), "sum")?;
    }
    out("sum", &sum)
}

/// `fixed(x, decimals)`: a text with exactly that many decimals, rounded as [`round`] does.
fn fixed<'b, 'v>(args: Args<'b, 'v>) -> Found<'b, 'v> {
    let exact = number(&args, 0, "fixed")?;
    let decimals = count(&args, 1, "fixed", MAX_DECIMALS)?;
    let exact = exact.with_scale_round(decimals as i64, RoundingMode::HalfUp);
    out_text(exact.to_plain_string())
}

/// A letter may have three times as many bytes in the other case.
fn case<'b, 'v>(args: &Args<'b, 'v>, convert: fn(&str) -> String) -> Found<'b, 'v> {
    let text = text(args, 0)?;
    take_bytes(3 * text.len())?;
    out_text(convert(text))
}

fn trim<'b, 'v>(args: Args<'b, 'v>) -> Found<'b, 'v> {
    let text = text(&args, 0)?;
    take_bytes(text.len())?;
    out_text(text.trim().to_owned())
}

fn split<'b, 'v>(args: Args<'b, 'v>) -> Found<'b, 'v> {
    let (text, separator) = (text(&args, 0)?, text(&args, 1)?);
    if separator.is_empty() {
        let reason = "`split` takes a separator that is not empty";
        return Err(failed::execution_error(reason.to_owned()));
    }
    take_bytes(text.len())?;
    take_units(1 + text.matches(separator).count() as u64)?;
    let piece = |piece: &str| Box::new(CelString::from(piece.to_owned())) as Box<dyn Val + 'v>;
    let pieces: Vec<Box<dyn Val + 'v>> = text.split(separator).map(piece).collect();
    Ok(CowVal::owned(CelList::from(pieces)))
}

/// `list.join(separator)` of texts and numbers.
fn join<'b, 'v>(args: Args<'b, 'v>) -> Found<'b, 'v> {
    let (elements, separator) = (elements(&args)?, text(&args, 1)?);
    take_units(elements.len() as u64)?;
    let mut texts: Vec<Cow<'_, str>> = Vec::with_capacity(elements.len());
    for element in elements {
        texts.push(match element.downcast_ref::<CelString>() {
            Some(text) => Cow::Borrowed(text.inner()),
            None => Cow::Owned(number_as_text(element.as_ref())?),
        });
    }
    let separators = separator
        .len()
        .saturating_mul(texts.len().saturating_sub(1));
    let pieces: usize = texts.iter().map(|text| text.len()).sum();
    take_bytes(pieces.saturating_add(separators))?;
    out_text(texts.join(separator))
}

/// A number as JSON writes it, in at most 25 bytes.
fn number_as_text(value: &dyn Val) -> Result<String, ExecutionError> {
    let value = decimals::value(&number_of(value, "join")?);
    let json = value.as_ref().and_then(|value| value.json().ok());
    Ok(json.map_or_else(String::new, |json| json.to_string()))
}

fn replace<'b, 'v>(args: Args<'b, 'v>) -> Found<'b, 'v> {
    let (text, from, to) = (text(&args, 0)?, text(&args, 1)?, text(&args, 2)?);
    take_bytes(text.len())?;
    let more = text.matches(from).count().saturating_mul(to.len());
    take_bytes(more)?;
    out_text(text.replace(from, to))
}

/// `text.substring(begin, end)` in characters from 0, without the one at `end`. What is behind the text is left out, so
/// `substring(0, 40)` shortens a long text and keeps a short one.
fn substring<'b, 'v>(args: Args<'b, 'v>) -> Found<'b, 'v> {
    let text = text(&args, 0)?;
    let begin = count(&args, 1, "substring", usize::MAX)?;
    let end = count(&args, 2, "substring", usize::MAX)?;
    take_bytes(text.len())?;
    let kept = text.chars().skip(begin).take(end.saturating_sub(begin));
    out_text(kept.collect())
}

fn base64<'b, 'v>(args: Args<'b, 'v>) -> Found<'b, 'v> {
    let text = text(&args, 0)?;
    take_bytes(2 * text.len())?;
    out_text(BASE64.encode(text))
}

fn base64_decode<'b, 'v>(args: Args<'b, 'v>) -> Found<'b, 'v> {
    let text = text(&args, 0)?;
    take_bytes(text.len())?;
    let failed = |what| move || failed::execution_error(format!("`base64_decode` has {what}"));
    let bytes = BASE64.decode(text).ok();
    let bytes = bytes.ok_or_else(failed("a text that is not Base64"))?;
    let decoded = String::from_utf8(bytes).ok();
    out_text(decoded.ok_or_else(failed("bytes that are no text in UTF-8"))?)
}

fn url_encode<'b, 'v>(args: Args<'b, 'v>) -> Found<'b, 'v> {
    let text = text(&args, 0)?;
    take_bytes(3 * text.len())?;
    out_text(utf8_percent_encode(text, RESERVED).to_string())
}

/// The digest in hexadecimal digits.
fn sha256<'b, 'v>(args: Args<'b, 'v>) -> Found<'b, 'v> {
    let text = text(&args, 0)?;
    take_bytes(text.len())?;
    let digest = Sha256::digest(text.as_bytes());
    out_text(digest.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// `time.format(form, zone)`: a form such as `%Y-%m-%d %H:%M`, and a zone of the time zone database.
fn format<'b, 'v>(args: Args<'b, 'v>) -> Found<'b, 'v> {
    let time = arg(&args, 0)?.downcast_ref::<CelTimestamp>();
    let time = time.ok_or(ExecutionError::MissingArgumentOrTarget)?.inner();
    let (form, zone) = (text(&args, 1)?, text(&args, 2)?);
    // Two bytes of a form are at most 35 of a text.
    take_bytes(18 * form.len())?;
    let failed = |what| move || failed::execution_error(format!("`format` has {what}"));
    let zone: Option<Tz> = zone.parse().ok();
    let zone = zone.ok_or_else(failed("no such time zone: write one such as Europe/Paris"))?;
    let items: Vec<Item<'_>> = StrftimeItems::new(form).collect();
    let local = time.with_timezone(&zone);
    let mut text = String::new();
    // `%#z` is for reading alone, and writing it would be a panic.
    let is_form = !items.contains(&Item::Error) && !form.contains("%#z");
    if !is_form || write!(text, "{}", local.format_with_items(items.iter())).is_err() {
        return Err(failed("no such form: write one such as %Y-%m-%d")());
    }
    out_text(text)
}
