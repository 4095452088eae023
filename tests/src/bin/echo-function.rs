//! A function whose behaviour its records determine, for tests of the Lambda shell and the Runtime API.

use std::process::exit;
use std::time::Duration;

use triad_lambda::{Invocation, ParsedRecord, RecordOutcome, RunConfig, RunError};

#[tokio::main]
async fn main() -> Result<(), RunError> {
    triad_lambda::init(start()).await?;
    let config = RunConfig {
        safety_margin: Duration::from_secs(1),
        time_to_answer: Duration::ZERO,
        ..RunConfig::default()
    };
    triad_lambda::run(config, handle).await
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test's switch, not configuration"
)]
async fn start() -> Result<(), String> {
    match std::env::var("ECHO_INIT").as_deref() {
        Ok("fail") => Err("told to fail".to_owned()),
        _ => Ok(()),
    }
}

async fn handle(records: Vec<ParsedRecord>, invocation: Invocation) -> Vec<RecordOutcome> {
    let mut outcomes = Vec::with_capacity(records.len());
    for (place, record) in records.iter().enumerate() {
        let outcome = match record {
            ParsedRecord::Malformed(record) => RecordOutcome::Failed(record.cause.to_string()),
            ParsedRecord::Record(record) => match record.value.as_deref() {
                Some(b"fail") => RecordOutcome::Failed("told to fail".to_owned()),
                Some(b"crash") => exit(3),
                Some(b"panic") => panic!("told to panic"),
                Some(b"hang") => std::future::pending().await,
                Some(b"block") => loop {
                    std::thread::park();
                },
                Some(_) | None => RecordOutcome::Done,
            },
        };
        if outcome == RecordOutcome::Done {
            invocation.progress.done(place);
        }
        outcomes.push(outcome);
    }
    outcomes
}
