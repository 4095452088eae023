//! The load, generated from a seed before the run, so that it can be repeated.
//!
//! Most records are orders. Among them are repeated orders, orders with another order's id and different content, and
//! records that cannot be handled.

use anyhow::{Context, Result, bail};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use triad_core::{Priority, topics};
use triad_workflow::AgentName;

use super::installation::REPLY_TOPIC;
use super::options::Options;
use triad_tests::bad;
use triad_tests::orders;
use triad_tests::topics::Raw;

/// Percentage of orders in the high lane.
const HIGH: u32 = 10;
/// Percentage of orders with a reply topic of the application.
const REPLIED: u32 = 10;
/// Percentage of orders that are sent twice.
const REPEATED: u32 = 3;
/// Percentage of orders whose id is sent again with different content.
const CONFLICTING: u32 = 2;
/// A repetition comes at most this many records later.
const LATER: usize = 60;
/// One in this many records is bad, in each topic that gets bad records.
const ONE_BAD_IN: usize = 60;

/// Kind of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Sort {
    /// An order, for the first time.
    Order,
    /// The same order again, byte for byte.
    Repeated,
    /// The same id with different content.
    Conflicting,
    /// A record that cannot be handled.
    Poison,
}

/// One record to be sent.
#[derive(Debug, Clone)]
pub struct Submission {
    /// Kind of the record.
    pub sort: Sort,
    /// The order's id; `None` for a record that cannot be handled.
    pub order: Option<String>,
    /// The record.
    pub raw: Raw,
}

/// The whole load, in order.
///
/// # Errors
/// If a template cannot be read.
pub fn make(options: &Options) -> Result<Vec<Submission>> {
    let templates = match &options.template {
        Some(file) => {
            let text = std::fs::read_to_string(file)
                .with_context(|| format!("{} cannot be read", file.display()))?;
            templates(&text).with_context(|| file.display().to_string())?
        }
        None => Vec::new(),
    };
    Ok(mix(options.seed, options.orders as usize, &templates))
}

/// The details of the orders of a JSON-lines file.
fn templates(text: &str) -> Result<Vec<Value>> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let order: Value =
            serde_json::from_str(line).with_context(|| format!("line {}", number + 1))?;
        found.push(order["details"].clone());
    }
    if found.is_empty() {
        bail!("it has no orders");
    }
    Ok(found)
}

fn mix(seed: u64, count: usize, templates: &[Value]) -> Vec<Submission> {
    let mut rng = StdRng::seed_from_u64(seed ^ 0x10ad);
    // Positions in sending order; a repetition gets a position behind its original.
    let mut all: Vec<(usize, Submission)> = Vec::with_capacity(count * 11 / 10);
    for number in 0..count {
        let mut percent = |percent| rng.random_range(0..100) < percent;
        let lane = match percent(HIGH) {
            true => Priority::High,
            false => Priority::Normal,
        };
        let (replied, repeated, conflicting) =
            (percent(REPLIED), percent(REPEATED), percent(CONFLICTING));
        let id = format!("chaos-{number}");
        let value = order(&id, number, templates, replied);
        let one = |sort, value: &Value| Submission {
            sort,
            order: Some(id.clone()),
            raw: Raw {
                topic: topics::orders(lane).to_owned(),
                key: Some(id.clone().into_bytes()),
                value: Some(value.to_string().into_bytes()),
                headers: Vec::new(),
            },
        };
        all.push((number, one(Sort::Order, &value)));
        if repeated {
            let later = number + rng.random_range(0..LATER);
            all.push((later, one(Sort::Repeated, &value)));
        }
        if conflicting {
            let mut other = value.clone();
            other["details"]["customerID"] = json!("SOMEBODY ELSE");
            let later = number + rng.random_range(0..LATER);
            all.push((later, one(Sort::Conflicting, &other)));
        }
    }
    for raw in poison(count / ONE_BAD_IN + 1) {
        let poison = Submission {
            sort: Sort::Poison,
            order: None,
            raw,
        };
        all.push((rng.random_range(0..count), poison));
    }
    // Stable, so that a repetition stays behind its order.
    all.sort_by_key(|(place, _)| *place);
    all.into_iter().map(|(_, submission)| submission).collect()
}

fn order(id: &str, number: usize, templates: &[Value], replied: bool) -> Value {
    let mut order = orders::order(id, number);
    order["workflow"] = json!("chaos");
    if let Some(details) = templates.get(number % templates.len().max(1)) {
        order["details"] = details.clone();
    }
    if replied {
        order["reply_topic"] = json!(REPLY_TOPIC);
    }
    order
}

fn poison(each: usize) -> Vec<Raw> {
    let payment = AgentName::new("payment").expect("a name");
    let agent = topics::agent(&payment, Priority::Normal);
    [topics::ORDERS, topics::SCHEDULER, &agent]
        .iter()
        .flat_map(|topic| bad::unfit(topic, each))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn the_same_seed_gives_the_same_load() {
        let values = |seed| -> Vec<_> {
            let all = mix(seed, 200, &[]).into_iter();
            all.map(|s| (s.raw.topic, s.raw.value)).collect()
        };
        assert_eq!(values(3), values(3));
        assert_ne!(values(3), values(4));
    }

    #[test]
    fn every_sort_is_there_and_repetitions_come_after_their_order_in_its_topic() {
        let all = mix(1, 300, &[]);
        let sorts: BTreeSet<Sort> = all.iter().map(|s| s.sort).collect();
        assert_eq!(sorts.len(), 4);
        let mut first: BTreeMap<String, &Submission> = BTreeMap::new();
        for submission in &all {
            let Some(id) = submission.order.clone() else {
                continue;
            };
            if submission.sort == Sort::Order {
                assert!(first.insert(id, submission).is_none());
            } else {
                let order = first[&id];
                assert_eq!(order.raw.topic, submission.raw.topic);
                let same = order.raw.value == submission.raw.value;
                assert_eq!(same, submission.sort == Sort::Repeated);
            }
        }
        assert_eq!(first.len(), 300);
    }

    #[test]
    fn no_poison_is_a_record_whose_damage_did_no_harm() {
        let unfit: BTreeMap<&str, usize> = bad::TOPICS
            .iter()
            .map(|topic| (*topic, bad::unfit(topic, 200).len()))
            .collect();
        let survived = |topic| bad::records(topic, 200).len() - unfit[topic];
        assert!(bad::TOPICS.into_iter().all(|topic| survived(topic) > 0));
        let all = mix(1, 199 * ONE_BAD_IN, &[]);
        let mut poison: BTreeMap<&str, usize> = BTreeMap::new();
        for submission in all.iter().filter(|s| s.sort == Sort::Poison) {
            *poison.entry(&submission.raw.topic).or_default() += 1;
        }
        assert_eq!(poison, unfit);
    }

    #[test]
    fn a_template_gives_the_details() {
        let text = r#"{"order_id": "x", "workflow": "w", "details": {"customerID": "ANNA"}}"#;
        let all = mix(1, 5, &templates(text).unwrap());
        let order = all.iter().find(|s| s.sort == Sort::Order).unwrap();
        let value: Value = serde_json::from_slice(order.raw.value.as_ref().unwrap()).unwrap();
        assert_eq!(value["details"]["customerID"], "ANNA");
        assert_eq!(value["workflow"], "chaos");
        assert!(templates("\n").is_err());
        assert!(templates("{").is_err());
    }
}
