//! Reads the definitions that orders are pinned to.

use triad_core::WorkflowRef;
use triad_runtime::{DefinitionStore, StoreError};
use triad_workflow::Workflow;

/// Why there is no definition that can be used.
#[derive(Debug, thiserror::Error)]
pub enum DefinitionError {
    /// No definition is stored for this version, or it was removed.
    #[error("the definition {0} is not stored any more")]
    Missing(WorkflowRef),
    /// What is stored for this version is not a definition that this program can compile.
    #[error("the definition {0} cannot be read")]
    Unreadable(WorkflowRef),
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Reads and compiles the version of a workflow that an order is pinned to. It costs one read.
///
/// # Errors
/// [`DefinitionError::Missing`] if the version is not stored, [`DefinitionError::Unreadable`] if it cannot be
/// compiled, [`DefinitionError::Store`] if the store failed.
pub async fn pinned<S: DefinitionStore>(
    store: &S,
    named: &WorkflowRef,
) -> Result<Workflow, DefinitionError> {
    let json = store.definition(named.clone()).await?;
    let json = json.ok_or_else(|| DefinitionError::Missing(named.clone()))?;
    Workflow::from_published(&json).map_err(|_| DefinitionError::Unreadable(named.clone()))
}
