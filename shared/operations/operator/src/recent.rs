//! Recent alerts and dead letters, at a bounded cost, for a page that is refreshed.

use std::collections::{BTreeMap, HashMap};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use triad_core::Timestamp;
use triad_core::message::Alert;
use triad_runtime::InputRecord;
use triad_runtime::dead_letter::LetterEntry;
use triad_runtime::dead_letter::index::Index;

use crate::address::PageAddress;
use crate::alert::name;
use crate::topic::{Extent, LogTopic, TopicReader, TopicRecords};

/// Most records that are read of each partition: the last ones.
pub const LAST: u32 = 1_000;

/// The newest alerts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Alerts {
    /// The alerts, the newest first, each once.
    #[schemars(with = "Vec<crate::schema::Object>")]
    pub alerts: Vec<Alert>,
    /// Whether older alerts were left out.
    pub more: bool,
    /// How many records in the topic are not alerts.
    pub unreadable: u64,
}

/// Alerts of one kind that are about the same downstream or campaign, or have the same cause.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AlertGroup {
    /// The first of them, which is the newest if the alerts are in that order.
    #[schemars(with = "crate::schema::Object")]
    pub newest: Alert,
    /// How many there are.
    pub alerts: usize,
    /// When the oldest of them happened.
    #[schemars(with = "crate::schema::Moment")]
    pub first: Timestamp,
}

/// Alerts by kind and cause. The groups are in the order of their first alerts, so with the newest alerts first the
/// newest group comes first.
#[must_use]
pub fn grouped(alerts: &[Alert]) -> Vec<AlertGroup> {
    let mut groups: Vec<AlertGroup> = Vec::new();
    let mut places = HashMap::new();
    for alert in alerts {
        let place = *places.entry(about(alert)).or_insert(groups.len());
        match groups.get_mut(place) {
            Some(group) => {
                group.alerts += 1;
                group.first = group.first.min(alert.at);
            }
            None => groups.push(AlertGroup {
                newest: alert.clone(),
                alerts: 1,
                first: alert.at,
            }),
        }
    }
    groups
}

/// What makes alerts alike: what they are about, or else the cause without its details.
fn about(alert: &Alert) -> (&'static str, &str) {
    let subject = match PageAddress::of_alert(alert) {
        Some(PageAddress::Downstream(name) | PageAddress::Campaign(name)) => name,
        _ => alert
            .cause
            .split_once(": ")
            .map_or(&*alert.cause, |(cause, _)| cause),
    };
    (name(alert.kind), subject)
}

/// Dead letters that are not dismissed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Letters {
    /// How many letters were counted. Several letters about one record count once.
    pub letters: usize,
    /// Whether there may be more, because only the last [`LAST`] records of each partition are read.
    pub more: bool,
}

/// Reads the alerts that were written at `since` or later, and of these the newest `limit`. Of each partition
/// at most the last [`LAST`] records are read; in memory are at most `limit` alerts and one more.
///
/// # Errors
/// [`TopicReader::Error`] if the topic cannot be read.
pub async fn alerts<T: TopicReader>(
    topics: &T,
    since: Timestamp,
    limit: usize,
) -> Result<Alerts, T::Error> {
    let mut found = Alerts::default();
    let mut newest: BTreeMap<(Timestamp, String), Alert> = BTreeMap::new();
    let mut reading = Reading::begin(topics, LogTopic::Alerts, since).await?;
    while let Some(record) = reading.next().await? {
        let value = record.value.as_deref().unwrap_or_default();
        let Ok(alert) = serde_json::from_slice::<Alert>(value) else {
            found.unreadable += 1;
            continue;
        };
        newest.insert((alert.at, alert.alert_id.clone()), alert);
        if newest.len() > limit {
            newest.pop_first();
            found.more = true;
        }
    }
    found.more |= reading.is_cut();
    found.alerts = newest.into_values().rev().collect();
    Ok(found)
}

/// Counts the dead letters that were written at `since` or later and were not dismissed. Of each partition at
/// most the last [`LAST`] records are read.
///
/// # Errors
/// [`TopicReader::Error`] if the topic cannot be read.
pub async fn letters<T: TopicReader>(topics: &T, since: Timestamp) -> Result<Letters, T::Error> {
    let mut index = Index::default();
    let mut is_full = false;
    let mut reading = Reading::begin(topics, LogTopic::DeadLetters, since).await?;
    while let Some(record) = reading.next().await? {
        if let Ok(entry) = LetterEntry::read(record) {
            is_full |= index.note(&entry).is_err();
        }
    }
    let groups = index.groups_of(|_, dismissed| dismissed.is_none());
    Ok(Letters {
        letters: groups.iter().map(|group| group.letters).sum(),
        more: is_full || reading.is_cut(),
    })
}

/// A bounded reading that records whether the bound cut it off.
struct Reading<R> {
    records: R,
    of_partitions: HashMap<i32, u32>,
}

impl<R: TopicRecords> Reading<R> {
    async fn begin<T>(topics: &T, topic: LogTopic, since: Timestamp) -> Result<Self, T::Error>
    where
        T: TopicReader<Records = R, Error = R::Error>,
    {
        let extent = Extent {
            since: Some(since),
            last: Some(LAST),
        };
        Ok(Self {
            records: topics.open(topic, extent).await?,
            of_partitions: HashMap::new(),
        })
    }

    async fn next(&mut self) -> Result<Option<InputRecord>, R::Error> {
        let next = self.records.next().await?;
        if let Some(record) = &next {
            *self.of_partitions.entry(record.partition).or_default() += 1;
        }
        Ok(next)
    }

    /// Whether older records may have been left out.
    fn is_cut(&self) -> bool {
        self.of_partitions.values().any(|read| *read >= LAST)
    }
}

#[cfg(test)]
mod tests {
    use triad_core::message::AlertKind;

    use super::*;

    #[test]
    fn many_alerts_of_one_cause_are_one_group() {
        let alert = |id: &str, kind, cause: &str, at| Alert {
            alert_id: id.into(),
            kind,
            order_id: None,
            cause: cause.into(),
            at: Timestamp(at),
        };
        let alerts = [
            alert(
                "downstream/payment/9",
                AlertKind::Breaker,
                "downstream payment is down: x",
                9,
            ),
            alert(
                "7",
                AlertKind::OrderError,
                "permanent/pay/declined: card 7",
                8,
            ),
            alert(
                "downstream/carrier/7",
                AlertKind::Breaker,
                "downstream carrier is down: y",
                7,
            ),
            alert(
                "downstream/payment/5",
                AlertKind::Breaker,
                "downstream payment is reachable",
                5,
            ),
            alert(
                "3",
                AlertKind::OrderError,
                "permanent/pay/declined: card 3",
                3,
            ),
        ];
        let groups = grouped(&alerts);
        let told: Vec<_> = groups
            .iter()
            .map(|group| (group.newest.at.0, group.alerts, group.first.0))
            .collect();
        assert_eq!(told, [(9, 2, 5), (8, 2, 3), (7, 1, 7)]);
    }
}
