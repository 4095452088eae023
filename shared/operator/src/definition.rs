//! The definitions that orders run on.

use triad_core::WorkflowRef;
use triad_runtime::{DefinitionStore, StoreError};
use triad_workflow::Workflow;

/// Why a definition cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum DefinitionError {
    /// It is not stored, or not any more.
    #[error("the definition {0} is not stored any more")]
    Missing(WorkflowRef),
    /// What is stored is no definition.
    #[error("the definition {0} cannot be read")]
    Unreadable(WorkflowRef),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The definition of a version, as an order is pinned to it. One read.
///
/// # Errors
/// [`DefinitionError`].
pub async fn pinned<S: DefinitionStore>(
    store: &S,
    named: &WorkflowRef,
) -> Result<Workflow, DefinitionError> {
    let json = store.definition(named.clone()).await?;
    let json = json.ok_or_else(|| DefinitionError::Missing(named.clone()))?;
    Workflow::from_published(&json).map_err(|_| DefinitionError::Unreadable(named.clone()))
}
