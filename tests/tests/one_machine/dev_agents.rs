//! The agents of `triad dev`: which services they call, which agents other processes serve, and what `dev`, `publish`
//! and a worker report about agents without a process.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use triad_reference_service::{Config, Handle, ReferenceService};
use triad_tests::cli::triad;
use triad_tests::dev::Dev;
use triad_tests::orders::{Files, lines};
use triad_tests::poll::until;
use triad_tests::process::{Process, command};

/// A loan, whose second step uses the output of the first.
const LOAN: &str = "workflow: loan
defaults: { attempt_timeout: 5s, retry: { calls_per_attempt: 2, initial: 50ms, max: 100ms } }
steps:
  - id: score
    agent: credit
    action: score
    input: { customer: \"${details.customer}\" }
    compensation: none
  - id: pay-out
    agent: bank
    action: pay-out
    input: { amount: \"${details.amount}\", rate: \"${steps.score.rate}\" }
    compensation: { action: take-back }
";

/// The same workflow without the use of that output.
fn simple() -> String {
    LOAN.replace(", rate: \"${steps.score.rate}\"", "")
}

fn loan(id: &str) -> Value {
    json!({"order_id": id, "workflow": "loan", "details": {"customer": "ANNA", "amount": 5}})
}

async fn own_service() -> Handle {
    let started = ReferenceService::start(Config::default()).await;
    started.expect("a service of one's own")
}

fn summary(said: &[Value]) -> &Value {
    let last = said.last().expect("it says something");
    assert_eq!(last["event"], "summary", "{last}");
    &last["summary"]
}

#[tokio::test]
async fn agents_call_the_services_that_options_and_variables_name_and_the_others_the_reference_service()
 {
    let files = Files::new();
    let workflow = files.write("loan.yaml", &simple());
    let orders = files.write("orders.jsonl", &lines(&[loan("l-1"), loan("l-2")]));
    let (by_option, by_variable) = (own_service().await, own_service().await);
    let bank = format!("bank=http://{}/mine", by_option.addr());
    // For the agent `bank`, the option's address must take precedence over the variable's.
    let variable = json!({
        "credit": {"base_url": format!("http://{}/credit", by_variable.addr())},
        "bank": {"base_url": "http://127.0.0.1:1/nobody", "concurrency": 1},
    })
    .to_string();
    let arguments = [
        "dev",
        "--json",
        "--until-done",
        "--workflow",
        &workflow,
        "--orders",
        &orders,
        "--agent",
        &bank,
    ];
    let ran = triad(&arguments, &[("TRIAD_AGENTS", &variable)], b"")
        .await
        .good();
    let said = ran.json_lines();
    assert_eq!(summary(&said)["states"], json!({"Processed": 2}));
    assert_eq!(summary(&said)["calls"], 0, "of the reference service");
    let actions = |service: &Handle| {
        let mut actions: Vec<String> = service.ledger().into_iter().map(|k| k.action).collect();
        actions.dedup();
        actions
    };
    assert_eq!(actions(&by_option), ["pay-out"]);
    assert_eq!(actions(&by_variable), ["score"]);
    let agents = said[0]["agents"]
        .as_array()
        .expect("agents are named at the start");
    let bank = agents
        .iter()
        .find(|a| a["agent"] == "bank")
        .expect("bank is one");
    assert_eq!(bank["address"], format!("http://{}/mine", by_option.addr()));
    assert_eq!(bank["workflows"], json!(["loan"]));

    // Without `--json` the output is a table.
    let arguments = [
        "dev",
        "--until-done",
        "--workflow",
        &workflow,
        "--orders",
        &orders,
    ];
    let ran = triad(&arguments, &[], b"").await.good();
    let bank = ran
        .out
        .lines()
        .find(|line| line.trim_start().starts_with("bank"));
    let bank = bank.expect("bank has a row");
    assert!(
        bank.contains("the reference service") && bank.contains("loan"),
        "{bank}"
    );
}

#[tokio::test]
async fn the_reference_service_answers_what_a_file_says_so_that_later_steps_get_their_fields() {
    let files = Files::new();
    let workflow = files.write("loan.yaml", LOAN);
    let orders = files.write("orders.jsonl", &lines(&[loan("l-1")]));
    let arguments = [
        "dev",
        "--json",
        "--until-done",
        "--workflow",
        &workflow,
        "--orders",
        &orders,
    ];
    // Without that output the second step has no input. The first one is done and is not compensated for the shape of
    // its answer: the order stops, and its cause names the expression.
    let said = triad(&arguments, &[], b"").await.ended(1).json_lines();
    let badly = &summary(&said)["ended_badly"];
    assert_eq!(badly[0]["orders"], 1, "{badly}");
    assert_eq!(badly[0]["example"], "l-1", "{badly}");
    let cause = badly[0]["cause"].as_str().expect("a cause");
    assert!(cause.starts_with("definition/pay-out/"), "{cause}");
    assert_eq!(badly[0]["state"], "Error", "{badly}");

    let answers = files.write("answers.yaml", "credit:\n  score: { rate: 3, class: A }\n");
    let with = [&arguments[..], &["--answers", &answers]].concat();
    let said = triad(&with, &[], b"").await.good().json_lines();
    assert_eq!(summary(&said)["states"], json!({"Processed": 1}));
    assert_eq!(summary(&said)["ended_badly"], json!([]));
}

#[tokio::test]
async fn what_contradicts_or_names_nothing_is_exit_code_2_with_the_reason() {
    let files = Files::new();
    let workflow = files.write("loan.yaml", LOAN);
    let answers = files.write(
        "answers.yaml",
        "bnak: { pay-out: {} }\ncredit: { scor: {} }\n",
    );
    let no_answers = files.write("no-answers.yaml", "credit: 7\n");
    let no_project = files.arg("nowhere");
    let cases: [(&[&str], &[&str]); 8] = [
        (&["--agent", "bank"], &["NAME=URL"]),
        (&["--agent", "bank=ftp://h"], &["agent bank", "http"]),
        (
            &["--agent", "bank=http://h", "--external-agent", "bank"],
            &["agent bank", "--external-agent"],
        ),
        (
            &["--answers", &answers],
            &[
                "bnak",
                "there are bank, credit",
                "action scor",
                "there are score",
            ],
        ),
        (&["--answers", &no_answers], &["no-answers.yaml"]),
        (
            &["--answers", &answers, "--external-agent", "credit"],
            &["agent credit", "another process serves it"],
        ),
        (&["--submit"], &["--submit needs orders"]),
        (&["--project", &no_project], &["nowhere"]),
    ];
    for (arguments, parts) in cases {
        let mut all = vec!["dev"];
        if arguments[0] != "--project" {
            all.extend(["--workflow", &workflow]);
        }
        all.extend(arguments);
        let ran = triad(&all, &[], b"").await.ended(2);
        for part in parts {
            assert!(
                ran.err.contains(part),
                "{part} in {:?} of {arguments:?}",
                ran.err
            );
        }
    }
    let variable = [("TRIAD_AGENTS", r#"{"bank": {"url": "http://h"}}"#)];
    let ran = triad(&["dev", "--workflow", &workflow], &variable, b"").await;
    assert!(ran.ended(2).err.contains("TRIAD_AGENTS: agent bank: "));
}

fn worker(dev: &Dev, agents: &Value, functions: &str) -> Process {
    let mut command = command("triad-worker");
    command
        .args(["--functions", functions])
        .env("TRIAD_BROKERS", &dev.kafka)
        .env("TRIAD_DYNAMODB_ENDPOINT", &dev.dynamodb)
        .env("TRIAD_AGENTS", agents.to_string());
    Process::start(command)
}

async fn said(dev: &Dev, part: &str) {
    until(&format!("triad dev says {part:?}"), async || {
        dev.process
            .out()
            .iter()
            .any(|line| line.contains(part))
            .then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_agent_that_is_served_elsewhere_is_left_to_the_worker_beside_it() {
    let files = Files::new();
    let workflow = files.write("loan.yaml", &simple());
    let orders = files.path("orders.jsonl");
    let all: Vec<Value> = (0..20).map(|n| loan(&format!("l-{n}"))).collect();
    std::fs::write(&orders, lines(&all)).expect("a file");
    let dev = Dev::start(&["--workflow", &workflow, "--external-agent", "bank"]).await;
    said(&dev, "no process serves the agent bank yet").await;
    let own = own_service().await;
    let agents = json!({"bank": {"base_url": format!("http://{}/bank", own.addr())}});
    let mut worker = worker(&dev, &agents, "agent");
    let serves = format!(
        "serves an agent agent=bank address=http://{}/bank",
        own.addr()
    );
    worker_says(&worker, &serves).await;
    dev.submit(&orders).await;
    let ended = dev.all_finished(20).await;
    assert!(ended.iter().all(|o| o["state"] == "Processed"), "{ended:?}");
    assert_eq!(own.summary().total.applied, 20);
    let ledger = dev.ledger().await;
    assert!(
        ledger.keys.iter().all(|k| k.service == "credit"),
        "bank was called"
    );
    said(&dev, "the agent bank is served now").await;
    worker.kill().await;
}

/// Waits until a worker's log has a line with this text, apart from colours.
async fn worker_says(worker: &Process, part: &str) {
    until(&format!("the worker says {part:?}"), async || {
        let plain = |line: String| {
            let mut parts = line.split('\u{1b}');
            let first = parts.next().unwrap_or_default().to_owned();
            parts.fold(first, |all, part| {
                all + part.split_once('m').map_or("", |(_, rest)| rest)
            })
        };
        worker
            .err()
            .into_iter()
            .map(plain)
            .any(|line| line.contains(part))
            .then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_worker_that_serves_an_agent_of_dev_too_is_seen_and_said() {
    let files = Files::new();
    let workflow = files.write("loan.yaml", &simple());
    let dev = Dev::on_tables(&["--workflow", &workflow]).await;
    let own = own_service().await;
    let agents = json!({"bank": {"base_url": format!("http://{}/bank", own.addr())}});
    let _worker = worker(&dev, &agents, "agent");
    said(&dev, "another process serves the agent bank, too").await;
    let lines = dev.process.out();
    assert!(
        !lines.iter().any(|line| line.contains("agent credit, too")),
        "{lines:?}"
    );
}

#[tokio::test]
async fn publish_and_a_worker_warn_of_agents_that_nobody_serves() {
    let files = Files::new();
    let served = files.write("loan.yaml", &simple());
    let dev = Dev::on_tables(&["--workflow", &served]).await;
    // No process counts as serving these agents until its consumers have joined their groups.
    until("the agents of dev are served", async || {
        let ran = dev.triad(&["publish", &served]).await.good();
        ran.err.is_empty().then_some(())
    })
    .await;
    let other = simple()
        .replace("workflow: loan", "workflow: gift")
        .replace("bank", "shop");
    let other = files.write("gift.yaml", &other);
    let ran = dev.triad(&["publish", &other]).await.good();
    assert!(
        ran.err.contains("no process serves the agent shop"),
        "{}",
        ran.err
    );
    assert!(
        ran.err.contains("gift") && !ran.err.contains("credit"),
        "{}",
        ran.err
    );

    let worker = worker(&dev, &json!({}), "supervisor");
    worker_says(
        &worker,
        "no process serves an agent that a published workflow names",
    )
    .await;
    let lines = worker.err().join("\n");
    assert!(lines.contains("shop") && !lines.contains("bank"), "{lines}");
}

#[tokio::test]
async fn a_worker_that_would_serve_nothing_does_not_start() {
    let mut command = command("triad-worker");
    command
        .args(["--functions", "agent"])
        .env("TRIAD_BROKERS", "127.0.0.1:1")
        .env("TRIAD_DYNAMODB_ENDPOINT", "http://127.0.0.1:1");
    let mut worker = Process::start(command);
    assert_eq!(worker.ended().await.code(), Some(2));
    let said = worker.err().join("\n");
    assert!(said.contains("TRIAD_AGENTS: names no agent"), "{said}");
}

#[tokio::test]
async fn the_demonstration_of_faults_in_the_readme_shows_faults() {
    let readme = include_str!("../../../README.md");
    let command = readme.lines().find(|line| line.contains("--transient"));
    let command = command.expect("the README has a demonstration of faults");
    let arguments = command.strip_prefix("triad dev");
    let arguments = arguments.expect("it runs triad dev");
    let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let of_root = |word: &str| match word.contains('/') {
        true => root.join(word).display().to_string(),
        false => word.to_owned(),
    };
    let arguments: Vec<String> = arguments.split_whitespace().map(of_root).collect();
    let arguments = arguments.iter().map(String::as_str);
    let arguments: Vec<&str> = ["dev", "--json"].into_iter().chain(arguments).collect();
    let said = triad(&arguments, &[], b"").await.ended(1).json_lines();
    let summary = summary(&said);
    for state in ["Processed", "Compensated", "Error"] {
        assert!(
            summary["states"][state].as_u64() > Some(0),
            "{state} in {summary}"
        );
    }
    assert!(summary["retries"].as_u64() > Some(5), "{summary}");
    assert_eq!(summary["applied_twice"], 0, "{summary}");
    let failures = summary["failures"].to_string();
    for part in ["/declined", "call-timeout"] {
        assert!(failures.contains(part), "{part} in {failures}");
    }
    let badly = summary["ended_badly"].as_array().expect("causes").iter();
    let badly: u64 = badly.filter_map(|b| b["orders"].as_u64()).sum();
    let well = summary["states"]["Processed"].as_u64().expect("some");
    assert_eq!(Some(badly + well), summary["orders"].as_u64(), "{summary}");
}

/// Stands for AWS: a function that returns its event, and a queue. The path and the body of each request are kept.
async fn aws() -> (String, Arc<Mutex<Vec<(String, Value)>>>) {
    let seen: Arc<Mutex<Vec<(String, Value)>>> = Arc::default();
    let kept = seen.clone();
    let answer = move |uri: axum::http::Uri, headers: axum::http::HeaderMap, body: String| {
        let kept = kept.clone();
        async move {
            let signature = headers.get("authorization").and_then(|v| v.to_str().ok());
            let is_signed = signature.is_some_and(|s| s.starts_with("AWS4-HMAC-SHA256 "));
            assert!(is_signed, "{signature:?}");
            let body: Value = serde_json::from_str(&body).expect("JSON");
            kept.lock()
                .unwrap()
                .push((uri.path().to_owned(), body.clone()));
            match uri.path() {
                "/" => json!({"MessageId": "m-1"}).to_string(),
                _ => body.to_string(),
            }
        }
    };
    let routes = axum::Router::new().fallback(answer);
    let address = triad_tests::http::serve(routes).await;
    (format!("http://{address}"), seen)
}

#[tokio::test]
async fn an_agent_may_be_a_function_or_a_queue_at_the_endpoint_of_the_environment() {
    let (endpoint, seen) = aws().await;
    let files = Files::new();
    let workflow = files.write("loan.yaml", &simple());
    let orders = files.write("orders.jsonl", &lines(&[loan("l-1")]));
    let queue = "https://sqs.eu-west-1.amazonaws.com/111122223333/pay-outs";
    let agents = json!({"credit": {"lambda": "score"}, "bank": {"sqs": queue}}).to_string();
    let arguments = [
        "dev",
        "--json",
        "--until-done",
        "--workflow",
        &workflow,
        "--orders",
        &orders,
    ];
    let variables = [
        ("TRIAD_AGENTS", agents.as_str()),
        ("AWS_ENDPOINT_URL", &endpoint),
        ("AWS_REGION", "eu-west-1"),
        ("AWS_ACCESS_KEY_ID", "test"),
        ("AWS_SECRET_ACCESS_KEY", "test"),
    ];
    let ran = triad(&arguments, &variables, b"").await.good();
    let said = ran.json_lines();
    assert_eq!(summary(&said)["states"], json!({"Processed": 1}));
    let places = said[0]["agents"].as_array().expect("agents are named");
    let places = places.iter().map(|agent| agent["address"].as_str());
    let queue_shown = format!("sqs {queue}");
    assert_eq!(
        places.collect::<Vec<_>>(),
        [Some(queue_shown.as_str()), Some("lambda score")]
    );
    let seen = seen.lock().unwrap().clone();
    assert_eq!(
        seen[0],
        (
            "/2015-03-31/functions/score/invocations".to_owned(),
            json!({"customer": "ANNA"})
        )
    );
    let (path, message) = &seen[1];
    assert_eq!(path, "/");
    assert_eq!(message["QueueUrl"], queue);
    assert_eq!(message["MessageBody"], json!({"amount": 5}).to_string());
    let order = &message["MessageAttributes"]["triad-order"]["StringValue"];
    assert_eq!(order, "l-1");
    assert_eq!(seen.len(), 2, "each is called once");
}
