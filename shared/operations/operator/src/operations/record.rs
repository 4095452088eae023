//! An order's record in a message: the attributes in which stores keep it.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use triad_core::Order;
use triad_core::stored::{self, Scalar};
use triad_workflow::Millis;

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Attribute {
    Text(String),
    Number(u64),
    Null,
}

#[derive(Serialize, Deserialize)]
#[serde(transparent)]
struct Attributes(BTreeMap<String, Attribute>);

/// The order in one object; with `deserialize`, the `serde(with)` form of an [`Order`].
pub(super) fn serialize<S: Serializer>(order: &Order, to: S) -> Result<S::Ok, S::Error> {
    let attributes = stored::encode(order, 0, Millis(0)).into_iter();
    let attributes = attributes.map(|(name, value)| {
        let value = match value {
            Scalar::Text(text) => Attribute::Text(text),
            Scalar::Number(number) => Attribute::Number(number),
            Scalar::Null => Attribute::Null,
        };
        (name.to_owned(), value)
    });
    Attributes(attributes.collect()).serialize(to)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Order, D::Error> {
    let Attributes(attributes) = Attributes::deserialize(from)?;
    let read = |name: &str| {
        Ok(attributes.get(name).map(|value| match value {
            Attribute::Text(text) => Scalar::Text(text.clone()),
            Attribute::Number(number) => Scalar::Number(*number),
            Attribute::Null => Scalar::Null,
        }))
    };
    stored::decode(read).map_err(D::Error::custom)
}

/// Orders, each in one object.
pub(super) mod list {
    use super::*;

    #[derive(Serialize, Deserialize)]
    struct One(#[serde(with = "super")] Order);

    pub(crate) fn serialize<S: Serializer>(orders: &[Order], to: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Lent<'a>(#[serde(serialize_with = "super::serialize")] &'a Order);
        to.collect_seq(orders.iter().map(Lent))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Order>, D::Error> {
        let orders = Vec::<One>::deserialize(from)?;
        Ok(orders.into_iter().map(|One(order)| order).collect())
    }
}
