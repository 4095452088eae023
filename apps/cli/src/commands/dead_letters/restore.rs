//! `triad dead-letters restore`: sends records that Lambda gave up to their topics again.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};
use triad_core::{Envelope, topics};
use triad_kafka::KafkaConfig;
use triad_lambda::{ParsedRecord, parse_event};
use triad_runtime::Bus as _;

use crate::connection::KafkaAloneArgs;
use crate::output::{self, Usage};
use crate::user_files;

/// Deepest folder below a given one.
const MAX_DEPTH: usize = 8;

/// Send records that Lambda gave up to their topics again
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  aws s3 cp --recursive s3://shop-failed-records-111122223333-eu-west-1/aws/lambda/ kept
  triad dead-letters restore kept --from-terraform my-shop --dry-run
  triad dead-letters restore kept --from-terraform my-shop

The files are the objects of the bucket of failed records. What was done meanwhile is not done twice: an order that exists is
recognised, and a request or a reply of an earlier attempt changes nothing.")]
pub struct RestoreArgs {
    /// Files, or folders with files
    #[arg(required = true, value_name = "FILE|DIR")]
    files: Vec<PathBuf>,
    /// Say what would be sent and send nothing
    #[arg(long)]
    dry_run: bool,
    /// Print a JSON line as the summary
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    kafka: KafkaAloneArgs,
}

impl RestoreArgs {
    /// Whether nothing is sent.
    pub fn is_dry(&self) -> bool {
        self.dry_run
    }
}

/// Runs `triad dead-letters restore`. The exit code is always 0.
///
/// # Errors
/// [`Usage`] naming every file that is not an object of the bucket, and then nothing is sent; if Kafka refuses a record,
/// and then those before it are sent.
pub async fn run(args: RestoreArgs) -> Result<ExitCode> {
    let kafka = args.kafka.reached().await?;
    let read = |file: &Path| {
        let text = user_files::text(file).map_err(|Usage(why)| why)?;
        read(&kafka, &text).map_err(|why| format!("{}: {why}", file.display()))
    };
    // Read twice: first all are checked, and only one is in memory at a time.
    let files = files(&args.files)?;
    let (mut records, mut wrong) = (0, Vec::new());
    for file in &files {
        match read(file) {
            Ok(messages) => records += messages.len(),
            Err(why) => wrong.push(why),
        }
    }
    if !wrong.is_empty() {
        wrong.push("nothing was sent".to_owned());
        return Err(Usage(wrong.join("\n")).into());
    }
    if !args.dry_run {
        let bus = triad_kafka::KafkaBus::new(&kafka)?;
        for file in &files {
            let sent = bus.publish(read(file).map_err(Usage)?).await;
            sent.into_iter().collect::<Result<Vec<()>, _>>()?;
        }
    }
    match (args.json, args.dry_run) {
        (true, is_dry) => output::summary(records, false, None, json!({"dry_run": is_dry}))?,
        (false, true) => println!("{records} records would be sent to their topics"),
        (false, false) => println!("{records} records were sent to their topics"),
    }
    Ok(ExitCode::SUCCESS)
}

/// The given files, and those of the given folders, in order.
fn files(given: &[PathBuf]) -> Result<Vec<PathBuf>, Usage> {
    fn add(path: &Path, depth: usize, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
        if !path.is_dir() || depth > MAX_DEPTH {
            found.push(path.to_owned());
            return Ok(());
        }
        let inside = std::fs::read_dir(path)?;
        let mut inside = inside
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<std::io::Result<Vec<_>>>()?;
        inside.sort();
        inside.iter().try_for_each(|one| add(one, depth + 1, found))
    }
    let mut found = Vec::new();
    for path in given {
        add(path, 0, &mut found)
            .map_err(|e| Usage(format!("{}: {}", path.display(), user_files::why(path, &e))))?;
    }
    Ok(found)
}

/// The messages of one object of the bucket: its `payload` is the event that the function got. The error is for people.
fn read(kafka: &KafkaConfig, text: &str) -> Result<Vec<Envelope>, String> {
    let object: Value = serde_json::from_str(text)
        .map_err(|e| format!("is not JSON, so no object of the bucket of failed records: {e}"))?;
    let event = match &object["payload"] {
        Value::String(event) => event.clone(),
        Value::Object(event) => Value::Object(event.clone()).to_string(),
        _ => {
            return Err(
                "is no object of the bucket of failed records: it has no `payload`".to_owned(),
            );
        }
    };
    let records = parse_event(event.as_bytes()).map_err(|e| e.to_string())?;
    let message = |record: ParsedRecord| match record {
        ParsedRecord::Malformed(bad) => Err(format!(
            "the record {}/{}/{} cannot be read: {}",
            bad.topic, bad.partition, bad.offset, bad.cause
        )),
        ParsedRecord::Record(record) => {
            let topic = kafka.topic(record.topic);
            match topics::is_input(&topic) || topic == topics::ALERTS {
                true => Ok(Envelope {
                    topic,
                    key: record.key,
                    value: record.value.unwrap_or_default(),
                    headers: record.headers,
                    trace: None,
                }),
                false => Err(format!(
                    "a record is of the topic {topic}, which this installation does not read: is --prefix right?"
                )),
            }
        }
    };
    records.into_iter().map(message).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_of_the_bucket_gives_its_records_back() {
        let kafka = KafkaConfig {
            prefix: "shop-".to_owned(),
            ..KafkaConfig::new("127.0.0.1:1")
        };
        let event = |topic: &str| {
            let record = json!({"topic": topic, "partition": 0, "offset": 7, "key": "aw==", "value": "e30=",
                "headers": [{"a": [98]}]});
            json!({"eventSource": "aws:kafka", "records": {format!("{topic}-0"): [record]}})
        };
        let orders = event("shop-orders");
        for payload in [orders.clone(), orders.to_string().into()] {
            let text = json!({"requestContext": {}, "payload": payload}).to_string();
            let read = read(&kafka, &text).expect("records");
            assert_eq!(read.len(), 1);
            assert_eq!((&*read[0].topic, &*read[0].value), ("orders", &b"{}"[..]));
            assert_eq!(read[0].key.as_deref(), Some(&b"k"[..]));
            assert_eq!(read[0].headers, [("a".to_owned(), Some(b"b".to_vec()))]);
        }
        for (text, wanted) in [
            ("no".to_owned(), "is not JSON"),
            ("{}".to_owned(), "no `payload`"),
            (
                json!({"payload": event("other")}).to_string(),
                "is --prefix right?",
            ),
        ] {
            let why = read(&kafka, &text).expect_err(wanted);
            assert!(why.contains(wanted), "{why}");
        }
    }
}
