//! Compiled workflows, by version and by name.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use triad_core::{Timestamp, WorkflowRef};
use triad_workflow::hash::canonical_json;
use triad_workflow::{DefinitionHash, Millis, Workflow, WorkflowName};

use crate::ports::{DefinitionStore, StoreError};

/// Most compiled definitions, most unreadable ones, and most names of workflows, that a [`Definitions`] caches,
/// inclusive. One more clears the cache, and definitions are read again when they are needed.
pub const MAX_KEPT: usize = 256;

/// Compiled workflows, read from a definition store of the type `D` and cached.
///
/// A version never changes, so a compiled one is cached without a time limit, up to [`MAX_KEPT`]. The current version
/// of a name may change, so it is read again after a time, and so is a version that this process cannot read.
#[derive(Debug)]
pub struct Definitions<D> {
    store: D,
    refresh: Millis,
    compiled: Mutex<HashMap<WorkflowRef, Arc<Workflow>>>,
    /// Definitions that this process cannot read: since when, and why.
    unreadable: Mutex<HashMap<WorkflowRef, (Timestamp, String)>>,
    current: Mutex<HashMap<WorkflowName, (Timestamp, DefinitionHash)>>,
}

impl<D: DefinitionStore> Definitions<D> {
    /// The workflows in `store`; nothing is read yet. The current version of a name is cached for `refresh`
    /// milliseconds.
    pub fn new(store: D, refresh: Millis) -> Self {
        Self {
            store,
            refresh,
            compiled: Mutex::default(),
            unreadable: Mutex::default(),
            current: Mutex::default(),
        }
    }

    /// The compiled definition of this name and hash, to which an order is pinned.
    ///
    /// # Errors
    /// [`StoreError::Transient`] or [`StoreError::Configuration`] if the store cannot be read. [`StoreError::Item`]
    /// if the definition is not stored, its content does not have the hash that it is stored under, or this process
    /// cannot read it: a newer version of Triad may have published it, and another process may be able to read it.
    /// This error is cached for `refresh` too.
    pub async fn pinned(
        &self,
        wanted: &WorkflowRef,
        now: Timestamp,
    ) -> Result<Arc<Workflow>, StoreError> {
        let kept = lock(&self.compiled).get(wanted).cloned();
        if let Some(workflow) = kept {
            return Ok(workflow);
        }
        let unreadable = lock(&self.unreadable).get(wanted).cloned();
        match unreadable {
            Some((at, why)) if at.is_near(now, self.refresh) => {
                return Err(StoreError::Item(why));
            }
            _ => {}
        }
        let json = self.store.definition(wanted.clone()).await?;
        let workflow = match read(wanted, json) {
            Ok(workflow) => Arc::new(workflow),
            Err(why) => {
                keep(&self.unreadable, wanted, (now, why.clone()));
                return Err(StoreError::Item(why));
            }
        };
        keep(&self.compiled, wanted, workflow.clone());
        Ok(workflow)
    }

    /// The current version of a workflow at `now`; `None` if no workflow of this name is published. It may be out of
    /// date by the `refresh` given to [`new`](Self::new). A missing name is never cached.
    ///
    /// # Errors
    /// Errors of the store; [`StoreError::Item`] if the entry for this name cannot be read.
    pub async fn current(
        &self,
        name: &WorkflowName,
        now: Timestamp,
    ) -> Result<Option<WorkflowRef>, StoreError> {
        let known = lock(&self.current).get(name).cloned();
        let hash = match known {
            Some((asked, hash)) if asked.is_near(now, self.refresh) => Some(hash),
            _ => {
                let hash = self.store.current(name.clone()).await?;
                // A missing name is not cached: it may be published at any moment.
                if let Some(hash) = &hash {
                    keep(&self.current, name, (now, hash.clone()));
                }
                hash
            }
        };
        let name = name.clone();
        Ok(hash.map(|hash| WorkflowRef { name, hash }))
    }
}

/// Publishes a workflow, and before it the workflows that its steps make for elements of lists: makes each the current
/// version of its name. Returns the version.
///
/// # Errors
/// Those of [`DefinitionStore::publish`].
pub async fn publish(
    store: &impl DefinitionStore,
    workflow: &Workflow,
) -> Result<WorkflowRef, StoreError> {
    let identity = |published: &Workflow| WorkflowRef {
        name: published.name.clone(),
        hash: published.hash.clone(),
    };
    for published in workflow.with_parts() {
        let json = canonical_json(&published.definition);
        store.publish(identity(published), json).await?;
    }
    Ok(identity(workflow))
}

/// Compiles a stored definition; otherwise returns the reason, for people.
fn read(wanted: &WorkflowRef, json: Option<String>) -> Result<Workflow, String> {
    let json = json.ok_or_else(|| format!("definition {wanted} is not stored"))?;
    let cannot = |why: &dyn std::fmt::Display| {
        format!("definition {wanted} cannot be read by this version of Triad: {why}")
    };
    let workflow = Workflow::from_published(&json).map_err(|problems| {
        let first = problems.first().map(ToString::to_string);
        cannot(&first.unwrap_or_default())
    })?;
    if workflow.hash != wanted.hash {
        return Err(format!(
            "definition {wanted} is damaged: its content has the hash {}",
            workflow.hash
        ));
    }
    if let Some(schema) = &workflow.details {
        schema.check().map_err(|why| cannot(&why))?;
    }
    Ok(workflow)
}

/// Adds an entry to a cache, and clears the cache first if it is full.
fn keep<K: Clone + Eq + std::hash::Hash, V>(kept: &Mutex<HashMap<K, V>>, key: &K, value: V) {
    let mut kept = lock(kept);
    if kept.len() >= MAX_KEPT {
        kept.clear();
    }
    kept.insert(key.clone(), value);
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
