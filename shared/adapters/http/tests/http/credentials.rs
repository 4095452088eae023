//! Credentials of an agent: what the service sees, how secrets are rotated, and that none is shown.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use serde_json::{Value, json};
use triad_http::{Auth, AwsAccount, Destination, HttpService, HttpSettings, SecretRef};
use triad_runtime::Fault;
use triad_workflow::Millis;

/// What a service and an issuer of tokens saw, and what they answer.
#[derive(Default)]
struct Seen {
    /// The header `authorization` or `x-api-key` of each call.
    calls: Mutex<Vec<String>>,
    tokens: AtomicUsize,
    /// Status of the service's answers; 0: 200.
    status: AtomicU16,
    /// Status of the issuer's answers; 0: 200.
    issuer: AtomicU16,
    /// Life of the issuer's tokens, in seconds.
    life: AtomicUsize,
}

fn status(of: &AtomicU16) -> StatusCode {
    let status = of.load(Ordering::SeqCst);
    StatusCode::from_u16(status).unwrap_or(StatusCode::OK)
}

async fn pay(State(seen): State<Arc<Seen>>, headers: HeaderMap) -> Response {
    let mut shown = ["authorization", "x-api-key"].iter();
    let shown = shown.find_map(|name| headers.get(*name));
    let shown = shown.and_then(|v| v.to_str().ok()).unwrap_or_default();
    seen.calls.lock().unwrap().push(shown.to_owned());
    // Some services repeat what they were sent.
    (status(&seen.status), format!("you sent {shown}")).into_response()
}

async fn token(State(seen): State<Arc<Seen>>, body: String) -> Response {
    let number = 1 + seen.tokens.fetch_add(1, Ordering::SeqCst);
    let wanted =
        "grant_type=client_credentials&client_id=shop&client_secret=the-secret&scope=pay+refund";
    assert_eq!(body, wanted);
    let status = status(&seen.issuer);
    let answer = match status {
        StatusCode::OK => {
            json!({"access_token": format!("token-{number}"), "token_type": "Bearer",
                "expires_in": seen.life.load(Ordering::SeqCst)})
        }
        _ => json!({"error": "invalid_client"}),
    };
    (status, axum::Json(answer)).into_response()
}

async fn start() -> (SocketAddr, Arc<Seen>) {
    let seen = Arc::new(Seen::default());
    seen.life.store(3_600, Ordering::SeqCst);
    let router = Router::new()
        .route("/pay", post(pay))
        .route("/token", post(token))
        .with_state(seen.clone());
    let address = triad_tests::http::serve(router).await;
    (address, seen)
}

fn service(address: SocketAddr, auth: Auth) -> HttpService {
    let settings = HttpSettings {
        auth: Some(auth),
        ..crate::settings(format!("http://{address}"))
    };
    HttpService::new(&settings).expect("the settings are sound")
}

async fn call(service: &HttpService) -> Result<Value, Fault> {
    crate::pay(service, Millis(10_000)).await
}

/// A file with a secret in a folder of its own, which is removed when the test ends.
struct SecretFile(PathBuf);

impl SecretFile {
    fn new(name: &str, text: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("triad-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let file = Self(folder.join("secret"));
        file.write(text);
        file
    }

    /// Replaces the text. The time of the change differs from the one before, however coarse the file system's clock.
    fn write(&self, text: &str) {
        let before = std::fs::metadata(&self.0).and_then(|m| m.modified()).ok();
        std::fs::write(&self.0, text).expect("it is written");
        let later = before.map(|at| at + Duration::from_secs(2));
        if let Some(later) = later {
            let file = std::fs::File::options().write(true).open(&self.0);
            file.and_then(|file| file.set_modified(later))
                .expect("a time");
        }
    }
}

impl Drop for SecretFile {
    fn drop(&mut self) {
        let folder = self.0.parent().expect("a folder");
        let _ = std::fs::remove_dir_all(folder);
    }
}

#[tokio::test]
async fn a_secret_of_a_file_is_read_again_when_it_has_changed() {
    let (address, seen) = start().await;
    let file = SecretFile::new("rotated", "first\n");
    let service = service(
        address,
        Auth::Bearer(SecretRef::File {
            file: file.0.clone(),
        }),
    );
    call(&service).await.expect("an answer");
    file.write(" second ");
    call(&service).await.expect("an answer");
    // In the middle of a rotation the last secret counts.
    file.write("");
    call(&service).await.expect("an answer");
    let calls = seen.calls.lock().unwrap().clone();
    assert_eq!(calls, ["Bearer first", "Bearer second", "Bearer second"]);
}

#[tokio::test]
async fn each_way_shows_its_header_and_no_failure_shows_a_secret() {
    let (address, seen) = start().await;
    let file = SecretFile::new("ways", "pass-word");
    let secret = || SecretRef::File {
        file: file.0.clone(),
    };
    let basic = Auth::Basic {
        user: "shop".to_owned(),
        password: secret(),
    };
    let own = Auth::Header {
        name: "X-Api-Key".to_owned(),
        value: secret(),
    };
    seen.status.store(422, Ordering::SeqCst);
    for (auth, wanted) in [
        (Auth::Bearer(secret()), "Bearer pass-word"),
        (basic, "Basic c2hvcDpwYXNzLXdvcmQ="),
        (own, "pass-word"),
    ] {
        let service = service(address, auth);
        let fault = call(&service).await.expect_err("a refusal");
        assert_eq!(seen.calls.lock().unwrap().pop().as_deref(), Some(wanted));
        let said = format!("{fault:?} {service:?}");
        assert!(said.contains("(hidden)"), "{said}");
        assert!(
            !said.contains("pass-word") && !said.contains("c2hvcDpw"),
            "{said}"
        );
    }
}

fn by_client_credentials(address: SocketAddr, file: &SecretFile) -> HttpService {
    let auth = Auth::Oauth2 {
        token_url: format!("http://{address}/token"),
        client_id: "shop".to_owned(),
        client_secret: SecretRef::File {
            file: file.0.clone(),
        },
        scope: Some("pay refund".to_owned()),
        audience: None,
    };
    service(address, auth)
}

#[tokio::test]
async fn a_token_serves_many_calls_and_is_replaced_ahead_of_its_end_and_when_it_is_refused() {
    let (address, seen) = start().await;
    let file = SecretFile::new("tokens", "the-secret");
    let service = by_client_credentials(address, &file);
    let many = (0..8).map(|_| call(&service));
    for answer in futures::future::join_all(many).await {
        answer.expect("an answer");
    }
    assert_eq!(
        seen.tokens.load(Ordering::SeqCst),
        1,
        "one call asks, the others wait"
    );
    seen.status.store(401, Ordering::SeqCst);
    let fault = call(&service).await.expect_err("it is refused");
    assert!(matches!(fault, Fault::CallerRefused { .. }), "{fault:?}");
    seen.status.store(0, Ordering::SeqCst);
    // A token that lives for less than a minute is replaced by the next call.
    seen.life.store(30, Ordering::SeqCst);
    call(&service).await.expect("an answer");
    call(&service).await.expect("an answer");
    let calls = seen.calls.lock().unwrap().clone();
    assert_eq!(
        calls[8..],
        ["Bearer token-1", "Bearer token-2", "Bearer token-3"]
    );
    // While the issuer is away a token that is still good is shown.
    seen.issuer.store(503, Ordering::SeqCst);
    call(&service).await.expect("an answer");
    assert_eq!(
        seen.calls.lock().unwrap().last().map(String::as_str),
        Some("Bearer token-3")
    );
}

#[tokio::test]
async fn without_a_token_no_call_is_made() {
    let (address, seen) = start().await;
    let file = SecretFile::new("no-token", "the-secret");
    let service = by_client_credentials(address, &file);
    seen.issuer.store(401, Ordering::SeqCst);
    let fault = call(&service).await.expect_err("no token");
    let Fault::CallerRefused {
        code,
        message,
        maybe_applied: false,
    } = fault
    else {
        panic!("{fault:?}");
    };
    assert_eq!(code, "no-token");
    assert!(
        message.ends_with("/token answered 401: invalid_client"),
        "{message}"
    );
    for _ in 0..4 {
        call(&service).await.expect_err("no token");
    }
    assert_eq!(
        seen.tokens.load(Ordering::SeqCst),
        1,
        "for a second the issuer is left alone"
    );
    seen.issuer.store(500, Ordering::SeqCst);
    let service = by_client_credentials(address, &file);
    let fault = call(&service).await.expect_err("no token");
    let may_pass = matches!(
        fault,
        Fault::Transient {
            maybe_applied: false,
            ..
        }
    );
    assert!(may_pass, "{fault:?}");
    assert_eq!(
        seen.calls.lock().unwrap().len(),
        0,
        "the service is not called"
    );
}

/// A call that waited its whole time for a token would be dropped by its agent, and its effect would be in doubt.
#[tokio::test]
async fn an_issuer_that_hangs_leaves_no_call_in_doubt() {
    let hangs = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port");
    let issuer = hangs.local_addr().expect("it is bound");
    let (address, seen) = start().await;
    let file = SecretFile::new("hangs", "the-secret");
    let auth = Auth::Oauth2 {
        token_url: format!("http://{issuer}/token"),
        client_id: "shop".to_owned(),
        client_secret: SecretRef::File {
            file: file.0.clone(),
        },
        scope: None,
        audience: None,
    };
    let service = service(address, auth);
    let many = (0..3).map(|_| crate::pay(&service, Millis(400)));
    for answer in futures::future::join_all(many).await {
        let Err(Fault::Transient {
            code,
            maybe_applied: false,
            ..
        }) = answer
        else {
            panic!("{answer:?}");
        };
        assert_eq!(code, "no-token");
    }
    assert_eq!(
        seen.calls.lock().unwrap().len(),
        0,
        "the service is not called"
    );
}

#[test]
fn a_secret_that_is_not_there_is_named() {
    let none = PathBuf::from("/nowhere/secret");
    for (secret, wanted) in [
        (
            SecretRef::Env {
                env: "TRIAD_NO_SUCH_VARIABLE".to_owned(),
            },
            "TRIAD_NO_SUCH_VARIABLE is not set",
        ),
        (
            SecretRef::File { file: none },
            "/nowhere/secret: No such file",
        ),
    ] {
        let settings = HttpSettings {
            destination: Destination::BaseUrl("http://127.0.0.1:1".to_owned()),
            call_timeout: Duration::from_secs(1),
            headers: Vec::new(),
            auth: Some(Auth::Bearer(secret)),
            tls: None,
            aws: AwsAccount::default(),
            statuses: BTreeMap::new(),
            callback_url: None,
        };
        let error = HttpService::new(&settings).expect_err("it cannot be read");
        assert!(error.to_string().contains(wanted), "{error}");
    }
}
