//! What operators' programs read: one JSON object for each thing, in one vocabulary.
//!
//! | field | is |
//! |---|---|
//! | `kind` | what the object is about: `order`, `cause`, `downstream`, `waiting`, `version`, `letter`, `result` … |
//! | `state` | the name of an order's process state |
//! | `cause` | the fingerprint of a failure, as `--cause` takes it |
//! | `failure` | the failure itself, with its parts |
//! | names that end in `_at`, and other moments | RFC 3339, UTC, milliseconds |
//!
//! The last line of a list is of the kind `summary`: without it the output was cut off on its way. Its
//! field `more` says whether the list itself was cut.

use serde::ser::{self, Serialize, Serializer};
use serde_json::value::Serializer as Plain;
use serde_json::{Error, Map, Value};
use triad_core::Timestamp;

/// A moment as people and programs read it: RFC 3339, UTC, with milliseconds, such as
/// `2023-11-14T22:13:20.123Z`. A moment after the year 9999 is written as `N ms since 1970`.
#[must_use]
pub fn moment(at: Timestamp) -> String {
    let since = std::time::Duration::from_millis(at.0);
    match std::time::UNIX_EPOCH.checked_add(since) {
        // RFC 3339 ends with the year 9999.
        Some(time) if at.0 <= LAST_MS => humantime::format_rfc3339_millis(time).to_string(),
        _ => format!("{} ms since 1970", at.0),
    }
}

/// Reads a moment in RFC 3339, such as `2023-11-14T22:13:20.123Z`.
///
/// # Errors
/// If the text is none, or a moment before 1970.
pub fn read_moment(text: &str) -> Result<Timestamp, humantime::TimestampError> {
    let at = humantime::parse_rfc3339(text)?;
    let since = at.duration_since(std::time::UNIX_EPOCH);
    let since = since.map_err(|_| humantime::TimestampError::OutOfRange)?;
    let millis = u64::try_from(since.as_millis());
    millis
        .map(Timestamp)
        .map_err(|_| humantime::TimestampError::OutOfRange)
}

/// The last millisecond of the year 9999.
const LAST_MS: u64 = 253_402_300_799_999;

/// The JSON object for one thing: the fields of `value`, and the field `kind` with the text `kind`. Every
/// [`Timestamp`] in it, at any depth, is written as RFC 3339 text.
///
/// # Errors
/// [`serde_json::Error`] if the value has no form in JSON (such as a map whose keys are neither texts,
/// numbers nor booleans), or is not an object.
pub fn line(kind: &str, value: &impl Serialize) -> Result<Value, Error> {
    let mut line = of(value)?;
    let Some(fields) = line.as_object_mut() else {
        return Err(ser::Error::custom("it is no object"));
    };
    fields.insert("kind".to_owned(), kind.into());
    Ok(line)
}

/// A value as JSON, in which every [`Timestamp`], at any depth, is written as RFC 3339 text.
///
/// # Errors
/// [`serde_json::Error`] if the value has no form in JSON, such as a map whose keys are neither texts,
/// numbers nor booleans.
pub fn of(value: &impl Serialize) -> Result<Value, Error> {
    value.serialize(Moments)
}

/// The serde name of [`Timestamp`].
const TIMESTAMP: &str = "Timestamp";

/// Serializes as serde_json does, except for moments.
struct Moments;

macro_rules! as_it_is {
    ($($name:ident: $type:ty),*) => {
        $(fn $name(self, value: $type) -> Result<Value, Error> {
            Plain.$name(value)
        })*
    };
}

impl Serializer for Moments {
    type Ok = Value;
    type Error = Error;
    type SerializeSeq = List;
    type SerializeTuple = List;
    type SerializeTupleStruct = List;
    type SerializeTupleVariant = List;
    type SerializeMap = Fields;
    type SerializeStruct = Fields;
    type SerializeStructVariant = Fields;

    as_it_is!(
        serialize_bool: bool, serialize_i8: i8, serialize_i16: i16, serialize_i32: i32,
        serialize_i64: i64, serialize_i128: i128, serialize_u8: u8, serialize_u16: u16,
        serialize_u32: u32, serialize_u64: u64, serialize_u128: u128, serialize_f32: f32,
        serialize_f64: f64, serialize_char: char, serialize_str: &str, serialize_bytes: &[u8],
        serialize_unit_struct: &'static str
    );

    fn serialize_none(self) -> Result<Value, Error> {
        Ok(Value::Null)
    }

    fn serialize_unit(self) -> Result<Value, Error> {
        Ok(Value::Null)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Value, Error> {
        value.serialize(Self)
    }

    fn serialize_unit_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
    ) -> Result<Value, Error> {
        Ok(variant.into())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        value: &T,
    ) -> Result<Value, Error> {
        let inner = value.serialize(Self)?;
        Ok(match inner.as_u64() {
            Some(ms) if name == TIMESTAMP => moment(Timestamp(ms)).into(),
            _ => inner,
        })
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<Value, Error> {
        Ok(under(Some(variant), value.serialize(Self)?))
    }

    fn serialize_seq(self, length: Option<usize>) -> Result<List, Error> {
        Ok(List {
            variant: None,
            items: Vec::with_capacity(length.unwrap_or_default()),
        })
    }

    fn serialize_tuple(self, length: usize) -> Result<List, Error> {
        self.serialize_seq(Some(length))
    }

    fn serialize_tuple_struct(self, _name: &'static str, length: usize) -> Result<List, Error> {
        self.serialize_seq(Some(length))
    }

    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _length: usize,
    ) -> Result<List, Error> {
        Ok(List {
            variant: Some(variant),
            items: Vec::new(),
        })
    }

    fn serialize_map(self, _length: Option<usize>) -> Result<Fields, Error> {
        Ok(Fields::default())
    }

    fn serialize_struct(self, _name: &'static str, _length: usize) -> Result<Fields, Error> {
        Ok(Fields::default())
    }

    fn serialize_struct_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _length: usize,
    ) -> Result<Fields, Error> {
        Ok(Fields {
            variant: Some(variant),
            ..Fields::default()
        })
    }
}

/// Wraps a value in its variant's name, if it has one.
fn under(variant: Option<&'static str>, value: Value) -> Value {
    match variant {
        None => value,
        Some(name) => Value::Object(Map::from_iter([(name.to_owned(), value)])),
    }
}

/// A list under construction.
struct List {
    variant: Option<&'static str>,
    items: Vec<Value>,
}

macro_rules! list {
    ($($trait:ident $method:ident),*) => {
        $(impl ser::$trait for List {
            type Ok = Value;
            type Error = Error;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
                self.items.push(value.serialize(Moments)?);
                Ok(())
            }

            fn end(self) -> Result<Value, Error> {
                Ok(under(self.variant, Value::Array(self.items)))
            }
        })*
    };
}

list!(
    SerializeSeq serialize_element,
    SerializeTuple serialize_element,
    SerializeTupleStruct serialize_field,
    SerializeTupleVariant serialize_field
);

/// An object under construction.
#[derive(Default)]
struct Fields {
    variant: Option<&'static str>,
    made: Map<String, Value>,
    /// The key whose value comes next.
    key: Option<String>,
}

impl Fields {
    fn end(self) -> Value {
        under(self.variant, Value::Object(self.made))
    }
}

impl ser::SerializeMap for Fields {
    type Ok = Value;
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        self.key = Some(match key.serialize(Moments)? {
            Value::String(text) => text,
            number @ (Value::Number(_) | Value::Bool(_)) => number.to_string(),
            _ => return Err(ser::Error::custom("a key is no text")),
        });
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        let key = self.key.take().unwrap_or_default();
        self.made.insert(key, value.serialize(Moments)?);
        Ok(())
    }

    fn end(self) -> Result<Value, Error> {
        Ok(Self::end(self))
    }
}

macro_rules! fields {
    ($($trait:ident),*) => {
        $(impl ser::$trait for Fields {
            type Ok = Value;
            type Error = Error;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                name: &'static str,
                value: &T,
            ) -> Result<(), Error> {
                self.made.insert(name.to_owned(), value.serialize(Moments)?);
                Ok(())
            }

            fn end(self) -> Result<Value, Error> {
                Ok(Self::end(self))
            }
        })*
    };
}

fields!(SerializeStruct, SerializeStructVariant);

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Serialize;
    use serde_json::json;

    use super::*;

    #[derive(Serialize)]
    enum Every {
        Unit,
        New(Timestamp),
        Tuple(u8, Timestamp),
        Struct { at: Timestamp },
    }

    #[derive(Serialize)]
    struct Deep {
        at: Timestamp,
        maybe: Option<Timestamp>,
        never: Option<Timestamp>,
        number: u64,
        list: Vec<(Timestamp, &'static str)>,
        map: BTreeMap<u32, Timestamp>,
        every: Vec<Every>,
        #[serde(flatten)]
        flat: BTreeMap<String, Timestamp>,
        value: Value,
    }

    const AT: Timestamp = Timestamp(1_700_000_000_123);
    const TEXT: &str = "2023-11-14T22:13:20.123Z";

    #[test]
    fn every_moment_is_rfc_3339_however_deep_and_nothing_else_is_changed() {
        let deep = Deep {
            at: AT,
            maybe: Some(AT),
            never: None,
            number: AT.0,
            list: vec![(AT, "x")],
            map: BTreeMap::from([(7, AT)]),
            every: vec![
                Every::Unit,
                Every::New(AT),
                Every::Tuple(1, AT),
                Every::Struct { at: AT },
            ],
            flat: BTreeMap::from([("flat".to_owned(), AT)]),
            value: json!({"a": [1.5, -2, true, "t", null]}),
        };
        let expected = json!({
            "kind": "deep", "at": TEXT, "maybe": TEXT, "never": null, "number": AT.0,
            "list": [[TEXT, "x"]], "map": {"7": TEXT},
            "every": ["Unit", {"New": TEXT}, {"Tuple": [1, TEXT]}, {"Struct": {"at": TEXT}}],
            "flat": TEXT, "value": {"a": [1.5, -2, true, "t", null]},
        });
        assert_eq!(line("deep", &deep).expect("it has a form"), expected);
    }

    #[test]
    fn without_moments_it_is_what_serde_json_makes() {
        let value = json!({"a": {"b": [1, "x", null, {"c": false}]}, "d": -1.25});
        assert_eq!(of(&value).expect("a value"), value);
        let plain = (1u8, -2i64, 'c', "s", Some(1.5f32), ());
        let expected = serde_json::to_value(plain).expect("a value");
        assert_eq!(of(&plain).expect("a value"), expected);
    }

    #[test]
    fn a_moment_that_has_no_year_is_told_as_it_is() {
        assert_eq!(moment(AT), TEXT);
        assert_eq!(moment(Timestamp(LAST_MS)), "9999-12-31T23:59:59.999Z");
        assert_eq!(
            moment(Timestamp(u64::MAX)),
            format!("{} ms since 1970", u64::MAX)
        );
    }

    #[test]
    fn what_is_no_object_is_no_line() {
        assert!(line("list", &[1, 2]).is_err());
    }
}
