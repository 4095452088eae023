//! `triad new` and `triad dev` in the created project; `triad check-service`.

use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::extract::State;
use axum::routing::post;
use serde_json::{Value, json};
use triad_tests::cli::{Ran, triad};
use triad_tests::orders::Files;
use triad_tests::poll::until;
use triad_tests::process::{Process, command};
use triad_tests::project::{check, honours_the_contract};

async fn new(dir: &str, language: &str) {
    let ran = triad(&["new", dir, "--language", language], &[], b"").await;
    let said = ran.good().out;
    assert!(
        said.contains("triad dev"),
        "it says what to type next: {said}"
    );
}

/// The variable PATH, which commands in tests otherwise lack; `triad dev` needs it to start services by name.
fn path() -> (&'static str, String) {
    let path = std::env::vars().find(|(name, _)| name == "PATH");
    ("PATH", path.expect("a test has a PATH").1)
}

async fn run_to_the_end(project: &str) -> Ran {
    let (name, path) = path();
    let arguments = ["dev", "--json", "--until-done", "--project", project];
    triad(&arguments, &[(name, &path)], b"").await
}

#[tokio::test]
async fn a_new_project_runs_its_orders_in_python_and_in_node() {
    let files = Files::new();
    for language in ["python", "node"] {
        let dir = files.arg(language);
        new(&dir, language).await;
        let ran = run_to_the_end(&dir).await;
        // The third order is refused, so the exit code is 1.
        let said = ran.ended(1).json_lines();
        // An order's last event may come after the summary, so the summary is searched for.
        let summary = said.iter().find(|line| line["event"] == "summary");
        let summary = &summary.expect("it sums up")["summary"];
        assert_eq!(
            summary["states"],
            json!({"Processed": 2, "Compensated": 1}),
            "{language}: {said:?}"
        );
        assert_eq!(
            summary["ended_badly"][0]["cause"], "permanent/book-hotel/no-room",
            "{language}: {summary}"
        );
        // Of the refused order, the service has booked and then cancelled the flight.
        let env = Path::new(&dir).join(".triad/env");
        assert!(!env.exists(), "its addresses are nobody's any more");
        let address = said[0]["agents"][0]["address"]
            .as_str()
            .expect("an address");
        let host = address
            .trim_start_matches("http://")
            .split('/')
            .next()
            .expect("a host");
        assert!(
            TcpStream::connect(host).is_err(),
            "{language}: the service still listens"
        );
    }
}

#[tokio::test]
async fn a_new_project_passes_its_tests_without_a_question() {
    let files = Files::new();
    for language in ["python", "node", "rust"] {
        let dir = files.arg(language);
        new(&dir, language).await;
        let orders = std::fs::read_to_string(format!("{dir}/orders.jsonl")).expect("its orders");
        assert_eq!(orders.lines().count(), 3);
        let workflow = format!("{dir}/workflow.yaml");
        for order in orders.lines() {
            let ran = triad(&["test", &workflow, "-"], &[], order.as_bytes()).await;
            assert!(ran.good().out.contains("charge-card"), "{order}");
        }
    }
}

#[tokio::test]
async fn a_project_is_written_only_where_nothing_is_and_under_a_name_that_a_workflow_may_have() {
    let files = Files::new();
    let dir = files.arg("taken");
    std::fs::create_dir(&dir).expect("a directory");
    files.write("taken/mine.txt", "mine");
    let ran = triad(&["new", &dir], &[], b"").await.ended(2);
    assert!(ran.err.contains("is not empty"), "{}", ran.err);
    let left: Vec<_> = std::fs::read_dir(&dir).expect("it is there").collect();
    assert_eq!(left.len(), 1, "nothing was written");

    let ran = triad(&["new", &files.arg("My Trip")], &[], b"")
        .await
        .ended(2);
    assert!(
        ran.err.contains("\"My Trip\" is not a valid name"),
        "{}",
        ran.err
    );

    let empty = files.arg("empty");
    std::fs::create_dir(&empty).expect("a directory");
    new(&empty, "python").await;
    let workflow = format!("{empty}/workflow.yaml");
    let ran = triad(
        &["validate", &workflow, "--agents", "flights,hotel,bank"],
        &[],
        b"",
    )
    .await;
    assert!(ran.good().out.contains("empty@"));
    for file in ["README.md", "triad.yaml", "orders.jsonl", "service.py"] {
        let text = std::fs::read_to_string(format!("{empty}/{file}")).expect(file);
        for placeholder in ["trip-template", "start-command", "source-file"] {
            assert!(!text.contains(placeholder), "{placeholder} in {file}");
        }
    }
}

#[tokio::test]
async fn the_services_of_a_project_honour_the_contract_and_keep_their_keys_over_a_kill() {
    let files = Files::new();
    for (language, program, source) in [
        ("python", "python3", "service.py"),
        ("node", "node", "service.mjs"),
    ] {
        let dir = files.arg(language);
        new(&dir, language).await;
        honours_the_contract(program, &format!("{dir}/{source}")).await;
    }
}

/// A service without deduplication: it repeats the effect with each call.
async fn forgetful() -> (String, tokio::task::JoinHandle<()>) {
    let count = Arc::new(AtomicU64::new(0));
    let answer = |State(count): State<Arc<AtomicU64>>| async move {
        json!({"number": count.fetch_add(1, Ordering::Relaxed)}).to_string()
    };
    let app = Router::new()
        .route("/{action}", post(answer))
        .with_state(count);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let serve = tokio::spawn(async move { axum::serve(listener, app).await.expect("it serves") });
    (url, serve)
}

#[tokio::test]
async fn a_service_that_forgets_its_keys_is_told_what_it_does_not_honour() {
    let (url, serve) = forgetful().await;
    let points = check(&url).await.ended(1).json_lines();
    let honoured = |what: &str| {
        let point = points.iter().find(|p| p["point"] == what);
        point.unwrap_or_else(|| panic!("{what} in {points:?}"))["honoured"].clone()
    };
    for what in [
        "the same key with the same request is answered the same",
        "calls with one key at the same time are one call",
        "the same key with another request is refused",
        "the same compensation is answered the same",
        "a call that comes again after its compensation is refused",
        "the call that comes after it is refused",
        "an error has a code",
    ] {
        assert_eq!(honoured(what), Value::Bool(false), "{what}");
    }
    assert_eq!(
        honoured("a compensation reverses the effect"),
        Value::Bool(true)
    );
    serve.abort();

    // Nothing listens on this address, so `check-service` can check nothing.
    let ran = check("http://127.0.0.1:1").await.ended(1);
    assert!(ran.err.contains("nothing can be said"), "{}", ran.err);
}

#[tokio::test]
async fn a_service_that_does_not_start_ends_the_run_before_orders_are_submitted() {
    let files = Files::new();
    let dir = files.arg("broken");
    new(&dir, "python").await;
    std::fs::write(format!("{dir}/service.py"), "import nothing_of_this_name\n").expect("a file");
    let said = "bookings did not start; nothing was submitted";
    let mut ran = run_to_the_end(&dir).await.ended(1);
    // Retried: another program may take the port that `triad dev` chose before the service listens on it.
    for _ in 0..2 {
        if !ran.err.contains(said) {
            ran = run_to_the_end(&dir).await.ended(1);
        }
    }
    assert!(ran.err.contains(said), "{ran:?}");
    assert!(
        ran.err.contains("bookings | ModuleNotFoundError"),
        "{}",
        ran.err
    );
}

#[tokio::test]
async fn a_service_that_does_not_listen_on_its_port_is_named_with_what_to_do() {
    let files = Files::new();
    let dir = files.arg("elsewhere");
    new(&dir, "python").await;
    // Not on a port of its own choice, which may be this one.
    let silent = "import time\ntime.sleep(3600)\n";
    std::fs::write(format!("{dir}/service.py"), silent).expect("a file");
    let (name, path) = path();
    let mut dev = command("triad");
    dev.args(["dev", "--json", "--until-done", "--project", &dir])
        .env(name, &path);
    let mut dev = Process::start(dev);
    let is_about = |event: &Value| event["service"] == "bookings";
    let event = until("the service is named", async || {
        let all = dev.out();
        let mut events = all
            .iter()
            .map(|line| serde_json::from_str(line).expect("JSON"));
        events.find(is_about)
    })
    .await;
    let what = event["what"].as_str().expect("a text");
    for part in [
        "nothing listens on 127.0.0.1:",
        "PORT",
        "services.bookings.port",
    ] {
        assert!(what.contains(part), "{what}");
    }
    dev.interrupt();
    assert_eq!(dev.ended().await.code(), Some(130));
}

#[tokio::test]
async fn one_project_is_run_by_one_dev_at_a_time() {
    let files = Files::new();
    let dir = files.arg("once");
    new(&dir, "python").await;
    let mut first = command("triad");
    let (name, path) = path();
    first
        .args(["dev", "--json", "--project", &dir])
        .env(name, &path);
    let mut first = Process::start(first);
    first.first_line().await;
    let env = Path::new(&dir).join(".triad/env");
    until("the addresses are written", async || {
        env.exists().then_some(())
    })
    .await;
    let ran = run_to_the_end(&dir).await.ended(2);
    assert!(
        ran.err.contains("another triad dev runs this project"),
        "{}",
        ran.err
    );
    first.interrupt();
    assert_eq!(first.ended().await.code(), Some(130));
}
