//! One version of a workflow, by its name and its hash.

use triad_core::WorkflowRef;
use triad_operator::versions;
use triad_runtime::DefinitionStore;
use triad_runtime::ports::OperatorStore;
use triad_workflow::Workflow;

use crate::desk::Desk;
use crate::installation::Installation;
use crate::problem::Problem;

/// The version whose hash begins so; `present` is the present one.
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
    let json = desk.of.store().definition(named.clone()).await?;
    let text = format!("the definition {named} is not stored any more");
    let json = json.ok_or_else(|| Problem::missing("no-such-version", text))?;
    let unread = |_| Problem::internal(format!("the definition {named} cannot be read"));
    Workflow::from_published(&json).map_err(unread)
}
