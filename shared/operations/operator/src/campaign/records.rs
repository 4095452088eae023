//! Campaigns in the control store: keys of the records, and conditional writes.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use triad_core::{CampaignId, Timestamp};
use triad_runtime::control::ControlWrite;
use triad_runtime::ports::Written;
use triad_runtime::{ControlStore, Entropy, StoreError};
use triad_workflow::Millis;

use super::form::{Batch, Campaign, Phase};

/// How long a campaign's records are kept after their last change: 90 days.
pub const KEPT: Millis = Millis(90 * 24 * 3_600_000);
/// Most campaigns that are listed, inclusive. For each one above, the oldest that is over is taken off the
/// list.
pub const MAX_LISTED: usize = 200;
/// Most attempts at a conditional write of the list.
const MAX_RACES: usize = 8;

/// The key of the list of campaigns.
const LIST: &str = "campaigns";

/// A campaign's entry in the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Listed {
    pub(super) id: CampaignId,
    pub(super) started_at: Timestamp,
    /// Whether the Supervisor is done with it: no order is left to act on, and no alert is left to send.
    pub(super) is_over: bool,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct List {
    campaigns: Vec<Listed>,
}

fn listed(campaign: &Campaign, told: Option<Timestamp>) -> Listed {
    let is_over = match campaign.phase {
        Phase::Ended { at, end } => !end.is_trouble() || told == Some(at),
        Phase::Choosing | Phase::Acting | Phase::Watching { .. } => false,
    };
    Listed {
        id: campaign.id.clone(),
        started_at: campaign.started_at,
        is_over,
    }
}

fn key(id: &CampaignId) -> String {
    format!("campaign/{id}")
}

fn batch_key(id: &CampaignId, number: u32) -> String {
    format!("campaign/{id}/{number}")
}

/// A record as read, and the version for its next conditional write.
#[derive(Debug, Clone)]
pub(super) struct Versioned<T> {
    pub(super) value: T,
    pub(super) version: u64,
}

async fn read<S: ControlStore, T: DeserializeOwned>(
    store: &S,
    key: String,
    consistent: bool,
) -> Result<Option<Versioned<T>>, StoreError> {
    let Some(found) = store.read(key.clone(), consistent).await? else {
        return Ok(None);
    };
    let value = serde_json::from_value(found.value)
        .map_err(|e| StoreError::Item(format!("the control record {key}: {e}")))?;
    let version = found.version;
    Ok(Some(Versioned { value, version }))
}

/// Writes a record if its version is unchanged; `None` if another process was faster.
async fn write<S: ControlStore, T: Serialize>(
    store: &S,
    key: String,
    value: &T,
    expected: Option<u64>,
    (now, token): (Timestamp, u64),
) -> Result<Option<u64>, StoreError> {
    let value: Value = serde_json::to_value(value)
        .map_err(|e| StoreError::Item(format!("the control record {key}: {e}")))?;
    let write = ControlWrite {
        key,
        value,
        expected,
        expires: Some(now.plus(KEPT)),
        token,
    };
    Ok(match store.write(write).await? {
        Written::Written | Written::WithMessages => Some(expected.unwrap_or(0) + 1),
        Written::Conflict => None,
    })
}

pub(super) async fn campaign<S: ControlStore>(
    store: &S,
    id: &CampaignId,
) -> Result<Option<Versioned<Campaign>>, StoreError> {
    read(store, key(id), true).await
}

pub(super) async fn put<S: ControlStore, E: Entropy>(
    store: &S,
    entropy: &E,
    campaign: &Campaign,
    expected: Option<u64>,
    now: Timestamp,
) -> Result<Option<u64>, StoreError> {
    let how = (now, entropy.next_u64());
    write(store, key(&campaign.id), campaign, expected, how).await
}

pub(super) async fn batch<S: ControlStore>(
    store: &S,
    id: &CampaignId,
    number: u32,
) -> Result<Option<Versioned<Batch>>, StoreError> {
    read(store, batch_key(id, number), true).await
}

pub(super) async fn put_batch<S: ControlStore, E: Entropy>(
    store: &S,
    entropy: &E,
    (id, number): (&CampaignId, u32),
    batch: &Batch,
    expected: Option<u64>,
    now: Timestamp,
) -> Result<Option<u64>, StoreError> {
    let how = (now, entropy.next_u64());
    write(store, batch_key(id, number), batch, expected, how).await
}

/// The list, newest first. An eventually consistent read may be a moment old.
pub(super) async fn list<S: ControlStore>(
    store: &S,
    consistent: bool,
) -> Result<Vec<Listed>, StoreError> {
    let found: Option<Versioned<List>> = read(store, LIST.to_owned(), consistent).await?;
    Ok(found.map(|list| list.value.campaigns).unwrap_or_default())
}

/// Adds a campaign to the list, or updates its entry. `told` is the stop that operators were alerted of; a campaign
/// that stopped early is over in the list only if this is its last stop.
///
/// The campaign is read after the list, and the list is written even if the entry is unchanged. So a process that
/// read both before a change of the campaign fails to write its outdated entry.
pub(super) async fn note<S: ControlStore, E: Entropy>(
    store: &S,
    entropy: &E,
    id: &CampaignId,
    told: Option<Timestamp>,
    now: Timestamp,
) -> Result<(), StoreError> {
    for _ in 0..MAX_RACES {
        let found: Option<Versioned<List>> = read(store, LIST.to_owned(), true).await?;
        let (mut list, expected) = match found {
            Some(found) => (found.value, Some(found.version)),
            None => (List::default(), None),
        };
        let Some(campaign) = campaign(store, id).await? else {
            return Ok(());
        };
        let listed = listed(&campaign.value, told);
        match list.campaigns.iter_mut().find(|c| c.id == listed.id) {
            Some(known) => *known = listed,
            None => list.campaigns.insert(0, listed),
        }
        while list.campaigns.len() > MAX_LISTED {
            let Some(oldest) = list.campaigns.iter().rposition(|c| c.is_over) else {
                break;
            };
            list.campaigns.remove(oldest);
        }
        let how = (now, entropy.next_u64());
        if write(store, LIST.to_owned(), &list, expected, how)
            .await?
            .is_some()
        {
            return Ok(());
        }
    }
    let text = "the list of campaigns changes too fast";
    Err(StoreError::Transient(text.into()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn in_phase(phase: Value) -> Campaign {
        let campaign = json!({
            "id": "c-0000000000000001", "act": "resubmit", "filter": {"state": "Error"}, "by": "ops", "why": "fixed",
            "rate": 20, "stop_share": 20, "patience": "1m", "started_at": 1, "phase": phase, "batch": 1, "grown": 1,
            "is_whole": false, "is_open": false, "small": {"of": 0, "again": 0},
            "counts": {"chosen": 1, "done": 1, "refused": 0, "failed": 0, "well": 0, "again": 0},
        });
        serde_json::from_value(campaign).expect("a campaign")
    }

    #[test]
    fn one_that_stopped_by_itself_is_over_once_operators_were_told_of_that_time() {
        let stalled = in_phase(json!({"phase": "ended", "at": 9, "end": "stalled", "open": 1}));
        // The campaign had also stopped at 5, and an operator resumed it.
        for (told, is_over) in [(None, false), (Some(5), false), (Some(9), true)] {
            let listed = listed(&stalled, told.map(Timestamp));
            assert_eq!(listed.is_over, is_over, "told of {told:?}");
        }
        for (phase, is_over) in [
            (json!({"phase": "ended", "at": 9, "end": "stopped"}), true),
            (json!({"phase": "ended", "at": 9, "end": "finished"}), true),
            (json!({"phase": "watching", "since": 3}), false),
            (json!({"phase": "choosing"}), false),
        ] {
            assert_eq!(
                listed(&in_phase(phase.clone()), None).is_over,
                is_over,
                "{phase}"
            );
        }
    }
}
