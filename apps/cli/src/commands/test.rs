//! `triad test`: evaluates a workflow for an order locally; nothing is sent.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::UNIX_EPOCH;

use anyhow::Result;
use clap::Args;
use serde_json::{Map, Value, json};
use triad_core::message::MAX_OUTPUT_BYTES;
use triad_core::submission::Submission;
use triad_core::{Direction, IdempotencyKey, OrderId, Timestamp};
use triad_runtime::Call;
use triad_workflow::moment::{Tz, moment};
use triad_workflow::service::fit;
use triad_workflow::{
    EvalError, Expression, Limits, Millis, Run, Scope, Step, StepKind, Template, Timer, Workflow,
    nearest,
};

use super::validate::read;
use crate::answers::{ActionAnswer, Answers};
use crate::output::{Usage, print_line};
use crate::user_files;

/// Show every input that a workflow would compute for an order; nothing is sent
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  triad test order.yaml order.json
  triad test order.yaml order.json --output charge='{\"reference\": \"c-1\"}'
  triad test order.yaml details.json --outputs outputs.json --json
  triad test order.yaml order.json --answers answers.json

The order is in the form of the topic, or only its details. The output of an earlier step is the output given for it,
else the output that its answer in --answers gives by the description, else a placeholder that is marked as such. Exit
code 1 if an input has no value for this order, an answer does not say that its step is done, or the order would be
rejected; 2 if a file is wrong.")]
pub struct TestArgs {
    /// Workflow file
    #[arg(value_name = "WORKFLOW")]
    workflow: PathBuf,
    /// JSON file with an order, or with its details alone; - is standard input
    #[arg(value_name = "ORDER")]
    order: PathBuf,
    /// JSON file with outputs by step id: {"STEP": OUTPUT, …}
    #[arg(long, value_name = "FILE")]
    outputs: Option<PathBuf>,
    /// Output of one step; may be given several times, and takes precedence over --outputs
    #[arg(long, value_name = "STEP=JSON")]
    output: Vec<String>,
    /// File of answers by agent and action, in YAML or JSON: outputs, or answers recorded by triad agent call --record
    #[arg(long, value_name = "FILE")]
    answers: Option<PathBuf>,
    /// The order comes by the high lane
    #[arg(long)]
    high: bool,
    /// Print a JSON line for each step
    #[arg(long)]
    json: bool,
}

/// Value of an expression or an input.
enum Computed {
    /// The value, and the steps whose placeholders are in it.
    Value(Value, Vec<String>),
    /// No value is known: the expression computes with the placeholders of these steps.
    Open(Vec<String>),
    /// There is no value, and the order fails at this step: the expression and the reason.
    Fails(Option<String>, String),
}

/// The order, as expressions see it.
struct Order {
    id: String,
    /// Now, in milliseconds since 1970.
    submitted_at: u64,
    details: Value,
}

/// Outputs of the steps so far: given ones, or placeholders.
struct Outputs {
    given: BTreeMap<String, Value>,
    answers: Answers,
    now: BTreeMap<String, Value>,
    placeholders: Vec<String>,
}

/// A step in the workflow file.
struct StepLocation<'a> {
    file: &'a str,
    text: &'a str,
    step: &'a str,
}

impl StepLocation<'_> {
    /// Line and column, from 1, of an expression in the step; of the step itself if the expression is not found
    /// literally, as in a text with escapes.
    fn place(&self, expression: Option<&str>) -> (usize, usize) {
        let is_begin = |line: &str| {
            let named = line.split_once("id:").map(|(_, rest)| rest.trim_start());
            named.is_some_and(|rest| {
                let name = rest.trim_start_matches(['"', '\'']);
                let end = name.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_'));
                &name[..end.unwrap_or(name.len())] == self.step
            })
        };
        let begin = self.text.lines().position(is_begin).unwrap_or(0);
        let first = expression.and_then(|e| e.lines().next()).unwrap_or("id:");
        let lines = self.text.lines().enumerate().skip(begin);
        let found = lines
            .filter_map(|(index, line)| {
                let byte = line.find(first)?;
                Some((index + 1, line[..byte].chars().count() + 1))
            })
            .next();
        found.unwrap_or((begin + 1, 1))
    }
}

/// Runs `triad test`. The exit code is 0 if every input has a value, or may have one once outputs are
/// given; 1 if one has none, or the order would not be let in.
///
/// # Errors
/// [`Usage`] if a file cannot be read or is wrong.
pub fn run(args: &TestArgs) -> Result<ExitCode> {
    let workflow = read(&args.workflow, &Limits::published())
        .map_err(|wrong| Usage(format!("the workflow file is not sound\n{wrong}")))?;
    let order = order(args, &workflow)?;
    let mut outputs = Outputs {
        given: given(args, &workflow)?,
        answers: match &args.answers {
            Some(file) => Answers::read(file).map_err(|problems| Usage(problems.join("\n")))?,
            None => Answers::default(),
        },
        now: BTreeMap::new(),
        placeholders: Vec::new(),
    };
    let text = user_files::text(&args.workflow)?;
    let mut is_good = true;
    let schema = workflow.details.as_ref();
    let misfits = schema.map_or(Ok(Vec::new()), |schema| schema.misfits(&order.details));
    for misfit in misfits.map_err(|why| Usage(why.to_string()))? {
        is_good = false;
        let reason = format!("the order would be rejected: {misfit}");
        match args.json {
            true => print_line(
                &json!({"rejected": true, "cause": "details-do-not-fit", "reason": reason}),
            )?,
            false => println!("{reason}"),
        }
    }
    if !args.json {
        println!("{}@{} for order {}", workflow.name, workflow.hash, order.id);
    }
    for step in &workflow.steps {
        is_good &= self::step(&workflow, step, &order, &mut outputs, &text, args)?;
    }
    Ok(match is_good {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

fn order(args: &TestArgs, workflow: &Workflow) -> Result<Order, Usage> {
    let shown = user_files::display_path(&args.order);
    let text = user_files::text(&args.order)?;
    let value: Value =
        serde_json::from_str(&text).map_err(|e| Usage(format!("{shown}: is not JSON: {e}")))?;
    let is_order = value.get("order_id").is_some() || value.get("workflow").is_some();
    if !is_order {
        return match value {
            Value::Object(_) => Ok(Order {
                id: "an-order".to_owned(),
                submitted_at: now(),
                details: value,
            }),
            _ => Err(Usage(format!(
                "{shown}: is no JSON object: write an order, or its details"
            ))),
        };
    }
    let order = Submission::decode(Some(text.trim().as_bytes()))
        .map_err(|e| Usage(format!("{shown}: {}: {e}", e.code())))?;
    if order.workflow != workflow.name {
        let reason = format!(
            "{shown}: the order asks for workflow {}, and {} is {}",
            order.workflow,
            args.workflow.display(),
            workflow.name
        );
        return Err(Usage(reason));
    }
    Ok(Order {
        id: order.order_id.to_string(),
        submitted_at: now(),
        details: Value::Object(order.details),
    })
}

fn now() -> u64 {
    let since_1970 = UNIX_EPOCH.elapsed().unwrap_or_default();
    u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX)
}

fn given(args: &TestArgs, workflow: &Workflow) -> Result<BTreeMap<String, Value>, Usage> {
    let mut given = BTreeMap::new();
    if let Some(file) = &args.outputs {
        let shown = file.display();
        let all: Map<String, Value> =
            serde_json::from_str(&user_files::text(file)?).map_err(|e| {
                Usage(format!(
                    "{shown}: is no JSON object of outputs by step: {e}"
                ))
            })?;
        given.extend(all);
    }
    for one in &args.output {
        let Some((step, output)) = one.split_once('=') else {
            return Err(Usage(format!("--output {one}: write STEP=JSON")));
        };
        let output = serde_json::from_str(output)
            .map_err(|e| Usage(format!("--output {step}: {output:?} is not JSON: {e}")))?;
        given.insert(step.to_owned(), output);
    }
    let ids: Vec<&str> = workflow.steps.iter().map(|s| s.id.as_str()).collect();
    match given.keys().find(|id| !ids.contains(&id.as_str())) {
        None => Ok(given),
        Some(unknown) => {
            let near = nearest(unknown, ids.iter().copied());
            let hint = match near {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("there are {}", ids.join(", ")),
            };
            Err(Usage(format!(
                "an output is given for step {unknown:?}, and there is no such step; {hint}"
            )))
        }
    }
}

/// Computes and shows one step. False if something of it has no value for this order.
fn step(
    workflow: &Workflow,
    step: &Step,
    order: &Order,
    outputs: &mut Outputs,
    text: &str,
    args: &TestArgs,
) -> Result<bool> {
    let id = step.id.as_str();
    let scope = |output: Option<&Value>| {
        let facts = Scope::order(
            &order.id,
            workflow.name.as_str(),
            args.high,
            order.submitted_at,
        );
        let earlier = outputs.now.iter().map(|(id, value)| (id.as_str(), value));
        workflow.scope(&facts, &order.details, earlier, output)
    };
    let when = step.when.as_ref().map(|when| {
        let computed = when.evaluate(&scope(None));
        outcome(computed, &[when], &outputs.placeholders)
    });
    let is_skipped =
        matches!(&when, Some(Computed::Value(Value::Bool(false), open)) if open.is_empty());
    let is_odd = |value: &Value| format!("is {value}, and has to be true or false");
    let when = match when {
        Some(Computed::Value(value, open)) if !value.is_boolean() && open.is_empty() => {
            Some(Computed::Fails(
                step.when.as_ref().map(|w| w.source().to_owned()),
                is_odd(&value),
            ))
        }
        Some(Computed::Value(_, open)) if !open.is_empty() => Some(Computed::Open(open)),
        other => other,
    };
    let at = StepLocation {
        file: &args.workflow.display().to_string(),
        text,
        step: id,
    };
    let mut shown = match step.call() {
        Some(call) => json!({"step": id, "agent": call.agent.as_str(), "action": call.action}),
        None if step.run().is_some() => json!({"step": id, "runs": step.kind.to_string()}),
        None => json!({"step": id, "waits": step.kind.to_string()}),
    };
    let mut is_good = !matches!(when, Some(Computed::Fails(..)));
    let mut lines = vec![match is_skipped {
        true => format!("step {id}: skipped"),
        false => match step.call() {
            Some(call) => format!("step {id}: {} {}", call.agent, call.action),
            None => format!("step {id}: {}", step.kind),
        },
    }];
    if let (Some(when), Some(written)) = (&when, &step.when) {
        show(
            "when",
            when,
            Some(written.source()),
            &at,
            &mut shown,
            &mut lines,
        );
    }
    if is_skipped {
        shown["skipped"] = json!(true);
        outputs.now.insert(id.to_owned(), Value::Null);
    } else {
        let rendered = |template| render(template, &scope(None), &outputs.placeholders);
        let computed = match &step.kind {
            StepKind::Call(call) => Some(("input", rendered(&call.input))),
            StepKind::Timer(Timer::Until { at, zone }) => {
                Some(("until", named_moment(rendered(at), *zone)))
            }
            StepKind::Run(run) => Some(match &run.each {
                None => ("details", rendered(&run.own.details)),
                Some(each) => ("for_each", named_list(rendered(&each.list))),
            }),
            StepKind::Timer(Timer::For(_)) | StepKind::Await(_) => None,
        };
        if let Some((name, computed)) = &computed {
            is_good &= !matches!(computed, Computed::Fails(..));
            show(name, computed, None, &at, &mut shown, &mut lines);
        }
        if let (Some(run), Some((_, computed))) = (step.run(), &computed)
            && let Some(first) = first_of(run, computed, scope(None), &outputs.placeholders)
        {
            is_good &= !matches!(first, Computed::Fails(..));
            let name = "details of the first";
            show(name, &first, None, &at, &mut shown, &mut lines);
        }
        for other in step.run().iter().flat_map(|run| &run.others) {
            let computed = rendered(&other.started.details);
            is_good &= !matches!(computed, Computed::Fails(..));
            let asks = other.started.asks.as_deref().unwrap_or_default();
            let name = format!("details of {asks}");
            show(&name, &computed, None, &at, &mut shown, &mut lines);
        }
        let played = match (outputs.given.get(id), &step.kind, &computed) {
            (Some(output), ..) => Some(Ok(output.clone())),
            (None, StepKind::Call(call), Some((_, input))) => {
                played(workflow, (step, call), order, input, &outputs.answers)
            }
            (None, StepKind::Timer(_), _) => Some(Ok(Value::Null)),
            (None, ..) => None,
        };
        let (output, is_placeholder) = match played {
            Some(Ok(output)) => (output, false),
            Some(Err(why)) => {
                is_good = false;
                shown["answer_error"] = json!(why);
                lines.push(format!("  answer: {why}"));
                (placeholder(workflow, step), true)
            }
            None => (placeholder(workflow, step), true),
        };
        if let Some(compensation) = &step.compensation {
            let mut open = outputs.placeholders.clone();
            if is_placeholder {
                open.push(OUTPUT.to_owned());
            }
            let computed = render(&compensation.input, &scope(Some(&output)), &open);
            let computed = named_after(computed, id);
            is_good &= !matches!(computed, Computed::Fails(..));
            show(
                "compensation input",
                &computed,
                None,
                &at,
                &mut shown,
                &mut lines,
            );
        }
        shown["output"] = output.clone();
        shown["output_is_placeholder"] = json!(is_placeholder);
        lines.push(format!(
            "  output: {}{output}",
            if is_placeholder { "(placeholder) " } else { "" }
        ));
        if is_placeholder {
            outputs.placeholders.push(id.to_owned());
        }
        outputs.now.insert(id.to_owned(), output);
    }
    if args.json {
        print_line(&shown)?;
    } else {
        println!("{}", lines.join("\n"));
    }
    Ok(is_good)
}

/// The details of the child order for the first element of a list; `None` if the step has no list, or nothing is in it.
fn first_of(run: &Run, list: &Computed, scope: Scope, placeholders: &[String]) -> Option<Computed> {
    let (each, Computed::Value(Value::Array(items), open)) = (run.each.as_ref()?, list) else {
        return None;
    };
    let scope = scope.with(&each.item, items.first()?);
    let mut first = render(
        &run.own.details,
        &scope.with("index", &0.into()),
        placeholders,
    );
    if let Computed::Value(_, of) = &mut first {
        of.extend(open.iter().cloned());
        of.sort();
        of.dedup();
    }
    Some(first)
}

/// The computed list of a `for_each`, or why it is none.
fn named_list(computed: Computed) -> Computed {
    match &computed {
        Computed::Value(Value::Array(_), _) => computed,
        Computed::Value(other, open) if open.is_empty() => {
            Computed::Fails(None, format!("is {other}, and has to be a list"))
        }
        _ => computed,
    }
}

/// The output of a step, from the answer to its action in `--answers`; `None` if there is no such answer. The error
/// says why the answer gives no output.
fn played(
    workflow: &Workflow,
    (step, called): (&Step, &triad_workflow::Call),
    order: &Order,
    input: &Computed,
    answers: &Answers,
) -> Option<Result<Value, String>> {
    let answer = answers.of(called.agent.as_str(), &called.action)?;
    let service = workflow.definition.agents.get(called.agent.as_str());
    if let (ActionAnswer::Output(output), None) = (answer, service) {
        return Some(Ok(output.clone()));
    }
    let recorded = answer.recorded();
    let form = service.map(|service| service.call(&called.action));
    let input = match input {
        Computed::Value(value, _) => value.clone(),
        Computed::Open(_) | Computed::Fails(..) => json!({}),
    };
    let order_id = OrderId::new(&*order.id).map_err(|e| e.to_string());
    let key = IdempotencyKey(format!("{}/{}/forward", order.id, step.id));
    Some(order_id.and_then(|order_id| {
        let call = Call {
            order_id: &order_id,
            step: &step.id,
            direction: Direction::Forward,
            idempotency_key: &key,
            compensates: None,
            action: &called.action,
            input: &input,
            form: form.as_ref(),
            repeats: false,
            callback: None,
            location: None,
            time_left: Millis(1),
            attempt: 1,
            traceparent: None,
        };
        match recorded.judged(&call) {
            Ok(output) => Ok(fit(output, MAX_OUTPUT_BYTES)),
            Err(fault) => Err(format!(
                "the recorded answer with status {} does not say that the step is done: {}: {}",
                recorded.status,
                fault.code(),
                fault.message()
            )),
        }
    }))
}

/// The computed end of a timer, or why it names no moment.
fn named_moment(computed: Computed, zone: Tz) -> Computed {
    let Computed::Value(Value::String(text), open) = &computed else {
        return computed;
    };
    match moment(text, zone) {
        Ok(at) if open.is_empty() => {
            let at = triad_operator::json::moment(Timestamp(at));
            Computed::Value(at.into(), Vec::new())
        }
        Err(why) if open.is_empty() => Computed::Fails(None, why.to_string()),
        Ok(_) | Err(_) => computed,
    }
}

/// Name of the step's own output among placeholders.
const OUTPUT: &str = "output";

fn named_after(computed: Computed, id: &str) -> Computed {
    let rename = |names: Vec<String>| {
        let rename = |name: String| if name == OUTPUT { id.to_owned() } else { name };
        names.into_iter().map(rename).collect()
    };
    match computed {
        Computed::Value(value, open) => Computed::Value(value, rename(open)),
        Computed::Open(open) => Computed::Open(rename(open)),
        fails @ Computed::Fails(..) => fails,
    }
}

fn render(template: &Template, scope: &Scope, placeholders: &[String]) -> Computed {
    outcome(
        template.render(scope),
        &template.expressions(),
        placeholders,
    )
}

/// Classifies the values of expressions, given the steps with placeholder outputs.
fn outcome(
    computed: Result<Value, EvalError>,
    expressions: &[&Expression],
    placeholders: &[String],
) -> Computed {
    let mut open: Vec<String> = Vec::new();
    for way in expressions.iter().flat_map(|e| e.reads()) {
        let name = match way.as_slice() {
            [first, id, ..] if first == "steps" => id.clone(),
            [first, ..] if first == OUTPUT => OUTPUT.to_owned(),
            _ => continue,
        };
        if placeholders.contains(&name) && !open.contains(&name) {
            open.push(name);
        }
    }
    match computed {
        Ok(value) => Computed::Value(value, open),
        Err(e) if open.is_empty() => Computed::Fails(Some(e.source_text.clone()), e.to_string()),
        Err(_) => Computed::Open(open),
    }
}

fn show(
    name: &str,
    of: &Computed,
    source: Option<&str>,
    at: &StepLocation<'_>,
    shown: &mut Value,
    lines: &mut Vec<String>,
) {
    let key = name.replace(' ', "_");
    let source = source.map_or_else(String::new, |source| format!(" (`{source}`)"));
    let named = |open: &[String]| open.join(", ");
    let line = match of {
        Computed::Value(value, open) => {
            shown[&key] = value.clone();
            if !open.is_empty() {
                shown[format!("{key}_has_placeholders_of")] = json!(open);
            }
            let with = match open.is_empty() {
                true => String::new(),
                false => format!("  (with the placeholder of {})", named(open)),
            };
            format!("  {name}{source}: {value}{with}")
        }
        Computed::Open(open) => {
            shown[format!("{key}_needs_output_of")] = json!(open);
            format!(
                "  {name}{source}: depends on the output of {}: give it with --output {}=JSON",
                named(open),
                open.first().map_or("STEP", String::as_str)
            )
        }
        Computed::Fails(expression, why) => {
            let (line, column) = at.place(expression.as_deref());
            shown[format!("{key}_error")] = json!({
                "file": at.file, "line": line, "column": column, "reason": why
            });
            format!(
                "  {name}{source}: error: {}:{line}:{column}: {why}",
                at.file
            )
        }
    };
    lines.push(line);
}

/// Deepest field of a placeholder.
const MAX_DEPTH: usize = 16;

/// Placeholder for a step's output: an object with the fields that other steps read, each a text that names the
/// field.
fn placeholder(workflow: &Workflow, of: &Step) -> Value {
    let id = of.id.as_str();
    let mut made = Value::Null;
    let mut read = |way: &[String]| {
        let mut at = &mut made;
        for (depth, name) in way.iter().enumerate().take(MAX_DEPTH) {
            if !at.is_object() {
                *at = json!({});
            }
            let so_far = way[..=depth].join(".");
            at = &mut at[name.as_str()];
            if at.is_null() {
                *at = json!(format!("<{so_far} of {id}>"));
            }
        }
    };
    for step in &workflow.steps {
        let own = step.expressions();
        let compensation = step.compensation.iter().flat_map(|c| c.input.expressions());
        for way in own.chain(compensation).flat_map(Expression::reads) {
            match way.as_slice() {
                [first, name, rest @ ..] if first == "steps" && name == id => read(rest),
                [first, rest @ ..] if first == OUTPUT && step.id == of.id => read(rest),
                _ => {}
            }
        }
    }
    match made {
        Value::Null => json!(format!("<output of {id}>")),
        made => made,
    }
}
