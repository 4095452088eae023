//! Checks the services of projects that `triad new` creates against the contract.

use std::net::TcpStream;

use crate::cli::{Ran, triad};
use crate::orders::Files;
use crate::poll::until;
use crate::process::Process;

/// The service of a new project, run without `triad dev`.
struct Service {
    process: Process,
    url: String,
}

impl Service {
    async fn start(files: &Files, program: &str, source: &str, port: u16) -> Self {
        let mut command = tokio::process::Command::new(program);
        command
            .arg(source)
            .env("PORT", port.to_string())
            .env("DATA_DIR", files.arg(""));
        let process = Process::start(command);
        until("the service listens", async || {
            TcpStream::connect(("127.0.0.1", port))
                .is_ok()
                .then_some(())
        })
        .await;
        let url = format!("http://127.0.0.1:{port}/hotel");
        Self { process, url }
    }

    async fn call(&self, direction: &str, key: &str, compensates: Option<&str>) -> (u16, String) {
        let mut request = crate::http::client()
            .post(format!("{}/book", self.url))
            .header("idempotency-key", key)
            .header("triad-direction", direction)
            .body(r#"{"city": "Praha", "nights": 2, "guests": 2}"#);
        if let Some(compensates) = compensates {
            request = request.header("triad-compensates", compensates);
        }
        let answer = request.send().await.expect("the service answers");
        let status = answer.status().as_u16();
        (status, answer.text().await.expect("a text"))
    }
}

/// A port on which no process listens.
///
/// # Panics
/// If there is none.
#[must_use]
pub fn free_port() -> u16 {
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    taken.local_addr().expect("an address").port()
}

/// Runs `triad check-service` on the service `hotel` of a project.
///
/// # Panics
/// If it does not end in time.
pub async fn check(url: &str) -> Ran {
    let input = r#"{"city": "Praha", "nights": 2, "guests": 2}"#;
    let arguments = [
        "check-service",
        url,
        "--json",
        "--action",
        "book",
        "--compensation",
        "cancel",
        "--probe",
        "book",
        "--input",
        input,
    ];
    triad(&arguments, &[], b"").await
}

/// Starts a project's service and checks that it honours the contract, and that it still has its keys after a kill.
///
/// # Panics
/// If it violates the contract.
pub async fn honours_the_contract(program: &str, source: &str) {
    let (data, port) = (Files::new(), free_port());
    let mut service = Service::start(&data, program, source, port).await;
    let points = check(&service.url).await.good().json_lines();
    assert_eq!(points.len(), 12, "{points:?}");

    let first = service.call("forward", "kept", None).await;
    assert_eq!(first.0, 200, "{first:?}");
    let early = service
        .call("compensate", "early-compensated", Some("early"))
        .await;
    assert_eq!(early.0, 200, "{early:?}");
    service.process.kill().await;
    let service = Service::start(&data, program, source, port).await;
    assert_eq!(
        service.call("forward", "kept", None).await,
        first,
        "{program}"
    );
    let late = service.call("forward", "early", None).await;
    assert_eq!(late.0, 409, "the tombstone is kept: {late:?}");
    let next = service.call("forward", "another", None).await;
    assert_ne!(next.1, first.1, "another key is another booking");
}
