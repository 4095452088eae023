//! Stored versions of workflows, and their removal once no order needs them.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use triad_core::{Timestamp, WorkflowRef};
use triad_runtime::ports::{OperatorStore, StoredVersion, Tally};
use triad_runtime::{StateStore, StoreError};
use triad_workflow::{DefinitionHash, Millis, WorkflowName};

use crate::find::is_under_way;

/// How many milliseconds must have passed since a version was replaced before it may be removed: 1 hour. Until then a
/// Submission with a cached definition may still pin new orders to it.
pub const SAFE_TO_REMOVE_AFTER: Millis = Millis(3_600_000);

/// A stored version of a workflow, and how many orders need it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Version {
    /// The name of the workflow.
    #[schemars(with = "String")]
    pub workflow: WorkflowName,
    /// The hash of the version's content.
    #[schemars(with = "String")]
    pub version: DefinitionHash,
    /// When this version was published; if that was done several times, the last time.
    #[schemars(with = "crate::schema::Moment")]
    pub published_at: Timestamp,
    /// Whether this is the present version of its name: new orders run it.
    pub present: bool,
    /// How many orders that are not finished are pinned to it; `None` if they were not counted.
    pub under_way: Option<u64>,
    /// How many finished orders, not yet deleted, are pinned to it; `None` if they were not counted.
    pub finished: Option<u64>,
    /// Whether the version must be kept: it is the present version, orders are pinned to it, the newest
    /// version of its name was published less than [`SAFE_TO_REMOVE_AFTER`] ago, or its orders were not counted.
    pub needed: bool,
}

/// Why a version was not removed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RemoveError {
    /// The store failed, or the version has become the present one since ([`StoreError::Item`]).
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The version is still needed: see [`Version::needed`].
    #[error("version {version} of {workflow} is needed")]
    Needed {
        /// The name of the workflow.
        workflow: WorkflowName,
        /// The hash of the version.
        version: DefinitionHash,
    },
}

/// Why [`find`] does not name exactly one version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FindError {
    /// There is no version of this workflow that fits what was asked for.
    #[error("there is no workflow {workflow}{}", .version.as_ref().map_or_else(String::new, |hash| format!(" with a version {hash}")))]
    None {
        /// The name of the workflow that was asked for.
        workflow: String,
        /// The beginning of the hash that was asked for; `None` if the present version was asked for.
        version: Option<String>,
    },
    /// More than one version has a hash that begins so.
    #[error("several versions of {workflow} begin with {beginning}: write more of it")]
    Several {
        /// The name of the workflow that was asked for.
        workflow: String,
        /// The beginning of the hash that was asked for; empty if the present version was asked for.
        beginning: String,
    },
}

/// Orders that are pinned to one version.
#[derive(Debug, Default, Clone, Copy)]
struct Pinned {
    under_way: u64,
    finished: u64,
}

/// What to do if the store does not count its orders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Uncounted {
    /// The whole table of process records is read, page by page; in memory are one page and the counts.
    Read,
    /// The orders are not counted.
    Leave,
}

/// Lists all stored versions of all workflows, with how many orders need each at `now`. `uncounted` says what is
/// done where the store does not count its orders.
///
/// # Errors
/// [`StoreError`] if the store fails; it is [`StoreError::Item`] if a record that is read for this cannot be, because
/// the order may need any version.
pub async fn versions<S>(
    store: &S,
    now: Timestamp,
    uncounted: Uncounted,
) -> Result<Vec<Version>, StoreError>
where
    S: StateStore + OperatorStore,
{
    let stored = store.versions().await?;
    let pinned = match store.tally(now).await? {
        Some(tally) => Some(of_tally(&tally)),
        None if uncounted == Uncounted::Read => Some(pinned(store).await?),
        None => None,
    };
    let replaced_at = newest(&stored);
    let version = |stored: &StoredVersion| {
        let WorkflowRef { name, hash } = &stored.definition;
        let count = pinned.as_ref().map(|pinned| {
            let count = pinned.get(&stored.definition.to_string());
            count.copied().unwrap_or_default()
        });
        let is_resolved = replaced_at
            .get(name.as_str())
            .is_some_and(|at| now.since(*at) >= SAFE_TO_REMOVE_AFTER);
        let is_pinned = count.is_none_or(|count| count.under_way + count.finished > 0);
        Version {
            workflow: name.clone(),
            version: hash.clone(),
            published_at: stored.published_at,
            present: stored.is_current,
            under_way: count.map(|count| count.under_way),
            finished: count.map(|count| count.finished),
            needed: stored.is_current || is_pinned || !is_resolved,
        }
    };
    Ok(stored.iter().map(version).collect())
}

/// Removes a version from the store. `version` must come from [`versions`], read just before: an order that
/// has been pinned to it since is not noticed.
///
/// # Errors
/// [`RemoveError::Needed`] if [`Version::needed`] is set, and the store is not called;
/// [`RemoveError::Store`] if the store fails, or the version is the present one by now.
pub async fn remove(store: &impl OperatorStore, version: &Version) -> Result<(), RemoveError> {
    let (workflow, hash) = (version.workflow.clone(), version.version.clone());
    if version.needed {
        return Err(RemoveError::Needed {
            workflow,
            version: hash,
        });
    }
    let definition = WorkflowRef {
        name: workflow,
        hash,
    };
    Ok(store.remove(definition).await?)
}

/// When the newest version of each name was published; the others have been replaced since then.
fn newest(versions: &[StoredVersion]) -> BTreeMap<&str, Timestamp> {
    let mut newest = BTreeMap::new();
    for version in versions {
        let at = newest
            .entry(version.definition.name.as_str())
            .or_insert(version.published_at);
        *at = version.published_at.max(*at);
    }
    newest
}

/// The orders of every version, from the store's counts.
fn of_tally(tally: &Tally) -> BTreeMap<String, Pinned> {
    let mut pinned: BTreeMap<String, Pinned> = BTreeMap::new();
    for group in &tally.groups {
        let count = pinned.entry(group.workflow.clone()).or_default();
        match is_under_way(&group.state) {
            true => count.under_way += group.orders,
            false => count.finished += group.orders,
        }
    }
    pinned
}

/// Counts the orders of every version, record by record.
async fn pinned<S: StateStore>(store: &S) -> Result<BTreeMap<String, Pinned>, StoreError> {
    let mut pinned: BTreeMap<String, Pinned> = BTreeMap::new();
    let mut page = None;
    loop {
        let got = store.list(None, page).await?;
        // An unreadable order may need any version, so no version may be removed.
        if let Some(bad) = got.unreadable.first() {
            let text = format!("order {} cannot be read: {}", bad.order_id, bad.why);
            return Err(StoreError::Item(text));
        }
        for order in got.orders {
            let count = pinned.entry(order.workflow.to_string()).or_default();
            match order.state.is_finished() {
                true => count.finished += 1,
                false => count.under_way += 1,
            }
        }
        page = match got.next {
            Some(next) => Some(next),
            None => return Ok(pinned),
        };
    }
}

/// Finds, among `versions`, the one version of a workflow whose hash begins with the text `version`; with
/// `None` the present version.
///
/// # Errors
/// [`FindError::None`] if no version fits, [`FindError::Several`] if more than one does.
pub fn find(
    versions: &[StoredVersion],
    workflow: &str,
    version: Option<&str>,
) -> Result<WorkflowRef, FindError> {
    let fits = |v: &&StoredVersion| {
        v.definition.name.as_str() == workflow
            && version.map_or(v.is_current, |beginning| {
                v.definition.hash.as_str().starts_with(beginning)
            })
    };
    let mut seen = BTreeSet::new();
    let distinct = |v: &&StoredVersion| seen.insert(v.definition.to_string());
    let mut found = versions.iter().filter(fits).filter(distinct);
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(one.definition.clone()),
        (None, _) => Err(FindError::None {
            workflow: workflow.to_owned(),
            version: version.map(str::to_owned),
        }),
        (Some(_), Some(_)) => Err(FindError::Several {
            workflow: workflow.to_owned(),
            beginning: version.unwrap_or_default().to_owned(),
        }),
    }
}
