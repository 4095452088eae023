//! Kinds of values, as far as they are known before there is an order.

use std::collections::BTreeMap;
use std::ops::BitOr;
use std::rc::Rc;

/// A set of kinds of values that an expression may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Kinds(pub(crate) u16);

impl BitOr for Kinds {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl Kinds {
    pub(crate) const NEVER: Self = Self(0);
    pub(crate) const NULL: Self = Self(1);
    pub(crate) const BOOL: Self = Self(2);
    pub(crate) const INT: Self = Self(4);
    pub(crate) const UINT: Self = Self(8);
    pub(crate) const DOUBLE: Self = Self(16);
    pub(crate) const STRING: Self = Self(32);
    pub(crate) const BYTES: Self = Self(64);
    pub(crate) const LIST: Self = Self(128);
    pub(crate) const MAP: Self = Self(256);
    pub(crate) const TYPE: Self = Self(512);
    pub(crate) const TIME: Self = Self(1_024);
    pub(crate) const DURATION: Self = Self(2_048);
    /// A number of JSON: whole ones are `int`, or `uint` if they are too large for that.
    pub(crate) const NUMBER: Self = Self(4 | 8 | 16);
    /// All kinds of JSON.
    pub(crate) const JSON: Self = Self(1 | 2 | 4 | 8 | 16 | 32 | 128 | 256);

    /// The kinds of the set, one by one.
    pub(crate) fn each(self) -> impl Iterator<Item = Self> {
        (0..12).map(|n| Self(1 << n)).filter(move |k| self.may(*k))
    }

    /// Whether the sets have a kind in common.
    pub(crate) fn may(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether all of this set are in the other one.
    pub(crate) fn is_subset_of(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    /// The kinds in an author's words.
    pub(crate) fn names(self) -> String {
        let mut rest = self;
        let mut said: Vec<&str> = Vec::new();
        for (kinds, name) in [
            (Self::NUMBER, "a number"),
            (Self(Self::INT.0 | Self::UINT.0), "a whole number"),
            (Self::INT, "a whole number"),
            (Self::UINT, "a whole number without sign"),
            (Self::DOUBLE, "a number with a point"),
            (Self::BOOL, "true or false"),
            (Self::STRING, "a text"),
            (Self::BYTES, "bytes"),
            (Self::LIST, "a list"),
            (Self::MAP, "a mapping"),
            (Self::TYPE, "the name of a type"),
            (Self::TIME, "a time"),
            (Self::DURATION, "a duration"),
            (Self::NULL, "null"),
        ] {
            if kinds.is_subset_of(rest) {
                said.push(name);
                rest = Self(rest.0 & !kinds.0);
            }
        }
        said.join(" or ")
    }
}

/// The type of an expression.
#[derive(Debug, Clone)]
pub(crate) struct Type {
    pub(crate) kinds: Kinds,
    /// For a list, the type of its elements; `None` for any type.
    pub(crate) elements: Option<Rc<Type>>,
    /// For a mapping, its fields; `None` for any fields.
    pub(crate) fields: Option<Rc<Fields>>,
    /// Id of the step whose unchanged output this is, which is null if the step was skipped.
    pub(crate) may_be_skipped: Option<String>,
}

/// The fields of a mapping.
#[derive(Debug, Default)]
pub(crate) struct Fields {
    pub(crate) known: BTreeMap<String, Type>,
    /// Whether there may be further fields.
    pub(crate) is_open: bool,
}

impl Type {
    pub(crate) const fn of(kinds: Kinds) -> Self {
        Self {
            kinds,
            elements: None,
            fields: None,
            may_be_skipped: None,
        }
    }

    /// Any value of JSON.
    pub(crate) const fn any() -> Self {
        Self::of(Kinds::JSON)
    }

    pub(crate) fn list(elements: Self) -> Self {
        Self {
            elements: Some(Rc::new(elements)),
            ..Self::of(Kinds::LIST)
        }
    }

    pub(crate) fn map(fields: Fields) -> Self {
        Self {
            fields: Some(Rc::new(fields)),
            ..Self::of(Kinds::MAP)
        }
    }

    /// The union of two types.
    pub(crate) fn or(self, other: Self) -> Self {
        let elements = match (self.kinds.may(Kinds::LIST), other.kinds.may(Kinds::LIST)) {
            (true, false) => self.elements,
            (false, true) => other.elements,
            _ => match (self.elements, other.elements) {
                (Some(a), Some(b)) => Some(Rc::new((*a).clone().or((*b).clone()))),
                _ => None,
            },
        };
        let fields = match (self.kinds.may(Kinds::MAP), other.kinds.may(Kinds::MAP)) {
            (true, false) => self.fields,
            (false, true) => other.fields,
            // Two mappings: the fields of one need not be in the other.
            _ => None,
        };
        Self {
            kinds: self.kinds | other.kinds,
            elements,
            fields,
            may_be_skipped: self.may_be_skipped.or(other.may_be_skipped),
        }
    }

    /// The type of a list's elements.
    pub(crate) fn element(&self) -> Self {
        self.elements
            .as_ref()
            .map_or_else(Self::any, |e| (**e).clone())
    }
}
