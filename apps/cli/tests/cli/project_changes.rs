//! A project whose file changes while `triad dev` runs, and the processes left after `triad dev` is killed.

use std::net::TcpStream;
use std::path::Path;

use serde_json::Value;
use triad_tests::cli::{Ran, triad};
use triad_tests::orders::Files;
use triad_tests::poll::until;
use triad_tests::process::{Process, command};

/// A project that `triad dev` runs.
struct Running {
    dir: String,
    process: Process,
    /// The data directory, which other commands need.
    data: String,
    /// How many of the process's events the test has read.
    seen: usize,
}

impl Running {
    /// Creates a project in Python with this project file, and runs it.
    async fn start(files: &Files, project: impl FnOnce(String) -> String) -> Self {
        let dir = files.arg("trip");
        let _ = triad(&["new", &dir], &[], b"").await.good();
        let file = format!("{dir}/triad.yaml");
        let text = std::fs::read_to_string(&file).expect("a project has a file");
        std::fs::write(&file, project(text)).expect("it can be written");
        let path = std::env::vars().find(|(name, _)| name == "PATH");
        let mut dev = command("triad");
        dev.args(["dev", "--json", "--project", &dir]).envs(path);
        let mut process = Process::start(dev);
        let line = process.first_line().await;
        let started: Value = serde_json::from_str(&line).expect("the first line is JSON");
        let at = |name: &str| started[name].as_str().expect(name).to_owned();
        Self {
            dir,
            data: at("triad_data"),
            process,
            seen: 1,
        }
    }

    fn file(&self) -> String {
        std::fs::read_to_string(format!("{}/triad.yaml", self.dir)).expect("it is there")
    }

    fn change(&self, text: &str) {
        std::fs::write(format!("{}/triad.yaml", self.dir), text).expect("it can be written");
    }

    /// Reads events until one matches, and returns it.
    async fn event(&mut self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        until(what, async || {
            while let Some(line) = self.process.out().get(self.seen) {
                self.seen += 1;
                let event: Value = serde_json::from_str(line).expect("every line is JSON");
                if fits(&event) {
                    return Some(event);
                }
            }
            None
        })
        .await
    }

    async fn listens(&mut self, service: &str) {
        let is = |e: &Value| e["service"] == service && e["what"] == "listens";
        self.event(&format!("{service} listens"), is).await;
    }

    async fn triad(&self, arguments: &[&str], input: &str) -> Ran {
        triad(arguments, &[("TRIAD_DATA", &self.data)], input.as_bytes()).await
    }

    /// Submits an order and waits for its end; returns the service that carried out the step `bank charge`.
    async fn charged_by(&self, order: &str) -> String {
        let orders = std::fs::read_to_string(format!("{}/orders.jsonl", self.dir));
        let orders = orders.expect("a project has orders");
        let first = orders.lines().next().expect("there is one");
        let line = first.replace("trip-1", order);
        let ran = self.triad(&["submit", "--wait", "-"], &line).await;
        assert_eq!(ran.code, 0, "{ran:?}");
        let call = format!(" | bank charge {order} -> 200");
        let line = self.process.err_line(&call).await;
        line.replace(&call, "")
    }

    /// The port in an agent's address.
    fn port_of(address: &str) -> u16 {
        let host = address.trim_start_matches("http://");
        let port = host.split([':', '/']).nth(1).expect("a port");
        port.parse().expect("a number")
    }
}

#[tokio::test]
async fn what_a_changed_project_file_says_is_done_and_said() {
    let files = Files::new();
    let mut dev = Running::start(&files, |text| text).await;
    dev.listens("bookings").await;
    let before = dev.file();
    assert_eq!(dev.charged_by("before").await, "bookings");

    // The changed file has a second service, and the agent `bank` uses it.
    let second = "services:\n  post: { command: python3 service.py }\n";
    let after = before
        .replace("services:\n", second)
        .replace("bank: { service: bookings }", "bank: { service: post }");
    dev.change(&after);
    let is_changed = |e: &Value| e["event"] == "project-changed";
    let event = dev.event("the change is said", is_changed).await;
    let changes: Vec<&str> = event["changes"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|line| line.as_str().expect("a text"))
        .collect();
    let [service, agent] = changes[..] else {
        panic!("two changes: {changes:?}")
    };
    assert_eq!(service, "added    service post");
    let moved = agent.strip_prefix("changed  agent bank: http://127.0.0.1:");
    let moved = moved.unwrap_or_else(|| panic!("{agent}"));
    assert!(moved.contains("/bank, before http://127.0.0.1:"), "{agent}");
    let port = Running::port_of(agent.split_whitespace().nth(3).expect("an address"));
    dev.listens("post").await;
    assert_eq!(dev.charged_by("after").await, "post");
    let env = std::fs::read_to_string(Path::new(&dev.dir).join(".triad/env"));
    let line = format!("export TRIAD_SERVICE_POST=http://127.0.0.1:{port}\n");
    assert!(env.expect("it is there").contains(&line), "{line}");

    // An invalid file is reported, and the running services stay as they are.
    dev.change(&after.replace("bank: { service: post }", "bank: { service: pots }"));
    let is_wrong = |e: &Value| e["event"] == "project-not-read";
    let event = dev.event("the wrong file is said", is_wrong).await;
    let problems = event["problems"].as_str().expect("a text");
    assert!(
        problems.contains("triad.yaml: agents.bank.service: \"pots\" is not one of services"),
        "{problems}"
    );
    assert_eq!(dev.charged_by("wrong").await, "post");

    // The changed file no longer has the second service, which is stopped.
    dev.change(&before);
    let event = dev.event("the second change is said", is_changed).await;
    let gone = "removed  service post: it is stopped";
    let changes = event["changes"].as_array().expect("a list");
    assert!(changes.iter().any(|line| line == gone), "{changes:?}");
    assert!(
        TcpStream::connect(("127.0.0.1", port)).is_err(),
        "the service still listens"
    );
    assert_eq!(dev.charged_by("again").await, "bookings");
    dev.process.interrupt();
    assert_eq!(dev.process.ended().await.code(), Some(130));
}

#[tokio::test]
async fn a_workflow_that_a_changed_project_file_names_is_published() {
    let files = Files::new();
    let mut dev = Running::start(&files, |text| text).await;
    dev.listens("bookings").await;
    let workflow = std::fs::read_to_string(format!("{}/workflow.yaml", dev.dir));
    let workflow = workflow.expect("a project has a workflow");
    let second = workflow.replace("workflow: trip", "workflow: second-trip");
    std::fs::write(format!("{}/second.yaml", dev.dir), second).expect("a file");
    let before = dev.file();
    dev.change(&before.replace("[workflow.yaml]", "[workflow.yaml, second.yaml]"));
    let is_published = |e: &Value| e["event"] == "published";
    let event = dev.event("it is published", is_published).await;
    assert_eq!(event["workflow"], "second-trip");
    let orders = std::fs::read_to_string(format!("{}/orders.jsonl", dev.dir));
    let orders = orders.expect("a project has orders");
    let first = orders.lines().next().expect("there is one");
    let line = first.replace("\"trip\"", "\"second-trip\"");
    let _ = dev.triad(&["submit", "--wait", "-"], &line).await.good();
}

/// Whether a process runs and is not a zombie.
fn lives(id: i32) -> bool {
    if let Ok(stat) = std::fs::read_to_string(format!("/proc/{id}/stat")) {
        // In `/proc/PID/stat` the state follows the program's name, which is in parentheses and may itself contain
        // spaces and parentheses.
        let state = stat
            .rsplit(") ")
            .next()
            .and_then(|rest| rest.chars().next());
        return !matches!(state, Some('Z' | 'X'));
    }
    let id = rustix::process::Pid::from_raw(id).expect("a process has an id");
    rustix::process::test_kill_process(id).is_ok()
}

#[tokio::test]
async fn nothing_of_a_service_outlives_a_dev_that_is_killed() {
    let files = Files::new();
    // A shell that ignores SIGTERM, with a child that ignores it too.
    let command = "trap '' TERM; sleep 600 & echo $! $$ > ids; python3 service.py & wait; wait";
    let mut dev = Running::start(&files, |text| {
        text.replace(
            "command: python3 service.py",
            &format!("command: \"{command}\""),
        )
    })
    .await;
    dev.listens("bookings").await;
    let ids = std::fs::read_to_string(format!("{}/ids", dev.dir)).expect("it has said them");
    let ids: Vec<i32> = ids
        .split_whitespace()
        .map(|id| id.parse().expect("a number"))
        .collect();
    assert_eq!(ids.len(), 2, "{ids:?}");
    assert!(ids.iter().all(|id| lives(*id)), "{ids:?}");
    dev.process.kill().await;
    until("the service and what it has started are gone", async || {
        (!ids.iter().any(|id| lives(*id))).then_some(())
    })
    .await;
}
