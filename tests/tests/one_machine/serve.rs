//! `triad serve` as a process, with its data directory, HTTP and Kafka.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use triad_runtime::system::SystemClock;
use triad_sqlite::SqliteStore;
use triad_tests::cli::{Ran, triad};
use triad_tests::http::client;
use triad_tests::ledger::Ledger;
use triad_tests::orders::{FULFILMENT, Files, lines, order, orders};
use triad_tests::poll::until;
use triad_tests::process::{Process, command};
use triad_workflow::Millis;

const AGENTS: [&str; 5] = [
    "inventory",
    "payment",
    "warehouse",
    "carrier",
    "notification",
];

/// A reference service, and a directory with a configuration that uses it.
pub(crate) struct Place {
    pub(crate) files: Files,
    pub(crate) service: String,
    _process: Process,
}

impl Place {
    pub(crate) async fn new() -> Self {
        let mut reference = command("triad-reference-service");
        reference.args(["--listen", "127.0.0.1:0"]);
        let mut process = Process::start(reference);
        let line = process.first_line().await;
        let service = line.rsplit(' ').next().expect("an address").to_owned();
        let files = Files::new();
        std::fs::create_dir(files.path("flows")).expect("a directory");
        files.write("flows/order-fulfilment.yaml", FULFILMENT);
        let place = Self {
            files,
            service,
            _process: process,
        };
        place.configure(&json!({}));
        place
    }

    /// Writes the configuration, with the settings in `further`; returns its path.
    pub(crate) fn configure(&self, further: &Value) -> String {
        let mut all = json!({
            "workflows": "flows", "data": "state", "agents": self.agents(),
            "http": "127.0.0.1:0", "kafka": "127.0.0.1:0",
        });
        for (name, value) in further.as_object().expect("an object") {
            all[name] = value.clone();
        }
        self.files.write("triad.yaml", &all.to_string())
    }

    /// The settings of the agents, by name.
    pub(crate) fn agents(&self) -> Value {
        let agent = |name: &str| {
            let address = format!("{}/{name}", self.service);
            (name.to_owned(), json!({ "base_url": address }))
        };
        AGENTS
            .into_iter()
            .map(agent)
            .collect::<serde_json::Map<_, _>>()
            .into()
    }

    pub(crate) fn data(&self) -> String {
        self.files.arg("state")
    }

    pub(crate) async fn serve(&self) -> Serve {
        self.serve_with(&[]).await
    }

    /// Starts `triad serve` with these environment variables.
    pub(crate) async fn serve_with(&self, variables: &[(&str, &Path)]) -> Serve {
        let mut serve = command("triad");
        serve.args(["serve", "--config", &self.files.arg("triad.yaml")]);
        serve.envs(variables.iter().copied());
        let process = Process::start(serve);
        let line = process.err_line("\"serving\"").await;
        let said: Value = serde_json::from_str(&line).expect("the log is JSON");
        let address = |name: &str| said["fields"][name].as_str().expect(name).to_owned();
        Serve {
            http: format!("http://{}", address("http")),
            kafka: address("kafka"),
            process,
        }
    }
}

pub(crate) struct Serve {
    pub(crate) process: Process,
    http: String,
    pub(crate) kafka: String,
}

impl Serve {
    pub(crate) async fn post(&self, path: &str, of_type: &str, body: String) -> (u16, String) {
        let request = client().post(self.url(path)).body(body);
        let answer = request.header("content-type", of_type).send().await;
        let answer = answer.expect("it answers");
        let status = answer.status().as_u16();
        (status, answer.text().await.expect("a body"))
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.http)
    }

    pub(crate) async fn submit(&self, order: &Value) -> (u16, Value) {
        let path = "/v1/orders?wait=30s";
        let (status, body) = self.post(path, "application/json", order.to_string()).await;
        (status, serde_json::from_str(&body).expect("JSON"))
    }

    pub(crate) async fn get(&self, id: &str) -> Option<Value> {
        let answer = client().get(format!("{}/v1/orders/{id}", self.http)).send();
        let answer = answer.await.ok()?;
        let is_there = answer.status().is_success();
        let body = answer.text().await.ok()?;
        is_there.then(|| serde_json::from_str(&body).expect("JSON"))
    }

    pub(crate) async fn finished(&self, id: &str) -> Value {
        until(&format!("{id} has finished"), async || {
            let order = self.get(id).await?;
            (!order["finished_at"].is_null()).then_some(order)
        })
        .await
    }

    /// Stops the process as a service manager does.
    pub(crate) async fn stop(mut self) {
        self.process.interrupt();
        let status = self.process.ended().await;
        assert_eq!(status.code(), Some(0), "{:?}", self.process.err());
    }
}

#[tokio::test]
async fn orders_of_http_and_of_kafka_run_to_their_ends_and_stay_over_a_restart() {
    let place = Place::new().await;
    let serve = place.serve().await;
    let (status, answer) = serve.submit(&order("by-http", 1)).await;
    assert_eq!(
        (status, &answer["order"]["state"]),
        (201, &json!("Processed"))
    );
    let (again, answer) = serve.submit(&order("by-http", 1)).await;
    assert_eq!((again, &answer["result"]), (200, &json!("again")));
    let file = place
        .files
        .write("orders.jsonl", &lines(&[order("by-kafka", 2)]));
    let at = [("TRIAD_BROKERS", serve.kafka.as_str())];
    let _ = triad(&["submit", &file], &at, b"").await.good();
    assert_eq!(serve.finished("by-kafka").await["state"], "Processed");
    serve.stop().await;

    let serve = place.serve().await;
    for id in ["by-http", "by-kafka"] {
        assert_eq!(serve.finished(id).await["state"], "Processed");
    }
    let listed = triad(&["list", "--json", "--data", &place.data()], &[], b"").await;
    assert_eq!(listed.good().summary()["shown"], 2, "operators see them");
    let ledger = Ledger::read(&place.service).await;
    ledger.assert_nothing_twice();
    serve.stop().await;
}

#[tokio::test]
async fn records_and_details_are_kept_for_as_long_as_the_configuration_says() {
    let place = Place::new().await;
    place.configure(&json!({"retention": "1h", "details_retention": "3h"}));
    let serve = place.serve().await;
    let (status, _) = serve.submit(&order("kept", 1)).await;
    assert_eq!(status, 201);
    serve.stop().await;
    let to = place.files.arg("all.jsonl");
    let export = ["export", "--data", &place.data(), "--to", &to];
    let _ = triad(&export, &[], b"").await.good();
    let all = std::fs::read_to_string(&to).expect("a file");
    let mut lines = all.lines().map(|line| {
        let line: Value = serde_json::from_str(line).expect("JSON");
        line["line"].clone()
    });
    let kept = lines.find(|line| line["kind"] == "order");
    let kept = kept.expect("it is exported");
    let ends = |when: &Value| when.as_u64().expect("a moment in seconds");
    let later = ends(&kept["details_expire_s"]) - ends(&kept["record"]["ExpiresAt"]);
    assert_eq!(later, 2 * 3_600);
}

#[tokio::test]
async fn what_a_kill_leaves_goes_on_with_the_next_start() {
    let place = Place::new().await;
    let mut serve = place.serve().await;
    let all = orders("killed", 150);
    let (status, _) = serve
        .post("/v1/orders", "application/x-ndjson", lines(&all))
        .await;
    assert_eq!(status, 200);
    let _ = serve.finished("killed-0").await;
    serve.process.kill().await;

    let serve = place.serve().await;
    for order in &all {
        let id = order["order_id"].as_str().expect("an id");
        assert_eq!(serve.finished(id).await["state"], "Processed");
    }
    let ledger = Ledger::read(&place.service).await;
    ledger.assert_nothing_twice();
    serve.stop().await;
}

#[tokio::test]
async fn one_directory_has_one_process() {
    let place = Place::new().await;
    let serve = place.serve().await;
    let config = place.files.arg("triad.yaml");
    let second = triad(&["serve", "--config", &config], &[], b"")
        .await
        .ended(2);
    assert!(
        second.err.contains("another triad dev or triad serve"),
        "{}",
        second.err
    );
    assert_eq!(serve.submit(&order("still", 1)).await.0, 201);
    serve.stop().await;
}

#[tokio::test]
async fn every_wrong_setting_is_told_at_once() {
    let place = Place::new().await;
    let wrong = json!({"http": "everywhere", "kafka": "0.0.0.0:9092", "partitions": 0, "retention": "soon",
        "sweep_every": "0s"});
    let config = place.configure(&wrong);
    let ran = triad(&["serve", "--config", &config], &[], b"")
        .await
        .ended(2);
    for name in [
        "TRIAD_HTTP",
        "TRIAD_KAFKA",
        "TRIAD_PARTITIONS",
        "TRIAD_SWEEP_EVERY",
        "TRIAD_RETENTION",
    ] {
        assert!(ran.err.contains(name), "{name}: {}", ran.err);
    }
    let config = place.configure(&json!({"partitions": 100}));
    let check = ["serve", "--config", &config, "--check"];
    let ran = triad(&check, &[], b"").await.ended(2);
    assert!(ran.err.contains("at most"), "{}", ran.err);
    for wrong in [
        json!({"http": "0.0.0.0:0"}),
        json!({"tokens": "no-such-file"}),
        json!({"tls": {"certificate": "no-such-file", "key": "no-such-file"}}),
    ] {
        let config = place.configure(&wrong);
        let start = ["serve", "--config", &config];
        let told = triad(&start, &[], b"").await.ended(2).err;
        let check = [&start[..], &["--check"]].concat();
        assert_eq!(triad(&check, &[], b"").await.ended(2).err, told, "{wrong}");
    }
}

#[tokio::test]
async fn the_call_in_the_help_submits_an_order() {
    let place = Place::new().await;
    let serve = place.serve().await;
    place
        .files
        .write("order.json", &order("helped", 1).to_string());
    let help = triad(&["serve", "--help"], &[], b"").await.good().out;
    let call = help.lines().find(|line| line.trim().starts_with("curl"));
    let call = call
        .expect("a call")
        .replace("http://127.0.0.1:7070", &serve.http);
    let mut shell = tokio::process::Command::new("sh");
    shell
        .arg("-c")
        .arg(&call)
        .current_dir(place.files.path("."));
    let ran = shell.output().await.expect("a shell");
    let answer: Value = serde_json::from_slice(&ran.stdout).expect("JSON");
    assert_eq!(answer["order"]["state"], "Processed", "{call}: {answer}");
    serve.stop().await;
}

#[tokio::test]
async fn a_directory_on_which_nobody_runs_is_told_with_what_starts_it() {
    let place = Place::new().await;
    let data = place.data();
    let start = format!(
        "no process runs in this data directory, so its orders do not progress: triad serve --data {data}"
    );
    let status = ["status", "--data", &data];
    for killed in [true, false] {
        let mut serve = place.serve().await;
        let running = triad(&status, &[], b"").await;
        assert!(!running.out.contains("no process runs"), "{}", running.out);
        match killed {
            true => serve.process.kill().await,
            false => serve.stop().await,
        }
        let stopped = triad(&status, &[], b"").await;
        assert!(stopped.out.contains(&start), "{}", stopped.out);
        let json = triad(&[&status[..], &["--json"]].concat(), &[], b"").await;
        assert_eq!(json.json_lines()[0]["is_stopped"], true);
        let act = ["cancel", "1", "--by", "ann", "--why", "w", "--data", &data];
        let act = triad(&act, &[], b"").await.ended(1);
        assert!(act.err.contains("start triad serve"), "{}", act.err);
    }
}

/// Commands to which a data directory is given.
const GIVEN_A_DIRECTORY: [&[&str]; 7] = [
    &["status"],
    &["list"],
    &["get", "1"],
    &["workflows"],
    &["downstreams"],
    &["cancel", "1", "--by", "ann", "--why", "w"],
    &["dead-letters", "list"],
];

#[tokio::test]
async fn a_directory_without_a_store_that_can_be_read_is_told_by_every_command() {
    let files = Files::new();
    for name in ["empty", "foreign", "later"] {
        std::fs::create_dir_all(files.path(name)).expect("a directory");
    }
    files.write("foreign/triad.sqlite", &"not a database ".repeat(1_000));
    let later = files.path("later");
    let store = SqliteStore::open(&later, SystemClock, Millis(1_000));
    drop(store.expect("a store"));
    // The version of the tables is in the header of SQLite's file (https://www.sqlite.org/fileformat.html, 1.3).
    let file = std::fs::File::options()
        .write(true)
        .open(later.join("triad.sqlite"));
    let written = file.and_then(|file| file.write_all_at(&99_u32.to_be_bytes(), 60));
    written.expect("a version");
    let without = ["no store", "no broker", "no process runs"];
    for (dir, said) in [
        ("absent", &without[..]),
        ("empty", &without),
        (
            "foreign",
            &["not a database", "no broker", "no process runs"],
        ),
        (
            "later",
            &["use a later version", "no broker", "no process runs"],
        ),
    ] {
        let copy = files.arg("copy");
        let taken = [["backup", "--to", &copy], ["export", "--to", &copy]];
        let taken = taken.iter().map(|words| &words[..]);
        for command in GIVEN_A_DIRECTORY.into_iter().chain(taken) {
            let path = files.arg(dir);
            let words = [command, &["--data", &path]].concat();
            let ran = triad(&words, &[], b"").await;
            assert_ne!(ran.code, 0, "{words:?}: {ran:?}");
            assert!(
                said.iter().any(|said| ran.err.contains(said)) && ran.err.contains(&path),
                "{words:?}: {ran:?}"
            );
        }
    }
}

#[tokio::test]
async fn an_act_without_a_reason_is_asked_for_the_reason_alone() {
    let place = Place::new().await;
    let act = ["cancel", "1", "--data", &place.data()];
    let told = triad(&act, &[], b"").await.ended(2).err;
    assert!(
        told.contains("--why") && !told.contains("--brokers"),
        "{told}"
    );
}

#[tokio::test]
async fn check_starts_nothing_and_finds_wrong_workflows() {
    let place = Place::new().await;
    let config = place.files.arg("triad.yaml");
    let check = ["serve", "--config", &config, "--check"];
    let sound = triad(&check, &[], b"").await.good();
    assert_eq!(sound.err, "");
    assert!(!place.files.path("state").exists(), "nothing was started");
    let elsewhere = FULFILMENT
        .replace("agent: payment", "agent: bank")
        .replace("workflow: order-fulfilment", "workflow: elsewhere");
    place.files.write("flows/elsewhere.yaml", &elsewhere);
    let warned = triad(&check, &[], b"").await.good();
    assert!(warned.err.contains("the agent bank"), "{}", warned.err);
    place
        .files
        .write("flows/wrong.yaml", "workflow: wrong\nsteps: []\n");
    let ran = triad(&check, &[], b"").await.ended(2);
    assert!(ran.err.contains("wrong.yaml"), "{}", ran.err);
}

#[tokio::test]
async fn changed_workflows_are_published_and_wrong_ones_refused() {
    let place = Place::new().await;
    let serve = place.serve().await;
    let file = "flows/order-fulfilment.yaml";
    let (_, before) = serve.submit(&order("before", 1)).await;
    place.files.write(file, "workflow: [");
    let _ = serve.process.err_line("a workflow is not published").await;
    let (status, same) = serve.submit(&order("same", 2)).await;
    assert_eq!(
        (status, &same["order"]["workflow"]),
        (201, &before["order"]["workflow"])
    );
    place.files.write(
        file,
        &FULFILMENT.replace("attempt_timeout: 5s", "attempt_timeout: 6s"),
    );
    let tries = AtomicUsize::new(0);
    let changed = until("new orders run the new version", async || {
        let id = format!("after-{}", tries.fetch_add(1, Ordering::Relaxed));
        let (_, answer) = serve.submit(&order(&id, 3)).await;
        let workflow = answer["order"]["workflow"].clone();
        (workflow != before["order"]["workflow"]).then_some(workflow)
    });
    assert!(changed.await.is_string());
    place.configure(&json!({"log_retention": "2h"}));
    let told = serve
        .process
        .err_line("the configuration has changed")
        .await;
    assert!(told.contains("WARN"), "{told}");
    serve.stop().await;
}

#[tokio::test]
async fn with_tokens_nobody_else_is_let_in() {
    let place = Place::new().await;
    let made = new_token("shop", "submit").await;
    place.files.write("tokens", &made.out);
    let token = made.err.trim().to_owned();
    place.configure(&json!({"tokens": "tokens"}));
    let serve = place.serve().await;
    assert_eq!(serve.submit(&order("nobody", 1)).await.0, 401);
    let url = format!("{}/v1/orders?wait=30s", serve.http);
    let request = client().post(url).bearer_auth(token);
    let request = request.header("content-type", "application/json");
    let answer = request.body(order("known", 1).to_string()).send().await;
    assert_eq!(answer.expect("it answers").status().as_u16(), 201);
    serve.stop().await;
}

#[tokio::test]
async fn with_tokens_the_kafka_port_asks_for_one_that_operates() {
    let place = Place::new().await;
    let (shop, ann) = (new_token("shop", "submit"), new_token("ann", "operate"));
    let (shop, ann) = (shop.await, ann.await);
    let tokens = format!("{}{}", shop.out, ann.out);
    place.files.write("tokens", &tokens);
    place.configure(&json!({"tokens": "tokens"}));
    let serve = place.serve().await;
    let file = place.files.write("orders.jsonl", &lines(&[order("o", 1)]));
    let submit = async |settings: &[String]| {
        let quickly = "message.timeout.ms=3000".to_owned();
        let settings = settings.iter().chain([&quickly]);
        let args = settings.flat_map(|setting| ["--kafka-setting", setting.as_str()]);
        let args: Vec<&str> = ["submit", &file].into_iter().chain(args).collect();
        triad(&args, &[("TRIAD_BROKERS", serve.kafka.as_str())], b"").await
    };
    let with = |token: &str| {
        let login = [
            "security.protocol=sasl_plaintext",
            "sasl.mechanism=PLAIN",
            "sasl.username=me",
        ];
        let password = format!("sasl.password={}", token.trim());
        let login = login.into_iter().map(str::to_owned);
        login.chain([password]).collect::<Vec<_>>()
    };
    for (whose, settings) in [
        ("nobody", Vec::new()),
        ("an application", with(&shop.err)),
        ("a stranger", with("triad_guess")),
    ] {
        assert_ne!(submit(&settings).await.code, 0, "{whose} was let in");
    }
    let let_in = submit(&with(&ann.err)).await;
    assert_eq!(let_in.code, 0, "{let_in:?}");
    // This command needs only read access to the data directory.
    let list = ["dead-letters", "list", "--data", &place.data()];
    let listed = triad(&list, &[], b"").await;
    assert_eq!(listed.code, 0, "{listed:?}");
    let file = place.files.write("more.jsonl", &lines(&[order("p", 2)]));
    let data = ["submit", &file, "--wait=30s", "--data", &place.data()];
    let sent = triad(&data, &[], b"").await;
    assert_eq!(sent.code, 0, "{sent:?}");
    serve.stop().await;
}

/// Other machines reach the Kafka port with TLS, and log in with the same tokens.
#[tokio::test]
async fn with_tls_the_kafka_port_serves_other_machines() {
    let place = Place::new().await;
    let ann = new_token("ann", "operate").await;
    place.files.write("tokens", &ann.out);
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]);
    let made = made.expect("a certificate");
    let certificate = place.files.write("cert.pem", &made.cert.pem());
    place
        .files
        .write("key.pem", &made.signing_key.serialize_pem());
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let secured = listener.local_addr().expect("an address").to_string();
    drop(listener);
    let tls = json!({"certificate": "cert.pem", "key": "key.pem"});
    let without = place.configure(&json!({"kafka_tls": secured, "tls": tls}));
    let check = ["serve", "--config", &without, "--check"];
    let refused = triad(&check, &[], b"").await.ended(2);
    assert!(refused.err.contains("TRIAD_TOKENS"), "{}", refused.err);
    place.configure(&json!({"kafka_tls": secured, "tls": tls, "tokens": "tokens"}));
    let serve = place.serve().await;
    let file = place.files.write("orders.jsonl", &lines(&[order("o", 1)]));
    let submit = async |password: &str| {
        let settings = [
            "security.protocol=sasl_ssl".to_owned(),
            format!("ssl.ca.location={certificate}"),
            "sasl.mechanism=PLAIN".to_owned(),
            "sasl.username=me".to_owned(),
            format!("sasl.password={password}"),
            "message.timeout.ms=3000".to_owned(),
        ];
        let args = settings
            .iter()
            .flat_map(|setting| ["--kafka-setting", setting]);
        let args: Vec<&str> = ["submit", &file].into_iter().chain(args).collect();
        triad(&args, &[("TRIAD_BROKERS", secured.as_str())], b"").await
    };
    assert_ne!(submit("triad_guess").await.code, 0, "a stranger was let in");
    let let_in = submit(ann.err.trim()).await;
    assert_eq!(let_in.code, 0, "{let_in:?}");
    serve.stop().await;
}

/// Creates a token: standard output has its line for the file of tokens, standard error the token.
async fn new_token(name: &str, role: &str) -> Ran {
    let made = triad(&["token", name, "--role", role], &[], b"").await;
    made.good()
}

#[tokio::test]
async fn the_schema_knows_every_setting_of_the_file() {
    let schema = triad(&["serve", "--schema"], &[], b"").await.good();
    let schema: Value = serde_json::from_str(&schema.out).expect("JSON");
    let known = schema["properties"].as_object().expect("properties");
    for name in [
        "workflows",
        "data",
        "http",
        "tokens",
        "tls",
        "kafka",
        "agents",
        "retention",
    ] {
        assert!(known[name]["description"].is_string(), "{name}");
    }
    assert_eq!(schema["additionalProperties"], false);
    let page = include_str!("../../../docs/reference/settings.md");
    let (page, _) = page
        .split_once("## Functions and workers")
        .expect("its end");
    let dev_alone = ["orders", "answers", "services"];
    for name in known.keys().filter(|name| !dev_alone.contains(&&***name)) {
        let row = format!("\n| `{name}` | ");
        assert!(page.contains(&row), "docs/reference/settings.md: {name}");
    }
}

/// Collects the settings below a part of a schema: their paths and defaults.
fn settings_of(schema: &Value, part: &Value, path: &str, found: &mut Vec<(String, Value)>) {
    let part = match part["$ref"].as_str() {
        Some(name) => &schema["$defs"][name.trim_start_matches("#/$defs/")],
        None => part,
    };
    let Some(properties) = part["properties"].as_object() else {
        return;
    };
    assert_eq!(part["additionalProperties"], false, "{path}");
    for (name, of) in properties {
        let path = format!("{path}{name}");
        let before = found.len();
        settings_of(schema, of, &format!("{path}."), found);
        if found.len() == before {
            found.push((path, of["default"].clone()));
        }
    }
}

#[tokio::test]
async fn the_schema_and_the_reference_know_every_setting_of_an_agent_and_no_other() {
    let schema = triad(&["serve", "--schema"], &[], b"").await.good();
    let schema: Value = serde_json::from_str(&schema.out).expect("JSON");
    let agent = &schema["properties"]["agents"]["additionalProperties"];
    let mut found = Vec::new();
    settings_of(&schema, agent, "", &mut found);
    let page = include_str!("../../../docs/reference/agents.md");
    let rows = page.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| `")?.split(" | ");
        let name = cells.next()?.trim_end_matches('`').to_owned();
        Some((name, cells.next()?.trim_matches('`').to_owned()))
    });
    let rows: std::collections::BTreeMap<String, String> = rows.collect();
    let names: Vec<&String> = found.iter().map(|(name, _)| name).collect();
    assert_eq!(rows.keys().collect::<Vec<_>>(), {
        let mut names = names.clone();
        names.sort();
        names
    });
    assert!(names.len() > 14, "{names:?}");
    // A numeric default must be equal in the schema and in the page.
    for (name, default) in found.iter().filter(|(name, _)| name.contains('.')) {
        let default = match default {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        assert!(
            default == "null" || rows[name] == default,
            "{name}: {default}"
        );
    }
}

/// Status and body of a page, or of an answer of the API.
async fn status(address: &str) -> (u16, String) {
    let answer = client().get(address).send().await.expect("it answers");
    let status = answer.status().as_u16();
    (status, answer.text().await.expect("a body"))
}

#[tokio::test]
async fn operators_look_and_act_beside_the_orders_as_the_configuration_says() {
    let place = Place::new().await;
    let serve = place.serve().await;
    assert_eq!(serve.submit(&order("seen", 1)).await.0, 201);
    let page = format!("{}/console/orders/seen", serve.http);
    let (told, text) = status(&page).await;
    assert!(told == 200 && text.contains("Processed"), "{told}: {text}");
    let (told, listed) = status(&format!("{}/v1/operate/orders", serve.http)).await;
    assert!(told == 200 && listed.contains("\"seen\""), "{listed}");

    // A second, read-only console process is started beside it.
    let mut beside = command("triad");
    beside.args(["console", "--json", "--read-only", "--data", &place.data()]);
    let mut beside = Process::start(beside);
    let line: Value = serde_json::from_str(&beside.first_line().await).expect("JSON");
    let console = line["console"].as_str().expect("an address");
    let (told, text) = status(&format!("{console}orders/seen")).await;
    assert!(told == 200 && text.contains("read-only"), "{told}: {text}");
    beside.interrupt();
    assert_eq!(beside.ended().await.code(), Some(0));
    serve.stop().await;

    place.configure(&json!({"console": "read-only"}));
    let serve = place.serve().await;
    let act = json!({"act": "close", "orders": ["seen"], "why": "w", "by": "ann"});
    let acts = "/v1/operate/acts";
    let (told, _) = serve.post(acts, "application/json", act.to_string()).await;
    assert_eq!(told, 403);
    serve.stop().await;

    place.configure(&json!({"console": false}));
    let serve = place.serve().await;
    assert_eq!(status(&format!("{}/console/", serve.http)).await.0, 404);
    serve.stop().await;
    let header = json!({"console_user_header": "x-user", "http": "0.0.0.0:0", "tokens": "t"});
    let config = place.configure(&header);
    let ran = triad(&["serve", "--config", &config], &[], b"")
        .await
        .ended(2);
    assert!(ran.err.contains("TRIAD_CONSOLE_USER_HEADER"), "{}", ran.err);
}

#[tokio::test]
async fn with_the_address_of_the_pages_an_alert_is_a_line_of_the_log_that_links_to_one() {
    let place = Place::new().await;
    place.configure(&json!({"console_url": "https://triad.example/console/"}));
    let plan = json!({"services": {"notification": {"permanent": 1.0}}});
    let faults = client()
        .put(format!("{}/_faults", place.service))
        .body(plan.to_string());
    assert!(
        faults
            .send()
            .await
            .expect("it answers")
            .status()
            .is_success()
    );
    let serve = place.serve().await;
    let (status, said) = serve.submit(&order("odd:1@x", 1)).await;
    assert!(
        status == 201 && said["order"]["state"] == "Error",
        "{status}: {said}"
    );
    let line = serve.process.err_line("triad.example").await;
    let line: Value = serde_json::from_str(&line).expect("the log is JSON");
    let link = "https://triad.example/console/orders/odd%3A1%40x";
    assert_eq!(line["fields"]["link"], link, "{line}");
    serve.stop().await;
    let config = place.configure(&json!({"console_url": "triad.example",
        "console_trace_url": "https://jaeger.example/"}));
    let ran = triad(&["serve", "--config", &config], &[], b"")
        .await
        .ended(2);
    for name in ["TRIAD_CONSOLE_URL", "TRIAD_CONSOLE_TRACE_URL"] {
        assert!(ran.err.contains(name), "{}", ran.err);
    }
}
