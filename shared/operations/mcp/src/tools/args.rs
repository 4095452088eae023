//! The arguments of the tools. A model reads these comments.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// No arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nothing {}

/// Filter of orders.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Filter {
    /// Pending, Processing, Processed, Error, Compensating, Compensated, CompensationFailed, Paused, or
    /// UnderWay: all that are not finished.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) state: Option<String>,
    /// A cause as `list_causes` has it; `*` stands for anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cause: Option<String>,
    /// The name of a workflow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) workflow: Option<String>,
    /// Submitted longer ago than this, such as 2h.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) older_than: Option<String>,
    /// Text in the order's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<String>,
    /// A search key that the order has, exactly, such as customer=ALFKI. Not for causes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) search: Option<String>,
}

/// A page of orders.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FindOrders {
    /// Pending, Processing, Processed, Error, Compensating, Compensated, CompensationFailed, Paused, or
    /// UnderWay: all that are not finished.
    #[serde(default)]
    pub(crate) state: Option<String>,
    /// A cause as `list_causes` has it; `*` stands for anything.
    #[serde(default)]
    pub(crate) cause: Option<String>,
    /// The name of a workflow.
    #[serde(default)]
    pub(crate) workflow: Option<String>,
    /// Submitted longer ago than this, such as 2h.
    #[serde(default)]
    pub(crate) older_than: Option<String>,
    /// Text in the order's id.
    #[serde(default)]
    pub(crate) id: Option<String>,
    /// A search key that the order has, exactly, such as customer=ALFKI.
    #[serde(default)]
    pub(crate) search: Option<String>,
    /// Most orders of the page, 1 to 40; 20 where it is left out.
    #[serde(default)]
    #[schemars(range(min = 1, max = 40))]
    pub(crate) limit: Option<usize>,
    /// `next` of the page before.
    #[serde(default)]
    pub(crate) cursor: Option<String>,
}

/// One order.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetOrder {
    /// The order's id.
    pub(crate) order_id: String,
    /// Also the order's details, and what its steps ask and were answered.
    #[serde(default)]
    pub(crate) inputs: bool,
}

/// One campaign.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetCampaign {
    /// The campaign's id.
    pub(crate) campaign: String,
    /// One of the campaign's batches, from 1 on: its orders, and the result of each.
    #[serde(default)]
    pub(crate) batch: Option<u32>,
}

/// Which dead letters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListDeadLetters {
    /// Their cause, such as not-json.
    #[serde(default)]
    pub(crate) cause: Option<String>,
    /// The topic that they came from.
    #[serde(default)]
    pub(crate) topic: Option<String>,
    /// Not older than this, such as 2h. Without it all of the topic is read.
    #[serde(default)]
    pub(crate) since: Option<String>,
    /// Leaves out what was replayed.
    #[serde(default)]
    pub(crate) not_replayed: bool,
    /// Most letters, 1 to 40; 20 where it is left out. The newest are shown.
    #[serde(default)]
    #[schemars(range(min = 1, max = 40))]
    pub(crate) limit: Option<usize>,
}

/// Which alerts.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListAlerts {
    /// Not older than this, such as 2h; a day where it is left out.
    #[serde(default)]
    pub(crate) since: Option<String>,
    /// Most alerts, 1 to 40; 20 where it is left out. The newest are shown.
    #[serde(default)]
    #[schemars(range(min = 1, max = 40))]
    pub(crate) limit: Option<usize>,
}

/// One dead letter.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetDeadLetter {
    /// The letter's id: TOPIC/PARTITION/OFFSET.
    pub(crate) id: String,
    /// `at` of the list, by which the letter is found without reading all of the topic.
    #[serde(default)]
    pub(crate) written: Option<String>,
}

/// One version of a workflow.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetWorkflow {
    /// The workflow's name.
    pub(crate) workflow: String,
    /// The beginning of the version's hash; the present version where it is left out.
    #[serde(default)]
    pub(crate) version: Option<String>,
    /// Another version: says what has changed since that one.
    #[serde(default)]
    pub(crate) against: Option<String>,
}

/// What of the documentation. Without anything: which pages there are.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReadDocs {
    /// The name of a page.
    #[serde(default)]
    pub(crate) page: Option<String>,
    /// Where in the page to begin, in bytes: `next` of the part before.
    #[serde(default)]
    pub(crate) from: usize,
    /// In place of a page: the sections with this text.
    #[serde(default)]
    pub(crate) find: Option<String>,
}

/// What an act is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ActTarget {
    /// Orders, at once: those that are named, or some that fit a filter.
    Orders,
    /// All orders that fit a filter, by a campaign: the Supervisor acts on them in growing batches, and stops where it
    /// does not help. Or a campaign that there is.
    Campaigns,
    /// A downstream or a step type.
    Downstreams,
    /// Dead letters.
    DeadLetters,
}

/// An act, as it would be done: a request of the API, which refuses what does not belong to the act.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DryRun {
    /// What the act is on.
    #[serde(skip_serializing)]
    pub(crate) on: ActTarget,
    /// Orders: resubmit, cancel, retry-compensation, close, pause, resume, resolve, migrate. Campaigns: the same without resolve
    /// to start one; stop or resume for one that there is. Downstreams: pause, resume, force-open, force-closed,
    /// release. Dead letters: replay, dismiss.
    pub(super) act: String,
    /// Why: it is kept in the record, for people.
    pub(super) why: String,
    /// Who acts. Left out where the caller has a name: by a token, a proxy or the server's options.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) by: Option<String>,
    /// Orders, by their ids; 1,000 at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    orders: Option<Vec<String>>,
    /// Dead letters, by their ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    letters: Option<Vec<String>>,
    /// In place of ids: orders by state, cause, workflow, older_than, id, search; dead letters by cause, topic, since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<std::collections::BTreeMap<String, String>>")]
    filter: Option<Value>,
    /// Most orders that a filter takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    limit: Option<usize>,
    /// Orders or letters a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rate: Option<u32>,
    /// Campaigns: of 100 orders more than so many that fail again stop it; 20 where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stop_share: Option<u8>,
    /// Campaigns: how long orders of a batch may come to no end, such as 10m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    patience: Option<String>,
    /// To stop or to resume a campaign: its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) campaign: Option<String>,
    /// To resolve, or to resubmit with another input: the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    step: Option<String>,
    /// To resubmit: the step's whole new input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    input: Option<Value>,
    /// To resubmit: values in the step's input, each such as amount=12.5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    set: Option<Vec<String>>,
    /// To resolve: whether the effect happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    applied: Option<bool>,
    /// To resolve as applied: what the service answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    output: Option<Value>,
    /// To resolve: the attempt that the service was asked about; refused if there has been another one since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    attempt: Option<u32>,
    /// To migrate: the workflow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    to_workflow: Option<String>,
    /// To migrate: the beginning of a version's hash; the present one where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    to_version: Option<String>,
    /// The downstream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    downstream: Option<String>,
    /// In place of a downstream: WORKFLOW/STEP, to pause and resume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    step_type: Option<String>,
    /// To replay one letter: the value to send in place of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    /// Also letters that were replayed before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    again: Option<bool>,
}

/// An act that was tried.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ActArguments {
    /// The id that `dry_run` answered with, five minutes ago at most.
    pub(crate) dry_run: String,
}
