//! Authentication and roles: tokens, sessions, a proxy's header, CSRF tokens, read-only mode.

use serde_json::json;
use triad_console::Settings;
use triad_console::tokens::{NewToken, Role};

use crate::common::{World, cookie, csrf_token, send_form, text};

fn tokens() -> (NewToken, NewToken, NewToken, String) {
    let make = |name, role| NewToken::make(name, &[role]).unwrap();
    let (reader, ann) = (make("reader", Role::Read), make("ann", Role::Operate));
    let shop = make("shop", Role::Submit);
    let lines = format!("{}\n{}\n{}\n", reader.line, ann.line, shop.line);
    (reader, ann, shop, lines)
}

fn close(id: &str) -> serde_json::Value {
    json!({"act": "close", "orders": [id], "why": "w", "dry_run": false})
}

#[tokio::test]
async fn a_token_may_what_its_roles_say_and_acts_under_its_name() {
    let (reader, ann, shop, lines) = tokens();
    let world = World::with(Settings::default(), Some(&lines)).await;
    world.failed("e", "x").await;
    let send = async |method: &str, path: &str, token: &str, body: String| {
        let bearer = format!("Bearer {token}");
        let headers = [
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
        ];
        world
            .client
            .send(method, path, &headers, body.as_bytes())
            .await
            .is()
    };
    let look = "/v1/operate/orders/e";
    assert_eq!(send("GET", look, &reader.token, String::new()).await.0, 200);
    assert_eq!(
        send("GET", look, &shop.token, String::new()).await,
        (403, "role".into())
    );
    assert_eq!(send("GET", look, "triad_other", String::new()).await.0, 401);
    let (act, body) = ("/v1/operate/acts", close("e").to_string());
    assert_eq!(
        send("POST", act, &reader.token, body.clone()).await,
        (403, "role".into())
    );
    let mut as_other = close("e");
    as_other["by"] = "bob".into();
    let other = send("POST", act, &ann.token, as_other.to_string()).await;
    assert_eq!(
        other,
        (400, "bad-by".into()),
        "nobody acts under another's name"
    );
    assert_eq!(send("POST", act, &ann.token, body).await.0, 200);
    assert_eq!(world.stored("e").await.closed.unwrap().act.by, "ann");
}

#[tokio::test]
async fn a_browser_logs_in_with_a_token_acts_and_logs_out() {
    let (reader, ann, shop, lines) = tokens();
    let world = World::with(Settings::default(), Some(&lines)).await;
    world.failed("e", "x").await;
    let page = world.get("/console/orders/e?x=1").await;
    assert_eq!(page.status, 401);
    let (jar, form) = (cookie(&page), csrf_token(&text(&page)));
    let wrong = [
        ("word", form.as_str()),
        ("token", "triad_x"),
        ("to", "/console/"),
    ];
    assert_eq!(
        send_form(&world, "/console/login", &jar, &wrong)
            .await
            .status,
        401
    );
    let no_role = [
        ("word", form.as_str()),
        ("token", &shop.token),
        ("to", "/console/"),
    ];
    let said = send_form(&world, "/console/login", &jar, &no_role).await;
    assert_eq!(said.status, 403);
    assert!(text(&said).contains("may only submit orders"));
    let right = [
        ("word", form.as_str()),
        ("token", &ann.token),
        ("to", "https://evil.example/"),
    ];
    let said = send_form(&world, "/console/login", &jar, &right).await;
    assert_eq!(
        (said.status, said.header("location")),
        (303, Some("/console/")),
        "nowhere else"
    );
    let set = said.header("set-cookie").unwrap();
    assert!(
        set.contains("HttpOnly") && set.contains("SameSite=Lax"),
        "{set}"
    );
    let session = cookie(&said);
    assert_ne!(session, jar, "a new one, that nobody knew before");
    let with = [("cookie", session.as_str())];
    let page = world
        .client
        .send("GET", "/console/orders/e", &with, b"")
        .await;
    assert_eq!(page.status, 200);
    let form = csrf_token(&text(&page));
    let act = [
        ("word", form.as_str()),
        ("scope", "chosen"),
        ("orders", "e"),
        ("act", "close"),
        ("why", "w"),
        ("do", "act"),
    ];
    let done = send_form(&world, "/console/act", &session, &act).await;
    assert!(text(&done).contains("1 done, 0 refused"), "{}", text(&done));
    assert_eq!(world.stored("e").await.closed.unwrap().act.by, "ann");
    // The API accepts no cookie for an act, because any web site could make the browser send one.
    let json = [
        ("cookie", session.as_str()),
        ("content-type", "application/json"),
    ];
    let said = world
        .client
        .send(
            "POST",
            "/v1/operate/acts",
            &json,
            close("e").to_string().as_bytes(),
        )
        .await;
    assert_eq!(said.status, 401);
    let bye = send_form(&world, "/console/logout", &session, &[("word", &form)]).await;
    assert_eq!(bye.status, 303);
    assert_eq!(
        world
            .client
            .send("GET", "/console/", &with, b"")
            .await
            .status,
        401
    );
    // Pages of a read-only caller have no forms for acts.
    let page = world.get("/console/").await;
    let (jar, form) = (cookie(&page), csrf_token(&text(&page)));
    let right = [
        ("word", form.as_str()),
        ("token", &reader.token),
        ("to", "/console/orders/e"),
    ];
    let said = send_form(&world, "/console/login", &jar, &right).await;
    assert_eq!(said.header("location"), Some("/console/orders/e"));
    let session = cookie(&said);
    let with = [("cookie", session.as_str())];
    let page = text(
        &world
            .client
            .send("GET", "/console/orders/e", &with, b"")
            .await,
    );
    assert!(!page.contains("Act on this order"));
}

#[tokio::test]
async fn a_form_without_the_word_of_its_browser_does_nothing() {
    let world = World::start().await;
    world.failed("e", "x").await;
    let page = world.get("/console/orders/e").await;
    let (jar, good) = (cookie(&page), csrf_token(&text(&page)));
    let other = world.get("/console/orders/e").await;
    let theirs = csrf_token(&text(&other));
    let form = |word: &str| {
        [
            ("word", word.to_owned()),
            ("scope", "chosen".into()),
            ("orders", "e".into()),
            ("act", "close".into()),
            ("why", "w".into()),
            ("by", "b".into()),
            ("do", "act".into()),
        ]
    };
    let send = async |jar: &str, word: &str, path: &str| {
        let form = form(word);
        let form: Vec<(&str, &str)> = form.iter().map(|(n, v)| (*n, v.as_str())).collect();
        send_form(&world, path, jar, &form).await.status
    };
    for path in [
        "/console/act",
        "/console/downstreams/act",
        "/console/dead-letters/act",
        "/console/login",
        "/console/logout",
    ] {
        for (jar, word) in [
            (jar.as_str(), ""),
            (&jar, theirs.as_str()),
            ("", &good),
            (&jar, "%%%"),
        ] {
            assert_eq!(send(jar, word, path).await, 403, "{path}");
        }
    }
    assert!(world.stored("e").await.closed.is_none());
    let cross = [("cookie", jar.as_str()), ("sec-fetch-site", "cross-site")];
    let body = format!("word={good}&scope=chosen&orders=e&act=close&why=w&by=b&do=act");
    assert_eq!(
        world
            .client
            .send("POST", "/console/act", &cross, body.as_bytes())
            .await
            .status,
        403
    );
    assert_eq!(send(&jar, &good, "/console/act").await, 200);
    assert!(world.stored("e").await.closed.is_some());
}

#[tokio::test]
async fn read_only_nobody_acts() {
    let read_only = Settings {
        read_only: true,
        ..Settings::default()
    };
    let world = World::with(read_only, None).await;
    world.failed("e", "x").await;
    world.letter(0, "{").await;
    let mut body = close("e");
    body["by"] = "ann".into();
    assert_eq!(
        world.act("/v1/operate/acts", &body).await.is(),
        (403, "read-only".into())
    );
    let hold = json!({"act": "pause", "downstream": "bank", "why": "w", "by": "b"});
    assert_eq!(
        world
            .act("/v1/operate/downstreams/acts", &hold)
            .await
            .status,
        403
    );
    let letter = json!({"act": "replay", "letters": ["orders/3/0"], "why": "w", "by": "b"});
    assert_eq!(
        world
            .act("/v1/operate/dead-letters/acts", &letter)
            .await
            .status,
        403
    );
    for path in [
        "orders",
        "orders/e",
        "downstreams",
        "dead-letters",
        "dead-letters/orders/3/0",
    ] {
        let page = text(&world.get(&format!("/console/{path}")).await);
        assert!(
            !page.contains("method=\"post\" action=\"/console/act\"><fieldset")
                && !page.contains("Do it"),
            "{path}"
        );
    }
}

#[tokio::test]
async fn the_header_of_a_proxy_names_who_acts_and_nobody_comes_past_it() {
    let behind = Settings {
        user_header: Some(http::HeaderName::from_static("x-user")),
        ..Settings::default()
    };
    let world = World::with(behind, None).await;
    world.failed("e", "x").await;
    assert_eq!(world.get("/v1/operate/counts").await.status, 401);
    let headers = [("x-user", "bob"), ("content-type", "application/json")];
    let said = world
        .client
        .send(
            "POST",
            "/v1/operate/acts",
            &headers,
            close("e").to_string().as_bytes(),
        )
        .await;
    assert_eq!(said.status, 200);
    assert_eq!(world.stored("e").await.closed.unwrap().act.by, "bob");
}
