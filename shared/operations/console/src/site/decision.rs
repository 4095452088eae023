//! The forms on an order's page by which a person makes a decision that the order waits for.

use maud::{Markup, html};
use serde_json::{Map, Value};
use triad_core::{Order, StepState, Work};
use triad_operator::address::in_path;
use triad_operator::operations::{GetOrder, GetWorkflow, Problem, SendEvent};
use triad_workflow::{Decision, Millis, StepKind, Workflow, numbers};

use super::layout::csrf_input;
use super::{Visit, text};
use crate::params::Params;

/// Begins the name of a field of the form.
const FIELD: &str = "field.";

/// A form for each decision that the order waits for now.
pub(super) fn forms(visit: &Visit<'_>, order: &Order, workflow: &Workflow) -> Markup {
    let steps = order.steps.iter().zip(&workflow.steps);
    let waiting = steps.filter_map(|(record, step)| {
        let (StepState::Acting(Work::Parked { since, .. }), StepKind::Await(wait)) =
            (&record.state, &step.kind)
        else {
            return None;
        };
        let event = wait.events.first()?;
        Some((step, &event.event, wait, wait.decision.as_ref()?, *since))
    });
    html! {
        @for (step, event, wait, decision, since) in waiting {
            @let names: Vec<&str> = decision.names(visit.now().since(since)).collect();
            section class="note" id={ "decide-" (step.id) } {
                h2 { "Decide: " (step.id) }
                p {
                    "Waited for since " (text::at(since)) ", until " (text::at(since.plus(wait.within))) ". "
                    @if names.is_empty() { "Whoever may act on orders may decide." }
                    @else { "May decide: " (names.join(", ")) "." }
                }
                @if may_decide(visit, decision, visit.now().since(since)) {
                    (form(visit, order, event, decision))
                }
            }
        }
    }
}

/// Whether the person who looks at the page may decide. Somebody without a name gives it in the form.
fn may_decide(visit: &Visit<'_>, decision: &Decision, waited: Millis) -> bool {
    let name = visit.caller.name.as_deref();
    match decision.by.is_empty() || name.is_none() {
        true => visit.may_act(),
        false => !visit.desk.settings.read_only && decision.may_be_by(name, waited),
    }
}

fn form(visit: &Visit<'_>, order: &Order, event: &str, decision: &Decision) -> Markup {
    let asked = Asked::of(decision);
    let path = format!("/console/orders/{}/decide", in_path(order.id.as_str()));
    html! {
        form method="post" action=(path) {
            (csrf_input(visit))
            input type="hidden" name="event" value=(event);
            div class="fields" {
                @for one in &asked { (field(one)) }
                @if visit.caller.name.is_none() {
                    label { "Who" input name="by" required autocomplete="username" maxlength="128"; }
                }
            }
            @if asked.is_empty() {
                label class="wide" { "What it brings, as JSON" textarea name="data" rows="2" {} }
            }
            p { button class="do" type="submit" { "Decide" } }
        }
    }
}

/// A field of the form: a property of the schema.
struct Asked<'a> {
    name: &'a str,
    schema: &'a Value,
    is_required: bool,
}

impl<'a> Asked<'a> {
    /// The fields, the required ones first. Empty if the decision has no form with properties.
    fn of(decision: &'a Decision) -> Vec<Self> {
        let schema = decision.form.as_ref().map(|form| form.schema());
        let list = schema.and_then(|schema| schema["required"].as_array());
        let is_required = |name: &str| list.is_some_and(|all| all.iter().any(|one| one == name));
        let properties = schema.and_then(|schema| schema["properties"].as_object());
        let fields = properties.into_iter().flatten();
        let mut fields: Vec<Self> = fields
            .map(|(name, schema)| Self {
                name,
                schema,
                is_required: is_required(name),
            })
            .collect();
        fields.sort_by_key(|field| !field.is_required);
        fields
    }

    fn says(&self, key: &str) -> Option<&'a str> {
        self.schema.get(key).and_then(Value::as_str)
    }

    /// The value of what was written: by the type that the schema says, a text if it says none.
    fn read(&self, written: &str) -> Result<Value, Problem> {
        let options = self.schema.get("enum").and_then(Value::as_array);
        let shown = |option: &&Value| in_words(option) == written;
        if let Some(option) = options.and_then(|all| all.iter().find(shown)) {
            return Ok(option.clone());
        }
        if matches!(self.says("type"), Some("string") | None) {
            return Ok(written.into());
        }
        let bad = |why: String| Problem::bad("bad-decision", format!("{}: {why}", self.name));
        if let Some(place) = numbers::altered(written) {
            return Err(bad(format!("the number at {place:?} would be rounded")));
        }
        serde_json::from_str(written).map_err(|e| bad(format!("{written:?} is not JSON: {e}")))
    }
}

fn field(asked: &Asked<'_>) -> Markup {
    let name = format!("{FIELD}{}", asked.name);
    let options = asked.schema.get("enum").and_then(Value::as_array);
    let yes_or_no = [Value::Bool(true), Value::Bool(false)];
    let options = match asked.says("type") {
        Some("boolean") if options.is_none() => Some(yes_or_no.as_slice()),
        _ => options.map(Vec::as_slice),
    };
    html! {
        label title=[asked.says("description")] {
            (asked.says("title").unwrap_or(asked.name))
            @match options {
                Some(options) => select name=(name) required[asked.is_required] {
                    option value="" { "–" }
                    @for option in options { option { (in_words(option)) } }
                },
                None => input name=(name) required[asked.is_required] autocomplete="off";,
            }
        }
    }
}

/// A text as it is, and anything else as JSON.
fn in_words(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// Sends a decision; returns the path of its order.
pub(super) async fn decide(visit: &Visit<'_>, id: &str, sent: &Params) -> Result<String, Problem> {
    let asked: GetOrder = visit.asked()?;
    let order = visit.ask(asked).await?.order;
    let pinned = GetWorkflow {
        name: order.workflow.name.to_string(),
        version: order.workflow.hash.to_string(),
        against: None,
    };
    let workflow = visit.ask(pinned).await?.compiled()?;
    let event = sent.said("event").unwrap_or_default();
    let decision = triad_operator::operations::events::asked_for(&order, &workflow, &event);
    let fields = decision.map_or_else(Vec::new, |(decision, _)| Asked::of(decision));
    let data = match fields.is_empty() {
        true => {
            let text = sent.one("data").unwrap_or("null");
            let read = serde_json::from_str(text);
            read.map_err(|e| Problem::bad("bad-decision", format!("it is not JSON: {e}")))?
        }
        false => {
            let mut data = Map::new();
            for field in fields {
                if let Some(written) = sent.one(&format!("{FIELD}{}", field.name)) {
                    data.insert(field.name.to_owned(), field.read(written.trim())?);
                }
            }
            Value::Object(data)
        }
    };
    let request = SendEvent {
        id: id.to_owned(),
        event,
        event_id: None,
        data,
        by: sent.said("by"),
    };
    visit.ask(request).await?;
    Ok(format!("/console/orders/{}", in_path(id)))
}
