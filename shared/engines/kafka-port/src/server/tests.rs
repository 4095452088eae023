//! The gate as time passes, on a paused clock.

use std::net::SocketAddr;

use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::task::LocalSet;
use triad_runtime::system::SystemClock;
use triad_sqlite::SqliteStore;
use triad_sqlite::topics::{TopicSettings, Topics};
use triad_workflow::Millis;

use super::connection::Closed;
use super::gate::Shut;
use super::*;
use crate::config::BrokerConfig;
use crate::sasl::{Grant, Sasl, SaslConfig, TokenCheck, TokenRefused};

const LIFE: Duration = Duration::from_secs(60);

struct Minute;

impl TokenCheck for Minute {
    fn check(&self, _: &str) -> Result<Grant, TokenRefused> {
        Ok(Grant {
            name: "ada".to_owned(),
            ends_in: LIFE,
        })
    }
}

/// Topics that are opened on a clock of their own, with what they need.
fn topics() -> (Topics, SqliteStore<SystemClock>, TempDir) {
    let open = || {
        let scratch = tempfile::tempdir().expect("a directory");
        let store = SqliteStore::scratch(scratch.path(), SystemClock, Millis(0)).expect("a store");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("a runtime");
        let topics = runtime.block_on(store.open_topics(TopicSettings::default()));
        (topics.expect("topics"), store, scratch)
    };
    std::thread::spawn(open).join().expect("no panic")
}

/// A client's end of a connection, and the task that serves it.
fn connect(topics: &Topics) -> (DuplexStream, tokio::task::JoinHandle<Result<(), Closed>>) {
    let core = SharedCore::new(BrokerConfig::default(), topics.clone());
    let sasl = Sasl::new(&SaslConfig {
        tokens: Some(Arc::new(Minute)),
        ..SaslConfig::default()
    });
    let sasl = Rc::new(sasl.expect("a check"));
    let client = Client {
        peer: ([127, 0, 0, 1], 1).into(),
        endpoint: SocketAddr::from(([127, 0, 0, 1], 9093)).into(),
    };
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let (reader, writer) = tokio::io::split(theirs);
    let gate = LoginGate::new(sasl, Instant::now() + LOGIN_WITHIN);
    let budget = Rc::new(Semaphore::new(1));
    let served = connection::serve(reader, writer, client, Some(gate), core, budget);
    (ours, tokio::task::spawn_local(served))
}

/// Sends a request without a client id; returns the answer, if there is one.
async fn ask(client: &mut DuplexStream, key: i16, version: i16, body: &[u8]) -> Option<Vec<u8>> {
    let length = u32::try_from(body.len() + 10).expect("small");
    let mut frame = length.to_be_bytes().to_vec();
    for number in [key, version, 0, 7, -1] {
        frame.extend_from_slice(&number.to_be_bytes());
    }
    frame.extend_from_slice(body);
    client.write_all(&frame).await.ok()?;
    let length = client.read_u32().await.ok()?;
    let mut answer = vec![0; usize::try_from(length).expect("a length")];
    client.read_exact(&mut answer).await.ok()?;
    Some(answer)
}

async fn log_in(client: &mut DuplexStream) {
    let handshake = b"\0\x0bOAUTHBEARER";
    assert!(ask(client, 17, 1, handshake).await.is_some());
    let token = b"\0\0\0\x13n,,\x01auth=Bearer t\x01\x01";
    let answer = ask(client, 36, 1, token).await.expect("an answer");
    let life = i64::try_from(LIFE.as_millis()).expect("a minute");
    assert!(answer.ends_with(&life.to_be_bytes()), "{answer:?}");
}

const ALL_TOPICS: &[u8] = &[0xff; 4];

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_log_in_is_closed_in_time() {
    let opened = topics();
    let alone = async {
        let began = Instant::now();
        let (_silent, served) = connect(&opened.0);
        let ended = served.await.expect("an end");
        assert!(matches!(ended, Err(Closed::LoginGate(Shut::TooSlow))));
        assert_eq!(began.elapsed(), LOGIN_WITHIN);

        // A client that keeps sending is closed, too.
        let (mut talking, served) = connect(&opened.0);
        let began = Instant::now();
        while ask(&mut talking, 18, 0, &[]).await.is_some() {
            assert!(began.elapsed() <= LOGIN_WITHIN);
            tokio::time::advance(LOGIN_WITHIN / 8).await;
        }
        let ended = served.await.expect("an end");
        assert!(matches!(ended, Err(Closed::LoginGate(Shut::TooSlow))));
    };
    LocalSet::new().run_until(alone).await;
}

#[tokio::test(start_paused = true)]
async fn a_login_that_ends_is_renewed_on_the_connection_or_ends_it() {
    let opened = topics();
    let alone = async {
        let (mut client, served) = connect(&opened.0);
        log_in(&mut client).await;
        tokio::time::advance(LIFE * 3 / 4).await;
        assert!(ask(&mut client, 3, 1, ALL_TOPICS).await.is_some());
        log_in(&mut client).await;
        tokio::time::advance(LIFE * 3 / 4).await;
        assert!(ask(&mut client, 3, 1, ALL_TOPICS).await.is_some());
        tokio::time::advance(LIFE).await;
        // A late login is accepted if it is the first request after the expiry.
        log_in(&mut client).await;
        assert!(ask(&mut client, 3, 1, ALL_TOPICS).await.is_some());
        tokio::time::advance(LIFE).await;
        assert_eq!(ask(&mut client, 3, 1, ALL_TOPICS).await, None);
        let ended = served.await.expect("an end");
        assert!(matches!(ended, Err(Closed::LoginGate(Shut::Ended(_)))));
    };
    LocalSet::new().run_until(alone).await;
}
