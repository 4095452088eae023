//! A running `triad dev`, and commands against it.

use std::path::Path;

use serde_json::{Value, json};

use crate::cli::{self, Ran};
use crate::ledger::Ledger;
use crate::poll::until;
use crate::process::{Process, command};

/// `triad dev --json` as a child process. It is killed when this is dropped.
pub struct Dev {
    /// The process.
    pub process: Process,
    /// Address of Kafka.
    pub kafka: String,
    /// URL of DynamoDB; empty if the run uses SQLite.
    pub dynamodb: String,
    /// The data directory, which other commands need; empty if the run uses tables.
    pub data: String,
    /// URL of the reference service.
    pub service: String,
    /// URL of the console, with a slash at its end.
    pub console: String,
}

impl Dev {
    /// Starts `triad dev` with further arguments, and waits for its addresses.
    ///
    /// # Panics
    /// If it ends, or prints something else.
    pub async fn start(args: &[&str]) -> Self {
        let mut command = command("triad");
        command.arg("dev").arg("--json").args(args);
        let mut process = Process::start(command);
        let line = process.first_line().await;
        let started: Value = serde_json::from_str(&line).expect("the first line is JSON");
        assert_eq!(started["event"], "started", "{line}");
        let address = |name: &str| started[name].as_str().expect(name).to_owned();
        let either = |name: &str| started[name].as_str().unwrap_or_default().to_owned();
        Self {
            kafka: address("kafka"),
            dynamodb: either("dynamodb"),
            data: either("triad_data"),
            service: address("service"),
            console: address("console"),
            process,
        }
    }

    /// Starts `triad dev` on tables instead of SQLite, the default.
    ///
    /// # Panics
    /// As for [`start`](Self::start).
    pub async fn on_tables(args: &[&str]) -> Self {
        Self::start(&[&["--store", "dynamodb"], args].concat()).await
    }

    /// The environment variables with which other commands find this run.
    #[must_use]
    pub fn variables(&self) -> Vec<(&'static str, &str)> {
        match self.data.is_empty() {
            true => vec![
                ("TRIAD_BROKERS", self.kafka.as_str()),
                ("TRIAD_DYNAMODB_ENDPOINT", self.dynamodb.as_str()),
            ],
            false => vec![("TRIAD_DATA", self.data.as_str())],
        }
    }

    /// Runs a command against this run.
    pub async fn triad(&self, args: &[&str]) -> Ran {
        self.triad_reading(args, b"").await
    }

    /// Runs a command against this run, with a standard input.
    pub async fn triad_reading(&self, args: &[&str], input: &[u8]) -> Ran {
        cli::triad(args, &self.variables(), input).await
    }

    /// Submits a file of orders.
    ///
    /// # Panics
    /// If the command fails.
    pub async fn submit(&self, file: &Path) {
        let file = file.display().to_string();
        let _ = self.triad(&["submit", &file]).await.good();
    }

    /// All process records, as `triad list --json` prints them.
    ///
    /// # Panics
    /// If they cannot be listed.
    pub async fn orders(&self) -> Vec<Value> {
        let listed = self.triad(&["list", "--json", "--limit", "100000"]).await;
        listed.good().json_lines()
    }

    /// Waits until this many orders exist and all have finished.
    ///
    /// # Panics
    /// If they do not finish in time.
    pub async fn all_finished(&self, count: usize) -> Vec<Value> {
        until(&format!("{count} orders have finished"), async || {
            let orders = self.orders().await;
            let finished = orders.iter().filter(|o| !o["finished_at"].is_null());
            (finished.count() == count && orders.len() == count).then_some(orders)
        })
        .await
    }

    /// The reference service's ledger.
    pub async fn ledger(&self) -> Ledger {
        Ledger::read(&self.service).await
    }

    /// Sets faults of the reference service: a plan for each service named, no faults for the others.
    ///
    /// # Panics
    /// If the service does not accept them.
    pub async fn services(&self, plans: Value) {
        let answer = crate::http::client()
            .put(format!("{}/_faults", self.service))
            .body(json!({ "services": plans }).to_string())
            .send()
            .await
            .expect("the reference service answers");
        assert!(answer.status().is_success(), "{answer:?}");
    }
}
