//! The tools: name, description, and requests to the API.

mod act;
mod args;
mod docs;
mod read_tools;

use rmcp::handler::server::common::schema_for_type;
use rmcp::model::{Tool, ToolAnnotations};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;
use triad_runtime::{Clock, Entropy};

use crate::api_request::{ApiAnswer, problem};
use crate::request_context::Visit;

/// A parsed call.
#[derive(Debug)]
pub(crate) enum Call {
    Overview,
    ListCauses(args::Filter),
    FindOrders(args::FindOrders),
    GetOrder(args::GetOrder),
    ListDownstreams,
    ListAlerts(args::ListAlerts),
    ListDeadLetters(args::ListDeadLetters),
    GetDeadLetter(args::GetDeadLetter),
    ListCampaigns,
    GetCampaign(args::GetCampaign),
    ListWorkflows,
    GetWorkflow(args::GetWorkflow),
    ReadDocs(args::ReadDocs),
    DryRun(Box<args::DryRun>),
    Act(args::ActArguments),
}

/// Why a call cannot be parsed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Unread {
    /// There is no such tool.
    Name(String),
    /// The arguments do not fit the tool: a problem in the API's form.
    Arguments(Value),
}

/// The tools; those that act only if `acts`.
pub(crate) fn all(acts: bool) -> Vec<Tool> {
    let mut tools = vec![
        looks::<args::Nothing>(
            "overview",
            "How the installation is: orders by state, those that need an operator by cause (the ten with the most orders), downstreams that are not called, and what waits for what. Begin here.",
        ),
        looks::<args::Filter>(
            "list_causes",
            "Orders that need an operator, counted by state and cause, with an example of each. A cause is KIND/STEP/CODE.",
        ),
        looks::<args::FindOrders>(
            "find_orders",
            "Orders by state, cause, workflow, age and text of the id, in short, page by page. `sampled` says that no index answers the question and a part was looked at.",
        ),
        looks::<args::GetOrder>(
            "get_order",
            "One order with everything that is known of it: its failure, its steps, its timeline, and `next`: what will happen and which acts it takes.",
        ),
        looks::<args::Nothing>(
            "list_downstreams",
            "Every downstream: its circuit breaker, who has paused it and why, its last change; and how many orders wait for it.",
        ),
        looks::<args::ListDeadLetters>(
            "list_dead_letters",
            "Records that could not be taken, counted by cause, and the newest of them. Reads the topic: name `since` where it is long.",
        ),
        looks::<args::ListAlerts>(
            "list_alerts",
            "What operators were alerted of in the last day, or since a moment: orders, breakers, dead letters, campaigns; the newest.",
        ),
        looks::<args::GetDeadLetter>(
            "get_dead_letter",
            "One dead letter with its value, its headers, and what was done about it.",
        ),
        looks::<args::Nothing>(
            "list_campaigns",
            "The newest campaigns: acts on many orders that the Supervisor carries out, who started each and why, how far it is, and why it stopped.",
        ),
        looks::<args::GetCampaign>(
            "get_campaign",
            "One campaign, or one of its batches with what came of each order.",
        ),
        looks::<args::Nothing>(
            "list_workflows",
            "Versions of workflows, and how many orders are on each.",
        ),
        looks::<args::GetWorkflow>(
            "get_workflow",
            "The definition of one version: its steps, agents, time limits and policies; with `against` what has changed.",
        ),
        looks::<args::ReadDocs>(
            "read_docs",
            "The documentation of this version: which pages there are, one of them, or the sections with a text. The page `runbook` has a section for each alert.",
        ),
    ];
    if acts {
        tools.push(tool::<args::DryRun>("dry_run", "What an act would do, to which orders, without doing it. The answer has `dry_run`, an id for `act`, if anything would be done.")
            .with_annotations(hints().read_only(true)));
        tools.push(tool::<args::ActArguments>("act", "Carries out exactly the request of your dry run. Its id permits one act within five minutes. The operator and the reason are stored in the record.")
            .with_annotations(hints().read_only(false).destructive(true).idempotent(false)));
    }
    tools
}

fn tool<A: JsonSchema + 'static>(name: &'static str, description: &'static str) -> Tool {
    Tool::new(name, description, schema_for_type::<A>())
}

fn looks<A: JsonSchema + 'static>(name: &'static str, description: &'static str) -> Tool {
    tool::<A>(name, description).with_annotations(hints().read_only(true))
}

fn hints() -> ToolAnnotations {
    ToolAnnotations::new().open_world(false)
}

fn read<A: DeserializeOwned>(arguments: Value) -> Result<A, Unread> {
    let read = serde_json::from_value(arguments);
    read.map_err(|e| Unread::Arguments(problem("bad-arguments", &format!("the arguments: {e}"))))
}

impl Call {
    /// Parses a call.
    pub(crate) fn read(name: &str, arguments: Value, acts: bool) -> Result<Self, Unread> {
        let nothing = |arguments| read::<args::Nothing>(arguments);
        Ok(match name {
            "overview" => nothing(arguments).map(|_| Self::Overview)?,
            "list_causes" => Self::ListCauses(read(arguments)?),
            "find_orders" => Self::FindOrders(read(arguments)?),
            "get_order" => Self::GetOrder(read(arguments)?),
            "list_downstreams" => nothing(arguments).map(|_| Self::ListDownstreams)?,
            "list_alerts" => Self::ListAlerts(read(arguments)?),
            "list_dead_letters" => Self::ListDeadLetters(read(arguments)?),
            "get_dead_letter" => Self::GetDeadLetter(read(arguments)?),
            "list_campaigns" => nothing(arguments).map(|_| Self::ListCampaigns)?,
            "get_campaign" => Self::GetCampaign(read(arguments)?),
            "list_workflows" => nothing(arguments).map(|_| Self::ListWorkflows)?,
            "get_workflow" => Self::GetWorkflow(read(arguments)?),
            "read_docs" => Self::ReadDocs(read(arguments)?),
            "dry_run" | "act" if !acts => {
                let text = "acting over MCP is not allowed here: the operator of the server can allow it (`triad docs mcp`)";
                return Err(Unread::Arguments(problem("acts-not-allowed", text)));
            }
            "dry_run" => Self::DryRun(Box::new(read(arguments)?)),
            "act" => Self::Act(read(arguments)?),
            other => {
                let shown: String = other.chars().take(64).collect();
                return Err(Unread::Name(format!("there is no tool {shown:?}")));
            }
        })
    }

    /// Carries out the call.
    pub(crate) async fn carry_out<C: Clock, E: Entropy>(self, visit: &Visit<C, E>) -> ApiAnswer {
        let asking = &visit.asking;
        match self {
            Self::Overview => read_tools::overview(asking).await,
            Self::ListCauses(filter) => read_tools::causes(asking, filter).await,
            Self::FindOrders(which) => read_tools::orders(asking, which).await,
            Self::GetOrder(which) => read_tools::order(asking, &which).await,
            Self::ListDownstreams => read_tools::downstreams(asking).await,
            Self::ListAlerts(which) => read_tools::alerts(asking, which).await,
            Self::ListDeadLetters(which) => read_tools::letters(asking, which).await,
            Self::GetDeadLetter(which) => read_tools::letter(asking, which).await,
            Self::ListCampaigns => read_tools::campaigns(asking).await,
            Self::GetCampaign(which) => read_tools::campaign(asking, &which).await,
            Self::ListWorkflows => read_tools::workflows(asking).await,
            Self::GetWorkflow(which) => read_tools::workflow(asking, which).await,
            Self::ReadDocs(what) => docs::read(&*visit.mcp.pages, &what),
            Self::DryRun(what) => act::dry_run(visit, &what).await,
            Self::Act(what) => act::act(visit, &what).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tools_that_act_are_there_only_where_that_is_allowed() {
        let names = |acts| {
            let tools = all(acts).into_iter();
            tools.map(|tool| tool.name.into_owned()).collect::<Vec<_>>()
        };
        let (without, with) = (names(false), names(true));
        assert_eq!(with[..without.len()], without);
        assert_eq!(with[without.len()..], ["dry_run", "act"]);
        for name in ["dry_run", "act"] {
            let call = Call::read(name, json!({"dry_run": "x"}), false);
            let Err(Unread::Arguments(problem)) = call else {
                panic!("{call:?}")
            };
            assert_eq!(problem["code"], "acts-not-allowed");
        }
    }

    #[test]
    fn every_tool_says_whether_it_changes_something() {
        for tool in all(true) {
            let hints = tool.annotations.expect("hints");
            assert_eq!(
                hints.read_only_hint,
                Some(tool.name != "act"),
                "{}",
                tool.name
            );
            assert_eq!(tool.input_schema["type"], "object", "{}", tool.name);
        }
    }

    #[test]
    fn every_tool_that_is_listed_can_be_called() {
        for tool in all(true) {
            let read = Call::read(&tool.name, json!({"no such": 1}), true);
            let named = matches!(read, Err(Unread::Arguments(_)));
            // The API refuses fields that do not belong to an act, so the tool names the acts of each field.
            assert!(named, "{}", tool.name);
        }
        assert!(matches!(
            Call::read("destroy", json!({}), true),
            Err(Unread::Name(_))
        ));
    }
}
