//! The tools: each request of operations that reads is one, and acts are two, `dry_run` and `act`.

mod act;
mod docs;
mod read;

use rmcp::handler::server::common::schema_for_type;
use rmcp::model::{Tool, ToolAnnotations};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use triad_operator::operations::{Method, ROUTES, Route};
use triad_runtime::{Clock, Entropy};

use crate::request_context::Visit;
use crate::told::{Told, problem};

/// A parsed call.
#[derive(Debug)]
pub(crate) enum Call {
    Read(&'static Route, Map<String, Value>),
    ReadDocs(docs::ReadDocs),
    DryRun(Map<String, Value>),
    Act(act::ActArguments),
}

/// Why a call cannot be parsed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Unread {
    /// There is no such tool.
    Name(String),
    /// The arguments do not fit the tool: a problem.
    Arguments(Value),
}

/// The requests that read.
fn reads() -> impl Iterator<Item = &'static Route> {
    ROUTES.iter().filter(|route| route.method == Method::Get)
}

/// The name of a request's tool, such as `list_orders`.
fn name_of(route: &Route) -> String {
    let mut name = String::new();
    for letter in route.name.chars() {
        if letter.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

/// The tools; those that act only if `acts`.
pub(crate) fn all(acts: bool) -> Vec<Tool> {
    let mut tools: Vec<Tool> = reads()
        .map(|route| {
            let schema = read::schema(route);
            Tool::new(name_of(route), route.text(), schema)
                .with_annotations(hints().read_only(true))
        })
        .collect();
    let text = "The documentation of this version: which pages there are, one of them, or the sections with a text. The page `runbook` has a section for each alert.";
    tools.push(
        Tool::new("read_docs", text, schema_for_type::<docs::ReadDocs>())
            .with_annotations(hints().read_only(true)),
    );
    if acts {
        let text = "What an act would do, to which orders, without doing it. The answer has `dry_run`, an id for `act`, if anything would be done.";
        tools.push(
            Tool::new("dry_run", text, act::schema()).with_annotations(hints().read_only(true)),
        );
        let text = "Carries out exactly the request of your dry run. Its id permits one act within five minutes. The operator and the reason are stored in the record.";
        tools.push(
            Tool::new("act", text, schema_for_type::<act::ActArguments>())
                .with_annotations(hints().read_only(false).destructive(true).idempotent(false)),
        );
    }
    tools
}

fn hints() -> ToolAnnotations {
    ToolAnnotations::new().open_world(false)
}

fn bad_arguments(why: impl std::fmt::Display) -> Value {
    problem("bad-arguments", &format!("the arguments: {why}"))
}

fn arguments<A: DeserializeOwned>(fields: Map<String, Value>) -> Result<A, Unread> {
    let read = serde_json::from_value(fields.into());
    read.map_err(|e| Unread::Arguments(bad_arguments(e)))
}

impl Call {
    /// Parses a call.
    pub(crate) fn read(name: &str, fields: Map<String, Value>, acts: bool) -> Result<Self, Unread> {
        Ok(match name {
            "read_docs" => Self::ReadDocs(arguments(fields)?),
            "dry_run" | "act" if !acts => {
                let text = "acting over MCP is not allowed here: the operator of the server can allow it (`triad docs mcp`)";
                return Err(Unread::Arguments(problem("acts-not-allowed", text)));
            }
            "dry_run" => Self::DryRun(fields),
            "act" => Self::Act(arguments(fields)?),
            other => match reads().find(|route| name_of(route) == other) {
                Some(route) => Self::Read(
                    route,
                    read::bounded(route, fields).map_err(Unread::Arguments)?,
                ),
                None => {
                    let shown: String = other.chars().take(64).collect();
                    return Err(Unread::Name(format!("there is no tool {shown:?}")));
                }
            },
        })
    }

    /// Carries out the call.
    pub(crate) async fn carry_out<C: Clock, E: Entropy>(self, visit: &Visit<C, E>) -> Told {
        match self {
            Self::Read(route, fields) => {
                let asked = (route.from_fields)(fields).map_err(bad_arguments)?;
                read::answer(visit.execute(asked).await?)
            }
            Self::ReadDocs(what) => docs::read(&*visit.mcp.pages, &what),
            Self::DryRun(fields) => act::dry_run(visit, fields).await,
            Self::Act(what) => act::act(visit, &what).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fields(value: Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap_or_default()
    }

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
            let call = Call::read(name, fields(json!({"dry_run": "x"})), false);
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
            let call = Call::read(&tool.name, fields(json!({})), true);
            assert!(!matches!(call, Err(Unread::Name(_))), "{}", tool.name);
        }
        assert!(matches!(
            Call::read("destroy", Map::new(), true),
            Err(Unread::Name(_))
        ));
    }

    #[test]
    fn a_page_has_as_many_lines_as_a_result_can_hold() {
        let orders = ROUTES
            .iter()
            .find(|route| route.name == "ListOrders")
            .unwrap();
        let limit = |asked: Value| read::bounded(orders, fields(asked)).map(|f| f["limit"].clone());
        assert_eq!(limit(json!({})), Ok(json!(20)));
        assert_eq!(limit(json!({"limit": 40})), Ok(json!(40)));
        assert!(limit(json!({"limit": 41})).is_err());
        let counts = ROUTES
            .iter()
            .find(|route| route.name == "GetCounts")
            .unwrap();
        assert_eq!(read::bounded(counts, Map::new()), Ok(Map::new()));
    }
}
