//! `triad agent call`: makes one call as the agent makes it, and shows the request, the answer and its meaning.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};
use triad_core::message::MAX_OUTPUT_BYTES;
use triad_core::{Direction, IdempotencyKey, OrderId};
use triad_http::{Exchange, RecordedAnswer};
use triad_runtime::system::SystemClock;
use triad_runtime::{Call, Clock as _, Fault};
use triad_workflow::service::{LEFT_OUT, Method, fit};
use triad_workflow::{Millis, StepId, nearest};

use super::target::{Target, TargetArgs};
use crate::answers;
use crate::output::{Usage, print_line};
use crate::user_files;

/// Characters of a body that are shown.
const SHOWN: usize = 4_000;
/// Parts of the names of the answer's headers that are shown; `--json` has all headers.
const SHOWN_HEADERS: [&str; 7] = [
    "content-type",
    "idempot",
    "location",
    "ratelimit",
    "rate-limit",
    "request-id",
    "retry-after",
];

/// Make one call as the agent makes it, and show the request, the answer and what it means for a step
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  triad agent call payment charge --input '{\"amount\": \"19.90\"}' --agent payment=http://127.0.0.1:8080
  triad agent call payment charge --input charge.json --key test-1 --record
  triad agent call payment refund --input '{\"charge\": \"ch_1\"}' --key test-1 --compensate
  triad agent call payment getCharge --input - --json

It calls the real service, so the action has its real effect. Secrets are masked in all that is shown and recorded.
In place of the service, `triad dev` and `triad test` use recorded answers with --answers FILE.

Exit codes: 0 the work is done, 1 it is not, 2 the command or a file is wrong.")]
pub struct CallArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// Action, as in the description
    #[arg(value_name = "ACTION")]
    action: String,
    /// Input of the action: a file, - for standard input, or JSON
    #[arg(long, value_name = "FILE|-|JSON", default_value = "{}")]
    input: String,
    /// Idempotency key. Calls with the same key are for the same effect. Default: a new key
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// The call compensates the effect of the call with this key
    #[arg(long, requires = "key")]
    compensate: bool,
    /// Keep the answer in a JSON file, under agent and action, beside the answers in it. Without FILE: answers.json
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = answers::FILE)]
    record: Option<PathBuf>,
    /// Longest time of the call; the agent's call_timeout and the description's timeout may end it sooner
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = str::parse::<Millis>)]
    timeout: Millis,
    /// Print one JSON line
    #[arg(long)]
    json: bool,
}

/// Runs `triad agent call`. The exit code is 0 if the work is done, else 1.
///
/// # Errors
/// [`Usage`] if settings, description, input or the file of recordings cannot be used.
pub async fn run(args: CallArgs) -> Result<ExitCode> {
    let target = args.target.resolve()?;
    let input = input(&args.input)?;
    // Before the call, because that may have an effect.
    args.record
        .as_deref()
        .map(answers::recordings)
        .transpose()?;
    announce(&args, &target);
    let order =
        OrderId::new(format!("call-{}", SystemClock.now().0)).map_err(|e| Usage(e.to_string()))?;
    let step = StepId::new("call").map_err(|e| Usage(e.to_string()))?;
    let effect = args
        .key
        .clone()
        .unwrap_or_else(|| format!("{order}/{step}/forward"));
    let effect = IdempotencyKey(effect);
    let own = IdempotencyKey(format!("{}/compensate", effect.0));
    let form = target
        .described
        .as_ref()
        .map(|(_, service)| service.call(&args.action));
    let (direction, key, compensates) = match args.compensate {
        true => (Direction::Compensate, &own, Some(&effect)),
        false => (Direction::Forward, &effect, None),
    };
    let call = Call {
        order_id: &order,
        step: &step,
        direction,
        idempotency_key: key,
        compensates,
        action: &args.action,
        input: &input,
        form: form.as_ref(),
        repeats: false,
        callback: None,
        location: None,
        time_left: args.timeout,
        attempt: 1,
        traceparent: None,
    };
    let began = SystemClock.now();
    let mut exchange = target.service.exchange(call).await;
    let took = SystemClock.now().since(began);
    exchange.result = exchange.result.map(|output| fit(output, MAX_OUTPUT_BYTES));
    let recorded = record(&args, &exchange);
    // The answer is shown even if it cannot be recorded: the call has been made.
    let file = recorded.as_ref().ok().copied().flatten();
    let settings: Vec<&str> = target.config.headers.keys().map(String::as_str).collect();
    match args.json {
        true => print_line(&in_json(&args, &exchange, &effect, file))?,
        false => show(&args, &exchange, &settings, &effect, took, file),
    }
    recorded?;
    Ok(match exchange.result {
        Ok(_) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    })
}

/// The input: JSON from the command line, or from a file.
fn input(given: &str) -> Result<Value, Usage> {
    let (text, from) = match given.trim_start().starts_with(['{', '[', '"']) {
        true => (given.to_owned(), "--input".to_owned()),
        false => {
            let file = Path::new(given);
            let name = format!("--input {}", user_files::display_path(file));
            let text =
                user_files::text_or_why(file).map_err(|why| Usage(format!("{name}: {why}")))?;
            (text, name)
        }
    };
    serde_json::from_str(&text).map_err(|e| Usage(format!("{from}: is not JSON: {e}")))
}

/// Prints to standard error, before the call, that it is a real one, and what the description does not have.
fn announce(args: &CallArgs, target: &Target) {
    let (agent, action) = (&args.target.name, &args.action);
    match &target.described {
        None => eprintln!(
            "agent {agent} has no description, so {action} is called by the contract of services; name a description with --service FILE"
        ),
        Some((file, service)) if !service.actions.contains_key(action) => {
            let near = nearest(action, service.actions.keys().map(String::as_str));
            let near = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
            eprintln!("{file} does not list {action}, so it is called as POST /{action}{near}");
        }
        Some(_) => {}
    }
    let described = target.described.as_ref();
    let written = described.and_then(|(_, service)| service.actions.get(action));
    let is_read = written.and_then(|action| action.method) == Some(Method::Get);
    if !is_read || target.config.is_of_aws() {
        eprintln!(
            "calling {}: a real call, with all its effects",
            target.config.address()
        );
    }
}

/// Keeps the answer if `--record` is given; returns the file that it is in.
fn record<'a>(args: &'a CallArgs, exchange: &Exchange) -> Result<Option<&'a Path>, Usage> {
    let Some(file) = &args.record else {
        return Ok(None);
    };
    match (&exchange.answer, &exchange.not_recordable) {
        (Some(_), Some(why)) => {
            eprintln!("not recorded: {why}");
            Ok(None)
        }
        (Some(answer), None) => {
            answers::record(file, args.target.name.as_str(), &args.action, answer)?;
            Ok(Some(file))
        }
        (None, _) => {
            eprintln!("not recorded: the service did not answer");
            Ok(None)
        }
    }
}

/// The meaning of a result, as the word that descriptions have for it, and its consequence.
fn meaning(exchange: &Exchange) -> (&'static str, String) {
    let again =
        |after: &Option<Millis>| after.map_or_else(String::new, |after| format!(" after {after}"));
    match &exchange.result {
        Ok(_) => ("done", "the step would be done with this output".to_owned()),
        Err(Fault::Permanent { .. }) if exchange.request.is_none() => (
            "not-sent",
            "no request can be made from this input, so nothing was sent".to_owned(),
        ),
        Err(Fault::Permanent { .. }) => (
            "refused",
            "the call had no effect, and the step would fail".to_owned(),
        ),
        Err(Fault::Transient {
            retry_after,
            maybe_applied,
            ..
        }) => (
            "may-pass",
            format!(
                "the agent would call again{} under the same key; {}",
                again(retry_after),
                if *maybe_applied {
                    "the effect of this call is in doubt"
                } else {
                    "this call had no effect"
                }
            ),
        ),
        Err(Fault::InProgress { retry_after, .. }) => (
            "in-progress",
            format!(
                "the service still works on an earlier call under this key; the agent would call again{}",
                again(retry_after)
            ),
        ),
        Err(Fault::CallerRefused { .. }) => (
            "caller-refused",
            "the service does not accept this caller: check the agent's `auth` and `headers`, or the rights of its AWS role"
                .to_owned(),
        ),
    }
}

/// Code and message of a fault.
fn fault(exchange: &Exchange) -> Option<(&str, &str)> {
    let fault = exchange.result.as_ref().err()?;
    Some((fault.code(), fault.message()))
}

fn in_json(
    args: &CallArgs,
    exchange: &Exchange,
    key: &IdempotencyKey,
    recorded: Option<&Path>,
) -> Value {
    let (code, message) = fault(exchange).unzip();
    json!({
        "kind": "call",
        "agent": args.target.name.as_str(),
        "action": args.action,
        "key": key.0,
        "request": exchange.request,
        "answer": exchange.answer,
        "means": meaning(exchange).0,
        "code": code,
        "message": message,
        "output": exchange.result.as_ref().ok(),
        "recorded": recorded.map(|file| file.display().to_string()),
    })
}

fn show(
    args: &CallArgs,
    exchange: &Exchange,
    settings: &[&str],
    key: &IdempotencyKey,
    took: Millis,
    recorded: Option<&Path>,
) {
    if let Some(request) = &exchange.request {
        println!("> {} {}", request.method, request.url);
        let of_settings = settings
            .iter()
            .map(|name| ((*name).to_owned(), "(hidden)".to_owned()));
        for (name, value) in request.headers.iter().cloned().chain(of_settings) {
            println!("> {name}: {}", value);
        }
        body(">", &request.body);
        println!();
    }
    if let Some(answer) = &exchange.answer {
        show_answer(answer, took);
    }
    let (means, follows) = meaning(exchange);
    println!("Triad: {means}; {follows}");
    if let Some((code, message)) = fault(exchange) {
        println!("  code: {}", code);
        println!("  message: {}", message);
    }
    if let Ok(output) = &exchange.result {
        println!("  output: {}", output.to_string());
        match &output[LEFT_OUT] {
            Value::Null => {}
            Value::Object(names) => {
                for (name, why) in names {
                    println!("  left out: {}: {}", name, why.as_str().unwrap_or_default());
                }
            }
            why => println!("  left out: {}", why.as_str().unwrap_or_default()),
        }
    }
    if args.key.is_none() && exchange.request.is_some() {
        println!("  to call again for the same effect: --key {}", key.0);
    }
    if let Some(file) = recorded {
        println!("  recorded in {}", file.display());
    }
}

fn show_answer(answer: &RecordedAnswer, took: Millis) {
    println!("< {} after {took}", answer.status);
    for (name, value) in &answer.headers {
        if SHOWN_HEADERS.iter().any(|part| name.contains(part)) {
            println!("< {name}: {}", value);
        }
    }
    body("<", &String::from_utf8_lossy(&answer.bytes()));
    println!();
}

/// Prints at most [`SHOWN`] characters of a body, each line behind a mark.
fn body(mark: &str, text: &str) {
    if text.is_empty() {
        return;
    }
    println!("{mark}");
    let shown: String = text.chars().take(SHOWN).collect();
    for line in shown.lines() {
        println!("{mark} {}", line);
    }
    let more = text.chars().count().saturating_sub(SHOWN);
    if more > 0 {
        println!("{mark} … and {more} more characters; --json has all");
    }
}
