//! Access control by tokens.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use tempfile::TempDir;
use triad_console::tokens::TokensError;
use triad_ingress::{NewToken, OrderEndWaiters, Role, Server, Settings, StartError};
use triad_runtime::submission::Submission;
use triad_runtime::system::SystemClock;

use crate::common::client::Said;
use crate::common::{Made, WITHIN, World, order};

/// A file of tokens in a temporary directory.
struct File {
    dir: TempDir,
}

impl File {
    fn of(tokens: &[&NewToken]) -> Self {
        let file = Self {
            dir: tempfile::tempdir().unwrap(),
        };
        file.write(
            &tokens
                .iter()
                .map(|t| format!("{}\n", t.line))
                .collect::<String>(),
        );
        file
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("tokens")
    }

    /// Replaces the file by a rename, as editors do.
    fn write(&self, text: &str) {
        let new = self.dir.path().join("new");
        fs::write(&new, text).unwrap();
        fs::rename(new, self.path()).unwrap();
    }

    async fn world(&self) -> World {
        let mut made = Made::default();
        made.settings.tokens = Some(self.path());
        World::with(made).await
    }
}

async fn submit(world: &World, authorization: &str) -> Said {
    let headers = [
        ("content-type", "application/json"),
        ("authorization", authorization),
    ];
    let body = order("7").to_string();
    world
        .client
        .send("POST", "/v1/orders", &headers, body.as_bytes())
        .await
}

async fn get(world: &World, token: &NewToken) -> Said {
    let bearer = format!("Bearer {}", token.token);
    world
        .client
        .send("GET", "/v1/orders/7", &[("authorization", &bearer)], b"")
        .await
}

fn made(name: &str, roles: &[Role]) -> NewToken {
    NewToken::make(name, roles).unwrap()
}

#[tokio::test]
async fn a_token_permits_what_its_roles_say() {
    let (shop, desk) = (made("shop", &[Role::Submit]), made("desk", &[Role::Read]));
    let operator = made("op", &[Role::Operate]);
    let world = File::of(&[&shop, &desk, &operator]);
    let world = world.world().await;
    for (authorization, status, code) in [
        (format!("Bearer {}", desk.token), 403, "role"),
        (format!("Bearer {}", operator.token), 403, "role"),
        (format!("Bearer {}x", shop.token), 401, "token"),
        ("Bearer".to_owned(), 401, "token"),
        (format!("Basic {}", shop.token), 401, "token"),
        (shop.token.clone(), 401, "token"),
    ] {
        let said = submit(&world, &authorization).await;
        assert_eq!(said.is(), (status, code.into()), "{authorization}");
        assert!(
            said.header("www-authenticate")
                .unwrap()
                .starts_with("Bearer realm")
        );
    }
    assert!(world.stored("7").await.is_none());
    assert_eq!(world.submit("7").await.is(), (401, "token".into()));
    assert_eq!(world.get("/v1/orders/7").await.is(), (401, "token".into()));
    assert_eq!(
        submit(&world, &format!("bearer {}", shop.token))
            .await
            .status,
        201
    );
    assert_eq!(get(&world, &shop).await.is(), (403, "role".into()));
    assert_eq!(get(&world, &desk).await.status, 200);
    for open in ["/healthz", "/readyz", "/v1/openapi.json"] {
        assert_eq!(world.get(open).await.status, 200);
    }
}

/// Waits until a request with this token gets this status.
async fn answered(world: &World, token: &NewToken, status: u16) {
    let answered = async {
        while get(world, token).await.status != status {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(WITHIN, answered)
        .await
        .expect("the file is read again");
}

#[tokio::test]
async fn a_changed_file_counts_and_a_wrong_one_does_not() {
    let (old, new) = (made("old", &[Role::Read]), made("new", &[Role::Read]));
    let file = File::of(&[&old]);
    let world = file.world().await;
    answered(&world, &old, 404).await;
    file.write(&format!("{}\n{}\n", old.line, new.line));
    answered(&world, &new, 404).await;
    file.write("not a token\n");
    // When a later valid file has taken effect, the invalid file before it was read.
    for _ in 0..20 {
        answered(&world, &new, 404).await;
    }
    fs::remove_file(file.path()).unwrap();
    answered(&world, &new, 404).await;
    file.write(&format!("{}\n", new.line));
    answered(&world, &old, 401).await;
    assert_eq!(get(&world, &new).await.status, 404);
}

async fn start(settings: Settings) -> Result<Server, StartError> {
    let dir = tempfile::tempdir().unwrap();
    let retention = triad_workflow::Millis(1_000);
    let store = triad_sqlite::SqliteStore::open(dir.path(), SystemClock, retention).unwrap();
    let bus = crate::common::ports::Heard::default();
    let handlers = triad_runtime::settings::Settings::default();
    let submission = Submission::new(store.clone(), bus, SystemClock, handlers);
    Server::start(
        settings,
        Arc::new(submission),
        store,
        OrderEndWaiters::default(),
    )
    .await
}

#[tokio::test]
async fn an_address_that_others_reach_needs_tokens() {
    for open in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
        let why = start(Settings::on(open.parse().unwrap()))
            .await
            .unwrap_err();
        assert!(matches!(why, StartError::Open(_)), "{open}: {why}");
    }
    let file = File::of(&[&made("a", &[Role::Read])]);
    let mut settings = Settings::on("0.0.0.0:0".parse().unwrap());
    settings.tokens = Some(file.path());
    let server = start(settings.clone()).await.unwrap();
    let mut taken = settings.clone();
    taken.listen = server.address();
    let why = start(taken).await.unwrap_err();
    assert!(matches!(why, StartError::Listen { .. }), "{why}");
    file.write("");
    let why = start(settings.clone()).await.unwrap_err();
    let empty = matches!(&why, StartError::Tokens { why, .. } if matches!(why, TokensError::Empty));
    assert!(empty, "{why}");
    settings.tokens = Some(file.dir.path().join("none"));
    let why = start(settings).await.unwrap_err();
    let unreadable =
        matches!(&why, StartError::Tokens { why, .. } if matches!(why, TokensError::Unreadable(_)));
    assert!(unreadable, "{why}");
}

#[tokio::test]
async fn without_tokens_a_page_of_another_name_is_not_let_in() {
    let world = World::start().await;
    let json = ("content-type", "application/json");
    let body = order("7").to_string();
    for host in ["evil.example", "localhost.evil.example:80", ""] {
        let headers = [json, ("host", host)];
        let said = world
            .client
            .send("POST", "/v1/orders", &headers, body.as_bytes())
            .await;
        assert_eq!(said.is(), (403, "host".into()), "{host}");
        let said = world
            .client
            .send("GET", "/v1/orders/7", &[("host", host)], b"")
            .await;
        assert_eq!(said.is(), (403, "host".into()), "{host}");
    }
    assert!(world.stored("7").await.is_none());
    let headers = [json, ("host", "localhost:1")];
    let said = world
        .client
        .send("POST", "/v1/orders", &headers, body.as_bytes())
        .await;
    assert_eq!(said.status, 201);
}

pub async fn start_with_tls(files: triad_ingress::TlsFiles) -> Result<Server, StartError> {
    let mut settings = Settings::on(([127, 0, 0, 1], 0).into());
    settings.tls = Some(files);
    start(settings).await
}

#[tokio::test]
async fn a_file_whose_tokens_were_all_taken_out_lets_nobody_in() {
    let shop = made("shop", &[Role::Submit]);
    let file = File::of(&[&shop]);
    let world = file.world().await;
    let bearer = format!("Bearer {}", shop.token);
    assert_eq!(submit(&world, &bearer).await.status, 201);
    file.write("# none\n");
    let refused = async {
        while submit(&world, &bearer).await.status != 401 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(WITHIN, refused)
        .await
        .expect("it is not known any more");
}
