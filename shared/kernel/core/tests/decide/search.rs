//! Search keys in the stored form of an order.

use triad_core::Order;
use triad_core::stored::{self, Scalar, attribute as attr};
use triad_workflow::{Millis, SearchKey};

use crate::support::{LINE, Story};

fn keys(texts: &[&str]) -> Vec<SearchKey> {
    let keys = texts.iter().map(|text| text.parse());
    keys.collect::<Result<_, _>>().expect("search keys")
}

/// The order's stored attributes, and the order decoded from them.
fn stored(order: &Order) -> (Vec<(&'static str, Scalar)>, Order) {
    let attributes = stored::encode(order, 7, Millis(0));
    let read = |name: &str| {
        let found = attributes.iter().find(|(known, _)| *known == name);
        Ok(found.map(|(_, value)| value.clone()))
    };
    let order = stored::decode(read).expect("it can be read");
    (attributes, order)
}

fn attribute(of: &[(&'static str, Scalar)], name: &str) -> Option<Scalar> {
    let found = of.iter().find(|(known, _)| *known == name);
    found.map(|(_, value)| value.clone())
}

#[test]
fn each_key_is_an_attribute_of_its_own_as_it_is_searched_for() {
    let mut s = Story::of(LINE);
    for (texts, first, second) in [
        (&[][..], None, None),
        (&["customer=ALFKI"][..], Some("customer=ALFKI"), None),
        (
            &["customer=A=b", "invoice=7"][..],
            Some("customer=A=b"),
            Some("invoice=7"),
        ),
    ] {
        s.order.search = keys(texts);
        let (attributes, read) = stored(&s.order);
        let text = |text: Option<&str>| text.map(|text| Scalar::Text(text.into()));
        assert_eq!(attribute(&attributes, attr::SEARCH_1), text(first));
        assert_eq!(attribute(&attributes, attr::SEARCH_2), text(second));
        assert_eq!(read, s.order);
    }
}

#[test]
fn an_order_has_its_keys_to_its_end() {
    let mut s = Story::of(LINE);
    s.order.search = keys(&["customer=ALFKI", "invoice=7"]);
    let wanted = s.order.search.clone();
    s = s.claimed();
    for step in ["a", "b", "c"] {
        s.succeed(step);
        assert_eq!(stored(&s.order).1.search, wanted, "after {step}");
    }
    assert_eq!(s.order.state.name(), "Processed");
}

#[test]
fn a_stored_key_that_is_none_is_named() {
    let order = Story::of(LINE).order;
    let attributes = stored::encode(&order, 7, Millis(0));
    let damaged = stored::decode(|name| match name {
        attr::SEARCH_2 => Ok(Some(Scalar::Text("ALFKI".into()))),
        name => Ok(attribute(&attributes, name)),
    });
    let why = damaged.expect_err("it is no key").to_string();
    assert!(
        why.contains("Search2") && why.contains("search key"),
        "{why}"
    );
}
