//! Workflows: their versions, one definition, and the removal of what no order needs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use triad_core::WorkflowRef;
use triad_runtime::ports::OperatorStore;
use triad_workflow::hash::canonical_json;
use triad_workflow::{DefinitionHash, Workflow, WorkflowName};

use super::filter::said;
use super::local::{Execute, Installation, Local};
use super::{Caller, Problem, Reason, only_tried, plain_form};
use crate::changes::changes;
use crate::definition::pinned;
use crate::versions::{self, RemoveError, Uncounted, Version};

/// The word for the present version in place of a hash.
pub const PRESENT: &str = "present";

/// The versions of workflows.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListWorkflows {
    /// Count the orders on each even where the store does not keep the counts: the whole table is read.
    #[serde(default)]
    pub count: bool,
}

/// The versions of workflows.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct WorkflowsFound {
    /// The versions.
    pub versions: Vec<Version>,
}

plain_form!(WorkflowsFound: "workflows" { "versions": "version" });

impl Execute for ListWorkflows {
    type Answer = WorkflowsFound;

    async fn execute<I: Installation>(
        self,
        on: &Local<I>,
        _caller: &Caller,
    ) -> Result<WorkflowsFound, Problem> {
        let uncounted = match self.count {
            true => Uncounted::Read,
            false => Uncounted::Leave,
        };
        let versions = versions::versions(on.store(), on.moment(), uncounted).await?;
        Ok(WorkflowsFound { versions })
    }
}

/// The definition of one version of a workflow.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetWorkflow {
    /// The workflow's name.
    pub name: String,
    /// The version's hash or its beginning, or `present`.
    pub version: String,
    /// Another version of the workflow: the answer says what has changed since that one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<String>,
}

/// One version of a workflow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkflowFound {
    /// The workflow's name.
    #[schemars(with = "String")]
    pub workflow: WorkflowName,
    /// The version's hash.
    #[schemars(with = "String")]
    pub version: DefinitionHash,
    /// The definition.
    pub definition: Map<String, Value>,
    /// What has changed since the version `against`, in lines for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<Vec<String>>,
}

plain_form!(WorkflowFound: "workflow");

impl WorkflowFound {
    /// The workflow, compiled.
    ///
    /// # Errors
    /// [`Problem`] if this program cannot compile it.
    pub fn compiled(&self) -> Result<Workflow, Problem> {
        let json = serde_json::to_string(&self.definition)?;
        let unread =
            |_| Problem::internal("the definition cannot be read by this version of Triad");
        Workflow::from_published(&json).map_err(unread)
    }
}

async fn definition<I: Installation>(
    on: &Local<I>,
    name: &str,
    version: &str,
) -> Result<(WorkflowRef, Workflow), Problem> {
    let named = named(on, name, Some(version)).await?;
    let workflow = pinned(on.store(), &named).await?;
    Ok((named, workflow))
}

/// The version of a workflow with this hash or its beginning; the present one for `None` and [`PRESENT`].
pub(super) async fn named<I: Installation>(
    on: &Local<I>,
    name: &str,
    version: Option<&str>,
) -> Result<WorkflowRef, Problem> {
    let stored = on.store().versions().await?;
    let version = version.filter(|version| *version != PRESENT);
    let found = versions::find(&stored, name, version);
    found.map_err(|e| Problem::missing("no-such-version", e.to_string()))
}

impl Execute for GetWorkflow {
    type Answer = WorkflowFound;

    async fn execute<I: Installation>(
        self,
        on: &Local<I>,
        _caller: &Caller,
    ) -> Result<WorkflowFound, Problem> {
        let (named, workflow) = definition(on, &self.name, &self.version).await?;
        let changes = match said(&self.against) {
            None => None,
            Some(against) => {
                let (_, before) = definition(on, &self.name, against).await?;
                Some(changes(&before, &workflow))
            }
        };
        Ok(WorkflowFound {
            workflow: named.name,
            version: named.hash,
            definition: serde_json::from_str(&canonical_json(&workflow.definition))?,
            changes,
        })
    }
}

/// Remove the versions of workflows that no order needs.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PruneWorkflows {
    /// Who and why.
    #[serde(flatten)]
    pub reason: Reason,
    /// If true, nothing is removed, and the answer says what would be.
    #[serde(default = "only_tried")]
    pub dry_run: bool,
}

/// A version, and whether it was removed, or would be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PrunedVersion {
    /// The version as it was before.
    #[serde(flatten)]
    pub version: Version,
    /// Whether it was removed; in a dry run: whether it would be.
    pub removed: bool,
}

/// The versions of workflows, and which of them were removed.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct WorkflowsPruned {
    /// All versions.
    pub versions: Vec<PrunedVersion>,
    /// Whether this was a dry run, in which nothing is removed.
    pub dry_run: bool,
}

plain_form!(WorkflowsPruned: "pruned");

impl Execute for PruneWorkflows {
    type Answer = WorkflowsPruned;

    async fn execute<I: Installation>(
        self,
        on: &Local<I>,
        caller: &Caller,
    ) -> Result<WorkflowsPruned, Problem> {
        on.may_act(caller)?;
        let by = self.reason.of(caller)?;
        let all = versions::versions(on.store(), on.moment(), Uncounted::Read).await?;
        let mut pruned = Vec::new();
        for version in all {
            let removed = !version.needed;
            if removed && !self.dry_run {
                let name = format!("{}@{}", version.workflow, version.version);
                let gone = versions::remove(on.store(), &version).await;
                gone.map_err(|e| match e {
                    RemoveError::Store(e) => Problem {
                        detail: format!("{name} was not removed: {e}").into(),
                        ..e.into()
                    },
                    RemoveError::Needed { .. } => Problem::new(409, "needed", e.to_string()),
                })?;
                tracing::info!(version = name, by = %by.by, why = %by.why, "an operator removed a version");
            }
            pruned.push(PrunedVersion { version, removed });
        }
        Ok(WorkflowsPruned {
            versions: pruned,
            dry_run: self.dry_run,
        })
    }
}
