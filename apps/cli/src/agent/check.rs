//! `triad agent check`: checks a description against the running service, by calls that have no effect there.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};
use triad_core::{Direction, IdempotencyKey, OrderId};
use triad_http::HttpService;
use triad_runtime::system::SystemClock;
use triad_runtime::{Call, Clock as _, Fault};
use triad_workflow::service::{CallForm, Method, ServiceDefinition};
use triad_workflow::{Millis, StepId};

use super::target::{Target, TargetArgs};
use crate::output::{Usage, print_line};

/// Longest wait for each answer.
const WITHIN: Duration = Duration::from_secs(10);

/// Check the description of a service against the running service, without an effect there
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  triad agent check payment
  triad agent check payment --agent payment=https://pay.example --service agents/payment.yaml --json

It sends HEAD to the address, gets the credentials, and calls each GET action that needs no input; the answer shows whether
the service accepts the credentials. It lists every other action as not called: try those with triad agent call.

Exit codes: 0 nothing is wrong, 1 a point is wrong, 2 the command or a file is wrong.")]
pub struct CheckArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// Print a JSON line for each point, and a summary
    #[arg(long)]
    json: bool,
}

/// The result for one point, with a text for people.
enum Found {
    Fine(String),
    Wrong(String),
    NotCalled(String),
}

/// A point: the address, the credentials, or an action.
struct Point {
    what: String,
    found: Found,
}

/// Runs `triad agent check`. The exit code is 1 if something is wrong.
///
/// # Errors
/// [`Usage`] if settings or description cannot be used, or there is no description.
pub async fn run(args: CheckArgs) -> Result<ExitCode> {
    let target = args.target.resolve()?;
    let Some((_, described)) = &target.described else {
        let name = &args.target.name;
        return Err(Usage(format!(
            "agent {name} has no description: name one with --service FILE, or write one with triad agent import"
        ))
        .into());
    };
    let points = points(&target, described).await?;
    let wrong = points
        .iter()
        .filter(|point| matches!(point.found, Found::Wrong(_)))
        .count();
    for Point { what, found } in &points {
        let (word, mark, text) = match found {
            Found::Fine(text) => ("ok", "ok   ", text),
            Found::Wrong(text) => ("wrong", "WRONG", text),
            Found::NotCalled(text) => ("not-called", "-    ", text),
        };
        match args.json {
            true => {
                print_line(&json!({"kind": "point", "point": what, "found": word, "text": text}))?
            }
            false => println!("{mark}  {what}: {text}"),
        }
    }
    if args.json {
        print_line(
            &json!({"kind": "summary", "shown": points.len(), "more": false, "wrong": wrong}),
        )?;
    }
    Ok(match wrong {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

async fn points(target: &Target, described: &ServiceDefinition) -> Result<Vec<Point>> {
    let mut points = Vec::new();
    let mut add = |what: &str, found: Found| {
        points.push(Point {
            what: what.to_owned(),
            found,
        });
    };
    let address = target.config.address();
    let reached = target.service.reach(WITHIN).await;
    let tls = if address.starts_with("https") {
        ", with a certificate that is trusted"
    } else {
        ""
    };
    let mut stop = None;
    add(
        "address",
        match reached {
            Ok(None) => Found::NotCalled(format!(
                "{address} is not called, since every call of a service of AWS may have an effect"
            )),
            Ok(Some(status)) => Found::Fine(format!("{address} answers{tls} ({status} to HEAD)")),
            Err(fault) => {
                stop = Some("the address does not answer");
                Found::Wrong(said(&fault))
            }
        },
    );
    if stop.is_none() {
        add(
            "credentials",
            match target.service.credentials(WITHIN).await {
                Ok(true) => Found::Fine("the agent has them".to_owned()),
                Ok(false) if target.config.headers.is_empty() => {
                    Found::Fine("none are set".to_owned())
                }
                Ok(false) => Found::Fine("only `headers` of the settings".to_owned()),
                Err(fault) => {
                    stop = Some("there are no credentials");
                    Found::Wrong(said(&fault))
                }
            },
        );
    }
    for (name, action) in &described.actions {
        let form = CallForm::compile(&described.call(name)).map_err(|e| Usage(e.to_string()))?;
        let why_not = match (stop, action.method) {
            (Some(why), _) => Some(why.to_owned()),
            (None, _) if target.config.is_of_aws() => {
                Some("every call of a service of AWS may have an effect".to_owned())
            }
            (None, Some(Method::Get)) if !form.reads_input() => None,
            (None, Some(Method::Get)) => Some("it needs an input".to_owned()),
            (None, method) => {
                let method = method.unwrap_or(Method::Post).as_str();
                Some(format!("{method} may have an effect"))
            }
        };
        let found = match why_not {
            Some(why) => Found::NotCalled(format!("not called, since {why}")),
            None => call(&target.service, described, name).await?,
        };
        add(name, found);
    }
    Ok(points)
}

/// Calls an action that needs no input and has no effect.
async fn call(service: &HttpService, described: &ServiceDefinition, action: &str) -> Result<Found> {
    let id = format!("check-{}", SystemClock.now().0);
    let order = OrderId::new(&*id).map_err(|e| Usage(e.to_string()))?;
    let step = StepId::new("check").map_err(|e| Usage(e.to_string()))?;
    let key = IdempotencyKey(format!("{id}/check/forward"));
    let form = described.call(action);
    let exchange = service
        .exchange(Call {
            order_id: &order,
            step: &step,
            direction: Direction::Forward,
            idempotency_key: &key,
            compensates: None,
            action,
            input: &Value::Object(serde_json::Map::new()),
            form: Some(&form),
            repeats: false,
            callback: None,
            location: None,
            time_left: Millis(WITHIN.as_millis() as u64),
            attempt: 1,
            traceparent: None,
        })
        .await;
    Ok(match &exchange.result {
        Ok(output) => {
            let status = exchange.answer.map_or(0, |answer| answer.status);
            let output: String = output.to_string().chars().take(200).collect();
            Found::Fine(format!("answered {status}; the output is {output}"))
        }
        Err(fault) => Found::Wrong(said(fault)),
    })
}

/// A fault for people, with the next step.
fn said(fault: &Fault) -> String {
    let (code, message) = (fault.code(), fault.message());
    match fault {
        Fault::CallerRefused { .. } => format!(
            "the caller is not accepted: {code}: {message}; check the agent's `auth` and `headers`, or the rights of its AWS role"
        ),
        _ => format!("{code}: {message}"),
    }
}
