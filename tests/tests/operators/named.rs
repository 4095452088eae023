//! Every error names the thing (table, topic, setting, file, order or address) and the next step.

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use serde_json::{Value, json};
use triad_core::{Order, Timestamp};
use triad_runtime::{NewOrder, StateStore};
use triad_tests::command_case::{case, check};
use triad_tests::dev::Dev;
use triad_tests::engines::{Store, workflow};
use triad_tests::orders::{FULFILMENT, Files, lines, order};
use triad_tests::process::{Process, command};

const WHO: [&str; 4] = ["--by", "ann", "--why", "as agreed"];

/// The environment variables with the addresses of a running `triad dev`.
fn at(dev: &Dev) -> [(&'static str, String); 2] {
    [
        ("TRIAD_BROKERS", dev.kafka.clone()),
        ("TRIAD_DYNAMODB_ENDPOINT", dev.dynamodb.clone()),
    ]
}

fn act<'a>(words: &[&'a str]) -> Vec<&'a str> {
    [words, &WHO[..]].concat()
}

#[tokio::test]
async fn a_table_that_is_missing() {
    let (dev, files) = (Dev::on_tables(&[]).await, Files::new());
    let workflow = files.write("w.yaml", FULFILMENT);
    let prefixed = |words: &[&str], table: &str| {
        let words = [words, &["--prefix", "other-"]].concat();
        case("a missing table", &words, 1, &[table, "`triad init`"])
    };
    let (state, workflows) = ("table other-order-state:", "table other-workflows:");
    let cases = vec![
        prefixed(&["list"], state),
        prefixed(&["list", "--state", "Error"], state),
        prefixed(&["list", "--by-cause"], state),
        prefixed(&["status"], state),
        prefixed(&["get", "1"], state),
        prefixed(&["watch", "1"], state),
        prefixed(&act(&["cancel", "1"]), state),
        prefixed(&["publish", &workflow], workflows),
        prefixed(&["publish", &workflow], "order-fulfilment@"),
        prefixed(&["workflows"], workflows),
        prefixed(&["downstreams"], workflows),
        prefixed(&act(&["pause", "--downstream", "payment"]), workflows),
        prefixed(&act(&["migrate", "1", "--to-workflow", "w"]), workflows),
    ];
    check(cases, &at(&dev)).await;
}

#[tokio::test]
async fn a_topic_that_is_missing() {
    let files = Files::new();
    let orders = files.write("orders.jsonl", &lines(&[order("1", 1)]));
    let mut broker = command("triad-broker");
    broker.arg("--no-auto-create");
    let mut broker = Process::start(broker);
    let brokers = broker.first_line().await;
    let on = |words: &[&str], topic: &str| {
        let words = [words, &["--brokers", &brokers]].concat();
        let topic = format!("there is no topic {topic} ");
        let says = [&*topic, &*brokers, "`triad init`"];
        case("a missing topic", &words, 1, &says)
    };
    let cases = vec![
        on(&["submit", &orders], "orders"),
        on(&["submit", &orders, "--priority", "high"], "orders.high"),
        on(&["dead-letters", "list"], "dead-letter"),
        on(&["dead-letters", "show", "orders/0/0"], "dead-letter"),
        on(
            &act(&["dead-letters", "replay", "orders/0/0"]),
            "dead-letter",
        ),
        on(
            &act(&["dead-letters", "dismiss", "orders/0/0"]),
            "dead-letter",
        ),
    ];
    check(cases, &[]).await;
}

#[tokio::test]
async fn a_setting_with_a_wrong_value() {
    let (dev, files) = (Dev::on_tables(&[]).await, Files::new());
    let workflow = files.write("w.yaml", FULFILMENT);
    let settings = |words: &[&str], says: &[&str]| case("a wrong setting", words, 2, says);
    let letters = ["dead-letters", "list"];
    let cases = vec![
        // Wrong values of options.
        settings(&["list", "--limit", "many"], &["--limit", "many"]),
        settings(
            &["list", "--older-than", "soon"],
            &["--older-than", "soon", "10s"],
        ),
        settings(
            &["list", "--state", "Done"],
            &["--state", "Done", "Processed"],
        ),
        settings(&["list", "--skew", "soon"], &["--skew: ", "soon", "10s"]).not(&["TRIAD_SKEW"]),
        settings(&["list", "--retention", "9"], &["--retention: ", "\"9\""]),
        settings(
            &["list", "--dynamodb", "localhost:1"],
            &["localhost:1", "(from --dynamodb)", "http://"],
        ),
        settings(&["watch", "1", "--timeout", "x"], &["--timeout", "\"x\""]),
        settings(
            &["init", "--agents", "a", "--partitions", "0"],
            &["--partitions", "1..=1000"],
        ),
        settings(&["init", "--agents", "A B"], &["--agents: ", "\"A B\""]),
        settings(
            &["init", "--agents", "a", "--reply-topic", "x"],
            &["--reply-topic", "\"x\"", "reply.<app>"],
        ),
        settings(
            &[&letters[..], &["--kafka-setting", "x"]].concat(),
            &["--kafka-setting", "NAME=VALUE"],
        ),
        settings(
            &[&letters[..], &["--kafka-auth", "scram"]].concat(),
            &["--kafka-secret or TRIAD_KAFKA_SECRET: is missing"],
        ),
        settings(
            &[&letters[..], &["--kafka-auth", "magic"]].concat(),
            &["--kafka-auth", "magic", "msk-iam"],
        )
        .not(&["TRIAD_KAFKA_AUTH"]),
        settings(
            &["dev", "--agent", "bank"],
            &["--agent", "bank", "NAME=URL"],
        ),
        settings(
            &["dev", "--agent", "bank=localhost:1"],
            &["bank", "http or https URL"],
        ),
        settings(
            &["dev", "--sweep-every", "soon"],
            &["--sweep-every", "soon"],
        ),
        settings(
            &["dev", "--reply-topic", "x"],
            &["--reply-topic", "\"x\"", "reply.<app>"],
        ),
        settings(
            &["dev", "--transient", "90", "--stall", "20"],
            &["--transient", "--stall"],
        ),
        settings(
            &["validate", &workflow, "--sweep-every", "x"],
            &["--sweep-every", "\"x\""],
        ),
        settings(
            &act(&["resolve", "1", "--step", "a", "--applied", "--output", "{"]),
            &["--output: ", "\"{\"", "not JSON"],
        ),
        settings(
            &[
                "check-service",
                "localhost:1",
                "--action",
                "a",
                "--compensation",
                "b",
            ],
            &["URL", "http://HOST:PORT"],
        ),
        // Wrong values of environment variables: the error must name the variable, and not the option, which was not
        // typed.
        settings(&["list"], &["TRIAD_SKEW: ", "soon"])
            .with("TRIAD_SKEW", "soon")
            .not(&["--skew"]),
        settings(&["list"], &["TRIAD_RETENTION: ", "longer"]).with("TRIAD_RETENTION", "9years"),
        settings(
            &["get", "1"],
            &["nowhere", "(from TRIAD_DYNAMODB_ENDPOINT)"],
        )
        .with("TRIAD_DYNAMODB_ENDPOINT", "nowhere"),
        settings(&letters, &["TRIAD_KAFKA_AUTH", "magic", "msk-iam"])
            .with("TRIAD_KAFKA_AUTH", "magic"),
        settings(&["dev"], &["TRIAD_AGENTS: ", "line 1, column 8"])
            .with("TRIAD_AGENTS", "{\"bank\":"),
        settings(
            &["dev"],
            &["TRIAD_AGENTS: agent bank: base_url: is missing"],
        )
        .with("TRIAD_AGENTS", "{\"bank\": {}}"),
        settings(&["dev"], &["TRIAD_AGENTS: agent bank: concurrency: "]).with(
            "TRIAD_AGENTS",
            "{\"bank\": {\"base_url\": \"http://h\", \"concurrency\": \"x\"}}",
        ),
        settings(&["list"], &["nobody", "contexts.json"]).with("TRIAD_CONTEXT", "nobody"),
    ];
    let contexts = ("TRIAD_CONTEXTS", files.arg("contexts.json"));
    check(cases, &[&at(&dev)[..], &[contexts]].concat()).await;
    // Only librdkafka itself can check its settings.
    let unknown = ["dead-letters", "list", "--kafka-setting", "no.such=1"];
    let says = ["--kafka-setting", "no.such: there is no such setting"];
    let unknown = case("a setting that there is not", &unknown, 1, &says);
    unknown.check(&at(&dev)).await;
}

#[tokio::test]
async fn a_wrong_setting_of_a_worker() {
    let settings = [
        ("TRIAD_SKEW", "soon"),
        ("TRIAD_AGENTS", "{"),
        ("TRIAD_MAX_IN_FLIGHT", "none"),
        ("TRIAD_MAX_IN_FLIGHT_PER_WORKFLOW", "7"),
        ("TRIAD_ADMISSION", "perhaps"),
        ("TRIAD_KAFKA_SETTINGS", "[]"),
        ("TRIAD_KAFKA_AUTH", "magic"),
        ("TRIAD_DYNAMODB_ENDPOINT", "localhost"),
        ("TRIAD_REPLY_TOPICS", "orders"),
        ("TRIAD_AGENT_CONCURRENCY", "0"),
        ("TRIAD_BACKLOG_WAIT", "a while"),
        ("TRIAD_ALERTS_SNS_TOPIC", "alerts"),
        ("TRIAD_BATCH_RESPONSES", "some"),
    ];
    let mut worker = command("triad-worker");
    worker
        .envs(settings)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let ended = worker.output().await.expect("the worker can be started");
    assert_eq!(ended.status.code(), Some(2), "{ended:?}");
    let said = String::from_utf8_lossy(&ended.stderr);
    for (name, _) in settings.iter().chain(&[("TRIAD_BROKERS", "")]) {
        let line = said.lines().find(|line| {
            line.trim_start()
                .strip_prefix(name)
                .is_some_and(|rest| rest.starts_with(": "))
        });
        assert!(line.is_some(), "{name} has a line of its own: {said}");
    }
}

/// The commands that read a file; for each, the words before and after the file's name.
fn readers<'a>(workflow: &'a str, order: &'a str) -> Vec<(Vec<&'a str>, Vec<&'a str>)> {
    vec![
        (vec!["submit"], vec![]),
        (vec!["validate"], vec![]),
        (vec!["publish"], vec![]),
        (vec!["test"], vec![order]),
        (vec!["test", workflow], vec![]),
        (vec!["test", workflow, order, "--outputs"], vec![]),
        (vec!["dev", "--until-done", "--orders"], vec![]),
        (vec!["dev", "--workflow"], vec![]),
        (vec!["dev", "--answers"], vec![]),
        (
            vec!["dead-letters", "replay", "orders/0/0", "--value"],
            WHO.to_vec(),
        ),
    ]
}

/// The path of a file that cannot be read, and the error. If the user of the tests may read everything, a path that
/// gives another error.
fn unreadable(files: &Files) -> (String, &'static str) {
    use std::os::unix::fs::PermissionsExt;
    let path = files.write("secret", "secret");
    let none = std::fs::Permissions::from_mode(0o000);
    std::fs::set_permissions(&path, none).expect("the mode can be set");
    match std::fs::read(&path) {
        Err(_) => (path, "you may not read it"),
        Ok(_) => ("/proc/self/mem".to_owned(), "cannot be read: "),
    }
}

#[tokio::test]
async fn a_file_that_is_missing_or_a_directory_or_unreadable_or_no_text() {
    let (dev, files) = (Dev::on_tables(&[]).await, Files::new());
    let workflow = files.write("w.yaml", FULFILMENT);
    let an_order = files.write("order.json", &order("1", 1).to_string());
    std::fs::create_dir(files.path("folder")).expect("a directory");
    std::fs::write(files.path("latin1"), b"a: b\nc: caf\xe9\n").expect("a file");
    let (unreadable, why) = unreadable(&files);
    let wrong = [
        ("a missing file", files.arg("none"), "there is no such file"),
        ("a directory", files.arg("folder"), "is a directory"),
        (
            "a file that is no text",
            files.arg("latin1"),
            "is not UTF-8 in line 2",
        ),
        ("an unreadable file", unreadable, why),
    ];
    let mut cases = Vec::new();
    for (situation, file, why) in &wrong {
        let says = format!("{file}: {why}");
        for (before, behind) in readers(&workflow, &an_order) {
            // Skipped, because the value of a dead letter may be arbitrary bytes.
            if before.contains(&"--value") && file.ends_with("latin1") {
                continue;
            }
            let words = [&before[..], &[file.as_str()], &behind].concat();
            cases.push(case(situation, &words, 2, &[&says]));
        }
        let at_file = format!("@{file}");
        let resolve = act(&[
            "resolve",
            "1",
            "--step",
            "a",
            "--applied",
            "--output",
            &at_file,
        ]);
        let says = format!("--output: {says}");
        cases.push(case(situation, &resolve, 2, &[&says]));
    }
    let none = files.arg("none");
    let says = ["--from-terraform", &*none, "there is no such file"];
    cases.push(case(
        "a missing file",
        &["list", "--from-terraform", &none],
        2,
        &says,
    ));
    let says = ["there is no triad.yaml", "triad new"];
    let folder = files.arg("folder");
    cases.push(case(
        "a missing file",
        &["dev", "--project", &folder],
        2,
        &says,
    ));
    let says = ["no-such.jsonl: there is no such file in "];
    cases.push(case(
        "a missing file",
        &["submit", "no-such.jsonl"],
        2,
        &says,
    ));
    check(cases, &at(&dev)).await;
}

/// Tables with the order `bad`, whose record is unreadable.
async fn damaged() -> Store {
    let engine = Store::start().await;
    let yaml = "workflow: w\nsteps: [{id: a, agent: x, action: go, compensation: none}]";
    let workflow = workflow(yaml);
    let accepted = json!({"order_id": "bad", "workflow": format!("w@{}", workflow.hash),
        "submitted_at": 1_000, "due": 2_000, "details": {}});
    let accepted = serde_json::from_value(accepted).expect("an accepted order");
    let new = NewOrder {
        order: Order::new(&accepted, &workflow, Timestamp(2_000)),
        details: Arc::new(Value::Null),
        digest: "d".into(),
        messages: Vec::new(),
    };
    assert!(engine.store().create(vec![new]).await[0].is_ok());
    engine.damage("bad", "Steps", "[").await;
    engine
}

#[tokio::test]
async fn an_order_that_is_unknown_or_cannot_be_read() {
    let (dev, engine) = (Dev::on_tables(&[]).await, damaged().await);
    let unknown = |words: &[&str]| {
        let says = [
            "there is no order 4711",
            "triad list",
            "triad dead-letters list",
        ];
        case("an unknown order", words, 1, &says)
    };
    let cases = vec![
        unknown(&["get", "4711"]),
        unknown(&["get", "4711", "--json"]),
        unknown(&["watch", "4711"]),
        case(
            "an unknown order",
            &act(&["cancel", "4711"]),
            1,
            &["4711", "there is no such order"],
        ),
        case(
            "text that is no order's id",
            &["get", ""],
            2,
            &["\"\" is not an order id"],
        ),
    ];
    check(cases, &at(&dev)).await;
    let tables = [
        ("TRIAD_BROKERS", dev.kafka.clone()),
        ("TRIAD_DYNAMODB_ENDPOINT", engine.url()),
    ];
    let unreadable = |words: &[&str]| {
        let says = [
            "the record of order bad cannot be read",
            "table order-state",
            "Steps",
            "newer Triad",
        ];
        case("a record that cannot be read", words, 1, &says)
    };
    let cases = vec![
        unreadable(&["get", "bad"]),
        unreadable(&["watch", "bad"]),
        case(
            "a record that cannot be read",
            &act(&["cancel", "bad"]),
            1,
            &["bad", "table order-state", "Steps"],
        ),
        case(
            "a record that cannot be read",
            &["list"],
            0,
            &["order bad cannot be read", "Steps"],
        ),
    ];
    check(cases, &tables).await;
}

#[tokio::test]
async fn a_workflow_or_an_agent_or_a_step_or_a_letter_that_is_unknown() {
    let dev = Dev::on_tables(&[]).await;
    let unknown = |words: &[&str], says: &[&str]| case("an unknown name", &act(words), 2, says);
    let cases = vec![
        unknown(
            &["migrate", "1", "--to-workflow", "nope"],
            &["there is no workflow nope", "triad workflows"],
        ),
        unknown(
            &[
                "migrate",
                "1",
                "--to-workflow",
                "order-fulfilment",
                "--to-version",
                "77",
            ],
            &["order-fulfilment", "77", "triad workflows"],
        ),
        unknown(&["pause", "--downstream", "nope"], &["\"nope\"", "payment"]),
        unknown(
            &["downstreams", "--release", "nope"],
            &["\"nope\"", "payment"],
        ),
        unknown(
            &["pause", "--step-type", "order-fulfilment/nope"],
            &["order-fulfilment/nope"],
        ),
        unknown(
            &["pause", "--step-type", "nope"],
            &["--step-type", "\"nope\"", "WORKFLOW/STEP"],
        ),
        unknown(
            &["pause", "--downstream", "payment", "--state", "Error"],
            &["--state", "--downstream"],
        ),
        unknown(
            &["cancel", "1", "--state", "Error"],
            &["--state", "not both"],
        ),
        case(
            "an unknown letter",
            &["dead-letters", "show", "orders/0/99"],
            1,
            &["orders/0/99", "triad dead-letters list"],
        ),
        case(
            "text that is no letter's id",
            &["dead-letters", "show", "orders"],
            2,
            &["\"orders\"", "TOPIC/PARTITION/OFFSET"],
        ),
    ];
    check(cases, &at(&dev)).await;
}

/// A directory in which nobody can create files, not even root.
fn read_only(files: &Files) -> String {
    use std::os::unix::fs::PermissionsExt;
    let path = files.path("read-only");
    std::fs::create_dir(&path).expect("a directory");
    let mode = std::fs::Permissions::from_mode(0o555);
    std::fs::set_permissions(&path, mode).expect("the mode can be set");
    match std::fs::write(path.join("probe"), "") {
        Err(_) => path.display().to_string(),
        Ok(()) => {
            let system = Path::new("/sys");
            assert!(system.is_dir(), "neither a user with limits nor Linux");
            system.display().to_string()
        }
    }
}

#[tokio::test]
async fn a_data_directory_or_a_port_that_cannot_be_had() {
    let files = Files::new();
    let (data, read_only) = (files.arg("data"), read_only(&files));
    let below = files.write("a-file", "");
    let below = format!("{below}/data");
    let first = Dev::on_tables(&["--data", &data]).await;
    let port = |address: &str| {
        let port = address.rsplit(':').next().expect("a port");
        port.to_owned()
    };
    let taken = [
        ("--kafka-port", port(&first.kafka)),
        ("--dynamodb-port", port(&first.dynamodb)),
        ("--service-port", port(&first.service)),
    ];
    let mut cases = vec![
        case(
            "a data directory that is in use",
            &["dev", "--data", &data],
            2,
            &["--data", &data, "another triad dev", "stop that one"],
        ),
        case(
            "a data directory that cannot be written to",
            &["dev", "--data", &read_only],
            2,
            &[
                "--data",
                &read_only,
                "cannot be written",
                "name a directory",
            ],
        ),
        case(
            "a data directory that cannot be made",
            &["dev", "--data", &below],
            2,
            &["--data", &below, "cannot be made", "name a directory"],
        ),
    ];
    for (option, port) in &taken {
        let says = [*option, &*format!("127.0.0.1:{port}"), "free port"];
        cases.push(case("a port in use", &["dev", option, port], 2, &says));
    }
    let project = format!(
        "workflows: [w.yaml]\nservices: {{ shop: {{ command: 'true', port: {} }} }}\n",
        taken[0].1
    );
    files.write("w.yaml", FULFILMENT);
    let project = files.write("triad.yaml", &project);
    let address = format!("127.0.0.1:{}", taken[0].1);
    let says = ["triad.yaml: services.shop.port: ", &address, "another port"];
    cases.push(case(
        "a port in use",
        &["dev", "--project", &project],
        2,
        &says,
    ));
    check(cases, &[]).await;
}
