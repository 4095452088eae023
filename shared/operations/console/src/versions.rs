//! One version of a workflow, by its name and its hash.

use triad_core::WorkflowRef;
use triad_operator::definition::DefinitionError;
use triad_operator::versions;
use triad_runtime::ports::OperatorStore;
use triad_workflow::Workflow;

use crate::installation::Installation;
use crate::problem::Problem;
use crate::shared_state::Desk;

/// The version whose hash has this prefix; `present` is the present one.
pub(crate) async fn definition<I: Installation>(
    desk: &Desk<I>,
    name: &str,
    version: &str,
) -> Result<(WorkflowRef, Workflow), Problem> {
    let store = desk.of.store();
    let stored = store.versions().await?;
    let version = Some(version).filter(|version| *version != "present");
    let found = versions::find(&stored, name, version);
    let named = found.map_err(|e| Problem::missing("no-such-version", e.to_string()))?;
    Ok((named.clone(), pinned(desk, &named).await?))
}

/// The definition of a version that an order is pinned to.
pub(crate) async fn pinned<I: Installation>(
    desk: &Desk<I>,
    named: &WorkflowRef,
) -> Result<Workflow, Problem> {
    let found = triad_operator::definition::pinned(desk.of.store(), named).await;
    found.map_err(|why| match why {
        DefinitionError::Missing(_) => Problem::missing("no-such-version", why.to_string()),
        DefinitionError::Unreadable(_) => Problem::internal(why.to_string()),
        DefinitionError::Store(why) => why.into(),
    })
}
