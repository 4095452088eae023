//! `triad check-service`: checks a running service against the contract, by calling it as an agent does.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use futures::future::join_all;
use serde_json::{Value, json};
use triad_core::{Direction, IdempotencyKey, OrderId};
use triad_http::{AwsAccount, Destination, HttpService, HttpSettings, HttpSettingsError};
use triad_runtime::system::SystemClock;
use triad_runtime::{Call, Clock, Fault, RemoteService};
use triad_workflow::{Millis, StepId};

use crate::output::{Usage, print_line};

/// Longest single call.
const CALL_WITHIN: Duration = Duration::from_secs(10);
/// Concurrent calls with one key.
const AT_ONCE: usize = 8;

/// Check a running service against the contract of a remote service
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  triad check-service http://127.0.0.1:8080/hotel --action book --compensation cancel \\
      --input '{\"city\": \"Praha\", \"nights\": 2, \"guests\": 2}'

It makes calls that have effects, with keys that begin with `check-`, and compensates each of them. It cannot
check whether keys survive a restart of the service.

Exit codes: 0 the service fulfils every checked point, 1 it does not, 2 the command is wrong.")]
pub struct CheckServiceArgs {
    /// Address of the service, as base_url of an agent
    #[arg(value_name = "URL")]
    url: String,
    /// Action that is called
    #[arg(long, value_name = "ACTION")]
    action: String,
    /// Action that compensates it
    #[arg(long, value_name = "ACTION")]
    compensation: String,
    /// Probe: the action that says whether the effect has happened, for a service with probes
    #[arg(long, value_name = "ACTION")]
    probe: Option<String>,
    /// Input of the calls, as JSON
    #[arg(long, value_name = "JSON", default_value = "{}", value_parser = json_value)]
    input: Value,
    /// Header of every call, such as 'authorization: Bearer …'; may be given several times
    #[arg(long, value_name = "NAME: VALUE", value_parser = header)]
    header: Vec<(String, String)>,
    /// Print a JSON line for each point
    #[arg(long)]
    json: bool,
}

fn json_value(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|e| format!("is not JSON: {e}"))
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("is not NAME: VALUE")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

type Answer = Result<Value, Fault>;

/// A service under test.
struct Tested<'a> {
    service: HttpService,
    args: &'a CheckServiceArgs,
    run: String,
    order: OrderId,
    step: StepId,
}

impl Tested<'_> {
    fn key(&self, name: &str) -> IdempotencyKey {
        IdempotencyKey(format!("check-{}/{name}", self.run))
    }

    async fn call(
        &self,
        direction: Direction,
        action: &str,
        key: &str,
        compensates: Option<&str>,
        input: &Value,
    ) -> Answer {
        let (key, compensates) = (
            self.key(key),
            compensates.map(|compensates| self.key(compensates)),
        );
        let call = Call {
            order_id: &self.order,
            step: &self.step,
            direction,
            idempotency_key: &key,
            compensates: compensates.as_ref(),
            action,
            input,
            form: None,
            repeats: false,
            callback: None,
            location: None,
            time_left: Millis(CALL_WITHIN.as_millis() as u64),
            attempt: 1,
            traceparent: None,
        };
        self.service.call(call).await
    }

    async fn forward(&self, key: &str) -> Answer {
        let (action, input) = (&self.args.action, &self.args.input);
        self.call(Direction::Forward, action, key, None, input)
            .await
    }

    async fn compensate(&self, key: &str, compensates: &str) -> Answer {
        let (action, input) = (&self.args.compensation, &self.args.input);
        self.call(Direction::Compensate, action, key, Some(compensates), input)
            .await
    }

    /// Whether the service reports the effect of a key as done.
    async fn probe(&self, action: &str, key: &str) -> Result<bool, String> {
        let input = &self.args.input;
        let answer = self
            .call(Direction::Probe, action, key, None, input)
            .await
            .map_err(|fault| fault_text(&fault))?;
        let applied = answer["applied"].as_bool();
        applied.ok_or_else(|| format!("its answer {answer} has no boolean field `applied`"))
    }
}

fn fault_text(fault: &Fault) -> String {
    match fault {
        Fault::Permanent { code, message } => format!("it refuses: {code}: {message}"),
        Fault::Transient { code, message, .. } => format!("it fails: {code}: {message}"),
        Fault::InProgress { code, message, .. } => {
            format!("it works on an earlier call under the same key: {code}: {message}")
        }
        Fault::CallerRefused { code, message, .. } => {
            format!(
                "it does not accept the caller: {code}: {message}; give what it asks for with --header"
            )
        }
    }
}

/// One point of the contract, and the violation, if any.
struct Point {
    what: &'static str,
    wrong: Option<String>,
}

/// Runs `triad check-service`. The exit code is 1 if the service violates a point of the contract.
///
/// # Errors
/// [`Usage`] if the URL or a header cannot be used; an error if the first call fails, because then no point can be
/// checked.
pub async fn run(args: CheckServiceArgs) -> Result<ExitCode> {
    let settings = HttpSettings {
        destination: Destination::BaseUrl(args.url.clone()),
        call_timeout: CALL_WITHIN,
        headers: args.header.clone(),
        auth: None,
        tls: None,
        aws: AwsAccount::default(),
        statuses: std::collections::BTreeMap::new(),
        callback_url: None,
    };
    let tested = Tested {
        service: HttpService::new(&settings).map_err(|e| {
            Usage(match e {
                HttpSettingsError::BaseUrl => {
                    "URL: is not an http or https one: write http://HOST:PORT/PATH".to_owned()
                }
                other => format!("--header: {other}"),
            })
        })?,
        run: SystemClock.now().0.to_string(),
        order: OrderId::new("check").context("an order's id")?,
        step: StepId::new("check").context("a step's id")?,
        args: &args,
    };
    let first = tested.forward("once").await;
    let first = first.map_err(|fault| {
        let (url, action) = (&args.url, &args.action);
        anyhow::anyhow!(
            "{url}/{action} does not do it, so nothing can be said: {}. Does it run there, and does --input fit it?",
            fault_text(&fault)
        )
    })?;
    let points = check_points(&tested, &first).await;
    let wrong = points.iter().filter(|point| point.wrong.is_some()).count();
    for Point { what, wrong } in &points {
        if args.json {
            print_line(&json!({"point": what, "honoured": wrong.is_none(), "wrong": wrong}))?;
        } else {
            match wrong {
                None => println!("ok     {what}"),
                Some(wrong) => println!("WRONG  {what}\n       {wrong}"),
            }
        }
    }
    if !args.json {
        println!("{} of {} points", points.len() - wrong, points.len());
    }
    Ok(match wrong {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// Checks every point. The effect of the key `once` is in place.
async fn check_points(tested: &Tested<'_>, first: &Value) -> Vec<Point> {
    let mut points = Vec::new();
    let mut note = |what, wrong: Result<(), String>| {
        points.push(Point {
            what,
            wrong: wrong.err(),
        });
    };
    note(
        "the same key with the same request is answered the same",
        same(first, tested.forward("once").await),
    );
    let at_once = join_all((0..AT_ONCE).map(|_| tested.forward("at-once"))).await;
    note(
        "calls with one key at the same time are one call",
        all_same(&at_once),
    );
    let mut other = tested.args.input.clone();
    match &mut other {
        Value::Object(fields) => drop(fields.insert("check".to_owned(), true.into())),
        other => *other = json!({"check": true}),
    }
    let action = &tested.args.action;
    let reused = tested
        .call(Direction::Forward, action, "once", None, &other)
        .await;
    note(
        "the same key with another request is refused",
        refused(reused),
    );
    if let Some(probe) = &tested.args.probe {
        let (done, not) = (
            tested.probe(probe, "once").await,
            tested.probe(probe, "never").await,
        );
        let wrong = match (done, not) {
            (Ok(true), Ok(false)) => Ok(()),
            (Err(why), _) | (_, Err(why)) => Err(why),
            (done, _) => Err(format!(
                "of what has happened it says {done:?}, of another key the contrary"
            )),
        };
        note("a probe says what has happened, and what has not", wrong);
    }
    let compensated = tested.compensate("once-compensated", "once").await;
    note(
        "a compensation reverses the effect",
        compensated.clone().map(drop).map_err(|f| fault_text(&f)),
    );
    let again = tested.compensate("once-compensated", "once").await;
    note(
        "the same compensation is answered the same",
        match &compensated {
            Ok(compensated) => same(compensated, again),
            Err(_) => Err("the first one has failed".to_owned()),
        },
    );
    let another = tested.compensate("once-compensated-again", "once").await;
    note(
        "a second compensation of the same call is no error",
        another.map(drop).map_err(|fault| fault_text(&fault)),
    );
    note(
        "a call that comes again after its compensation is refused",
        refused(tested.forward("once").await),
    );
    let early = tested.compensate("early-compensated", "early").await;
    note(
        "a compensation that comes before its call is no error",
        early.map(drop).map_err(|fault| fault_text(&fault)),
    );
    note(
        "the call that comes after it is refused",
        refused(tested.forward("early").await),
    );
    if let Some(probe) = &tested.args.probe {
        let wrong = match tested.probe(probe, "once").await {
            Ok(false) => Ok(()),
            Ok(true) => Err("it says that it is in place".to_owned()),
            Err(why) => Err(why),
        };
        note(
            "a probe of what is compensated says that it is not there",
            wrong,
        );
    }
    let missing = tested
        .call(
            Direction::Forward,
            "no-such-action",
            "none",
            None,
            &json!({}),
        )
        .await;
    note("an error has a code", coded(missing));
    // Clean-up.
    let _ = tested.compensate("at-once-compensated", "at-once").await;
    points
}

fn same(first: &Value, again: Answer) -> Result<(), String> {
    match again {
        Ok(again) if again == *first => Ok(()),
        Ok(again) => Err(format!("first {first}, then {again}")),
        Err(fault) => Err(fault_text(&fault)),
    }
}

fn all_same(answers: &[Answer]) -> Result<(), String> {
    let mut first = None;
    for answer in answers {
        match answer {
            Ok(answer) => same(first.get_or_insert(answer), Ok(answer.clone()))?,
            // A service may answer "try again" while another call with the key is running.
            Err(Fault::Transient { .. }) => {}
            Err(fault) => return Err(fault_text(fault)),
        }
    }
    first
        .map(drop)
        .ok_or_else(|| "none was answered".to_owned())
}

fn refused(answer: Answer) -> Result<(), String> {
    match answer {
        Err(Fault::Permanent { .. }) => Ok(()),
        Err(fault) => Err(fault_text(&fault)),
        Ok(output) => Err(format!("it is answered {output}")),
    }
}

/// Whether a refusal has the form `{"error": {"code", "message"}}`, so that failures can be grouped.
fn coded(answer: Answer) -> Result<(), String> {
    match answer {
        Err(Fault::Permanent { code, .. }) if !code.starts_with("http-") => Ok(()),
        Err(Fault::Permanent { code, .. }) => Err(format!(
            "its answer to an action that it does not have ({code}) is not {{\"error\": {{\"code\", \"message\"}}}}"
        )),
        Err(fault) => Err(fault_text(&fault)),
        Ok(output) => Err(format!(
            "an action that it does not have is answered {output}"
        )),
    }
}
