//! Compiled workflows, by identity and by name.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use triad_core::{Timestamp, WorkflowRef};
use triad_workflow::{DefinitionHash, Millis, Workflow, WorkflowName};

use crate::ports::{DefinitionStore, StoreError};

/// Most compiled definitions, and most names of workflows, that a [`Definitions`] remembers, inclusive. When
/// one more comes, all earlier ones are forgotten, and read again when they are needed.
pub const MAX_KEPT: usize = 256;

/// Compiled workflows, read from a definition store of the type `D` and remembered.
///
/// A version never changes, so a compiled one is remembered without a time limit, up to
/// [`MAX_KEPT`]. Which version of a name is the present one may change, so that is read again after
/// a time.
#[derive(Debug)]
pub struct Definitions<D> {
    store: D,
    refresh: Millis,
    compiled: Mutex<HashMap<WorkflowRef, Arc<Workflow>>>,
    current: Mutex<HashMap<WorkflowName, (Timestamp, Option<DefinitionHash>)>>,
}

impl<D: DefinitionStore> Definitions<D> {
    /// The workflows in `store`; nothing is read yet. Which version is the present one of its name
    /// is remembered for `refresh` milliseconds.
    pub fn new(store: D, refresh: Millis) -> Self {
        Self {
            store,
            refresh,
            compiled: Mutex::default(),
            current: Mutex::default(),
        }
    }

    /// The compiled definition of this name and hash, to which an order is pinned.
    ///
    /// # Errors
    /// [`StoreError::Transient`] or [`StoreError::Configuration`] if the store cannot be read.
    /// [`StoreError::Item`] if the definition is not stored, cannot be read, or its content does not have the
    /// hash that it is stored under.
    pub async fn pinned(&self, wanted: &WorkflowRef) -> Result<Arc<Workflow>, StoreError> {
        let kept = lock(&self.compiled).get(wanted).cloned();
        if let Some(workflow) = kept {
            return Ok(workflow);
        }
        let json = self
            .store
            .definition(wanted.clone())
            .await?
            .ok_or_else(|| StoreError::Item(format!("definition {wanted} is not stored")))?;
        let workflow = Workflow::from_published(&json).map_err(|problems| {
            let first = problems.first().map(ToString::to_string);
            StoreError::Item(format!(
                "definition {wanted} is damaged: {}",
                first.unwrap_or_default()
            ))
        })?;
        if workflow.hash != wanted.hash {
            return Err(StoreError::Item(format!(
                "definition {wanted} is damaged: its content has the hash {}",
                workflow.hash
            )));
        }
        let workflow = Arc::new(workflow);
        let mut compiled = lock(&self.compiled);
        if compiled.len() >= MAX_KEPT {
            compiled.clear();
        }
        compiled.insert(wanted.clone(), workflow.clone());
        Ok(workflow)
    }

    /// The present version of a workflow at `now`, compiled; `None` if no workflow of this name is published.
    /// It may be out of date by the `refresh` given to [`new`](Self::new). That a name is missing is never
    /// remembered.
    ///
    /// # Errors
    /// [`StoreError::Transient`] or [`StoreError::Configuration`] if the store cannot be read.
    /// [`StoreError::Item`] if the present version is not stored, cannot be read, or its content does not
    /// have the hash that it is stored under.
    pub async fn current(
        &self,
        name: &WorkflowName,
        now: Timestamp,
    ) -> Result<Option<Arc<Workflow>>, StoreError> {
        let known = lock(&self.current).get(name).cloned();
        let hash = match known {
            Some((asked, Some(hash))) if now.since(asked) < self.refresh => Some(hash),
            _ => {
                let hash = self.store.current(name.clone()).await?;
                let mut current = lock(&self.current);
                if current.len() >= MAX_KEPT {
                    current.clear();
                }
                // A name that does not exist is not kept: it may be published any moment.
                if hash.is_some() {
                    current.insert(name.clone(), (now, hash.clone()));
                }
                hash
            }
        };
        let Some(hash) = hash else { return Ok(None) };
        let wanted = WorkflowRef {
            name: name.clone(),
            hash,
        };
        self.pinned(&wanted).await.map(Some)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
