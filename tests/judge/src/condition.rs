//! Parses and evaluates the conditions of writes, independently of the store.
//!
//! It supports the part of DynamoDB's expressions that Triad uses: `AND`, `OR`, parentheses, `=`, `<=`,
//! `attribute_exists`,
//! `attribute_not_exists` and `attribute_type`. Anything else is an error, and so is an attribute that the judge does
//! not keep: no condition is assumed to be true.
//!
//! Source: "Condition and filter expressions" of the DynamoDB developer guide. A comparison with an absent attribute
//! is false.

use super::history::{Condition, Item, Scalar};
use super::item::KEPT;

/// A condition that the judge cannot evaluate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the condition {text:?} cannot be judged: {why}")]
pub struct Unjudged {
    text: String,
    why: String,
}

/// Limit on nested parentheses.
const DEEPEST: usize = 16;

/// A parsed condition, or a part of it.
#[derive(Debug, Clone, PartialEq)]
pub enum Term {
    /// Both parts are true.
    And(Box<Term>, Box<Term>),
    /// At least one part is true.
    Or(Box<Term>, Box<Term>),
    /// The attribute has this value.
    Equals(String, Scalar),
    /// The attribute is a number, and at most this.
    AtMost(String, u64),
    /// The attribute exists (`true`), or does not (`false`).
    Exists(String, bool),
    /// The attribute exists, and is null.
    IsNull(String),
}

impl Term {
    /// Parses a condition.
    ///
    /// # Errors
    /// [`Unjudged`] if a part of it is not supported.
    pub fn read(condition: &Condition) -> Result<Self, Unjudged> {
        let tokens = tokens(&condition.text);
        let mut reader = Reader {
            condition,
            tokens: &tokens,
            depth: 0,
        };
        let read = reader.either().and_then(|term| match reader.tokens {
            [] => Ok(term),
            [next, ..] => Err(format!("{next:?} is left")),
        });
        read.map_err(|why| Unjudged {
            text: condition.text.clone(),
            why,
        })
    }

    /// Whether the condition is true of this item; `None` is a missing item.
    #[must_use]
    pub fn holds(&self, item: Option<&Item>) -> bool {
        let value = |name: &String| item.and_then(|i| i.attributes.get(name));
        match self {
            Self::And(a, b) => a.holds(item) && b.holds(item),
            Self::Or(a, b) => a.holds(item) || b.holds(item),
            Self::Equals(name, wanted) => value(name) == Some(wanted),
            Self::AtMost(name, most) => matches!(value(name), Some(Scalar::Number(n)) if n <= most),
            Self::Exists(name, wanted) => value(name).is_some() == *wanted,
            Self::IsNull(name) => value(name) == Some(&Scalar::Null),
        }
    }
}

fn tokens(text: &str) -> Vec<String> {
    let mut spaced = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if matches!(c, '(' | ')' | ',') {
            spaced.extend([' ', c, ' ']);
        } else {
            spaced.push(c);
        }
    }
    spaced.split_whitespace().map(str::to_owned).collect()
}

struct Reader<'a> {
    condition: &'a Condition,
    tokens: &'a [String],
    depth: usize,
}

impl Reader<'_> {
    fn next(&mut self) -> Result<String, String> {
        let (first, rest) = self.tokens.split_first().ok_or("it ends too soon")?;
        self.tokens = rest;
        Ok(first.clone())
    }

    fn is_next(&self, word: &str) -> bool {
        self.tokens.first().is_some_and(|t| t == word)
    }

    fn expect(&mut self, word: &str) -> Result<(), String> {
        let next = self.next()?;
        (next == word)
            .then_some(())
            .ok_or_else(|| format!("{next:?} is not {word:?}"))
    }

    fn either(&mut self) -> Result<Term, String> {
        let mut term = self.conjunction()?;
        while self.is_next("OR") {
            self.next()?;
            term = Term::Or(Box::new(term), Box::new(self.conjunction()?));
        }
        Ok(term)
    }

    fn conjunction(&mut self) -> Result<Term, String> {
        let mut term = self.single()?;
        while self.is_next("AND") {
            self.next()?;
            term = Term::And(Box::new(term), Box::new(self.single()?));
        }
        Ok(term)
    }

    fn single(&mut self) -> Result<Term, String> {
        let word = self.next()?;
        match word.as_str() {
            "(" => {
                self.depth += 1;
                if self.depth > DEEPEST {
                    return Err("it is nested too deep".into());
                }
                let term = self.either()?;
                self.expect(")")?;
                self.depth -= 1;
                Ok(term)
            }
            "attribute_exists" | "attribute_not_exists" => {
                self.expect("(")?;
                let name = self.name()?;
                self.expect(")")?;
                Ok(Term::Exists(name, word == "attribute_exists"))
            }
            "attribute_type" => {
                self.expect("(")?;
                let name = self.name()?;
                self.expect(",")?;
                let kind = self.value()?;
                self.expect(")")?;
                match kind {
                    Scalar::Text(kind) if kind == "NULL" => Ok(Term::IsNull(name)),
                    other => Err(format!("the type {other:?}")),
                }
            }
            _ => {
                let name = self.resolve(word)?;
                let sign = self.next()?;
                match (sign.as_str(), self.value()?) {
                    ("=", value) => Ok(Term::Equals(name, value)),
                    ("<=", Scalar::Number(most)) => Ok(Term::AtMost(name, most)),
                    (sign, value) => Err(format!("{sign} {value:?}")),
                }
            }
        }
    }

    fn name(&mut self) -> Result<String, String> {
        let word = self.next()?;
        self.resolve(word)
    }

    fn resolve(&self, word: String) -> Result<String, String> {
        let name = match self.condition.names.get(&word) {
            Some(name) => name.clone(),
            None => word,
        };
        if KEPT.contains(&name.as_str()) {
            Ok(name)
        } else {
            Err(format!("the attribute {name:?} is not kept"))
        }
    }

    fn value(&mut self) -> Result<Scalar, String> {
        let word = self.next()?;
        let value = self.condition.values.get(&word).cloned();
        value.ok_or_else(|| format!("{word:?} has no value"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(text: &str) -> Condition {
        let values = [
            (":expected", Scalar::Number(7)),
            (":null", Scalar::Text("NULL".into())),
            (":claim", Scalar::Text("c".into())),
            (":expires", Scalar::Number(50)),
        ];
        let values = values.map(|(name, value)| (name.to_owned(), value));
        Condition {
            text: text.into(),
            names: [("#key".to_owned(), "Key".to_owned())].into(),
            values: values.into(),
        }
    }

    fn item(version: u64, claim: Scalar, expires: Option<u64>) -> Item {
        let mut attributes = std::collections::BTreeMap::from([
            ("Version".to_owned(), Scalar::Number(version)),
            ("LockedBy".to_owned(), claim),
        ]);
        attributes.extend(expires.map(|at| ("ExpiresAt".to_owned(), Scalar::Number(at))));
        Item {
            digest: String::new(),
            attributes,
            out: Vec::new(),
        }
    }

    #[test]
    fn the_conditions_in_use_mean_what_the_service_says() {
        let claim = Term::read(&condition(
            "Version = :expected AND (attribute_type(LockedBy, :null) OR LockedBy = :claim) \
             AND (attribute_not_exists(ExpiresAt) OR ExpiresAt <= :expires)",
        ))
        .unwrap();
        let by = |name: &str| Scalar::Text(name.into());
        assert!(claim.holds(Some(&item(7, Scalar::Null, None))));
        assert!(claim.holds(Some(&item(7, by("c"), Some(50)))));
        assert!(!claim.holds(Some(&item(8, Scalar::Null, None))));
        assert!(!claim.holds(Some(&item(7, by("d"), None))));
        assert!(!claim.holds(Some(&item(7, Scalar::Null, Some(51)))));
        assert!(!claim.holds(None));
        let absent = Term::read(&condition("attribute_not_exists(#key)")).unwrap();
        assert!(absent.holds(None));
    }

    #[test]
    fn what_is_not_known_is_not_taken_for_true() {
        for text in [
            "",
            "Version > :expected",
            "size(Version) = :expected",
            "Outbox = :claim",
            "Version = :nothing",
            "Version = :expected )",
            "NOT attribute_exists(Version)",
        ] {
            assert!(Term::read(&condition(text)).is_err(), "{text:?}");
        }
        let deep = format!("{}Version = :expected", "(".repeat(40));
        assert!(Term::read(&condition(&deep)).is_err());
    }
}
