//! Requests of operators over real sockets: what the listener checks before the console gets a request, and its stop.

#[path = "../../../../operations/console/tests/console/common/mod.rs"]
#[expect(dead_code, reason = "the console's own tests use more of it")]
pub mod console;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use triad_console::STRANGER_BODY_BYTES;
use triad_ingress::{NewToken, Role, Server, Settings};

use crate::common::WITHIN;
use crate::common::client::{Client, Said};
use console::World;
use console::document::DOCUMENT;

/// A server of the console with the given tokens.
struct Listener {
    server: Server,
    client: Client,
    _world: World,
    _tokens: tempfile::TempDir,
}

impl Listener {
    async fn start(tokens: Option<&str>) -> Self {
        let world = World::with(triad_console::Settings::default(), tokens).await;
        let dir = tempfile::tempdir().unwrap();
        let mut settings = Settings::on(([127, 0, 0, 1], 0).into());
        settings.operators = Some(world.client.answers.clone());
        settings.tokens = tokens.map(|lines| {
            let file = dir.path().join("tokens");
            std::fs::write(&file, lines).unwrap();
            file
        });
        let server = Server::for_operators(settings).await.unwrap();
        Self {
            client: Client::to(server.address()),
            server,
            _world: world,
            _tokens: dir,
        }
    }

    async fn post(&self, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Said {
        let json = [("content-type", "application/json")];
        let headers = [&json, headers].concat();
        self.client.send("POST", path, &headers, body).await
    }
}

#[tokio::test]
async fn of_who_is_not_known_little_is_read() {
    let make = |name, role| NewToken::make(name, &[role]).unwrap();
    let (ann, shop) = (make("ann", Role::Operate), make("shop", Role::Submit));
    let lines = format!("{}\n{}\n", ann.line, shop.line);
    let listener = Listener::start(Some(&lines)).await;
    let body = "x".repeat(STRANGER_BODY_BYTES + 1);
    let send = async |path: &str, token: &str| {
        let bearer = format!("Bearer {token}");
        let headers = [("authorization", bearer.as_str())];
        let said = listener.post(path, &headers, body.as_bytes()).await;
        said.status
    };
    for path in ["/v1/operate/acts", "/console/login", "/console/act"] {
        assert_eq!(send(path, "triad_other").await, 401, "{path}");
        assert_eq!(send(path, &shop.token).await, 401, "{path}");
    }
    let read = send("/v1/operate/acts", &ann.token).await;
    assert_eq!(read, 400, "it is read");
}

#[tokio::test]
async fn a_body_of_an_operator_has_a_bound() {
    let listener = Listener::start(None).await;
    let long = vec![b' '; 3 << 20 | 1];
    let said = listener.post("/v1/operate/acts", &[], &long).await;
    assert_eq!(said.status, 413);
}

#[tokio::test]
async fn a_request_to_another_host_is_refused_as_the_document_of_the_console_says() {
    let listener = Listener::start(None).await;
    let foreign = [("host", "x.example")];
    for (path, methods) in DOCUMENT["paths"].as_object().unwrap() {
        let is_open = path.ends_with("/openapi.json");
        let asked = path.replace(['{', '}'], "");
        for method in methods.as_object().unwrap().keys() {
            let method = method.to_uppercase();
            let said = match method.as_str() {
                "POST" => listener.post(&asked, &foreign, b"{}").await,
                _ => listener.client.send(&method, &asked, &foreign, b"").await,
            };
            assert_eq!(said.status, 403, "{method} {path}");
            assert_eq!(said.body.is_empty(), method == "HEAD", "{method} {path}");
            if !is_open {
                let (status, headers, body) = (said.status, said.headers, said.body);
                let said = console::client::Said {
                    status,
                    headers,
                    body,
                };
                console::document::check(&method, &asked, &said);
            }
        }
    }
    let head = listener.client.send("HEAD", "/v1/operate/counts", &[], b"");
    let head = head.await;
    assert_eq!((head.status, head.body.len()), (200, 0));
}

#[tokio::test]
async fn a_stream_of_events_ends_when_the_server_does() {
    let listener = Listener::start(None).await;
    let mut stream = listener.client.connect().await;
    let request = b"GET /v1/operate/events?order=a HTTP/1.1\r\nhost: localhost\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut text = String::new();
    let mut buffer = [0; 4096];
    let told = async {
        while !text.contains("event: order") {
            let read = stream.read(&mut buffer).await.unwrap();
            assert!(read > 0, "it has ended: {text}");
            text += &String::from_utf8_lossy(&buffer[..read]);
        }
    };
    let told = tokio::time::timeout(WITHIN, told).await;
    assert!(told.is_ok(), "it is not told");
    listener.server.stop().await;
    let ended = tokio::time::timeout(WITHIN, stream.read_to_end(&mut Vec::new())).await;
    ended.expect("it ends with the server").unwrap();
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    assert!(text.contains("text/event-stream") && text.contains("event: counts"));
}
