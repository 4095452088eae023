//! Tokens that expire while the client works, and a source that has no token yet.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tokio::sync::watch;
use triad_broker::{Grant, MskTokenForm, TokenCheck, TokenRefused};
use triad_core::Timestamp;
use triad_kafka::{Credentials, KafkaBus, Token, TokenError, TokenSource};
use triad_runtime::system::SystemClock;
use triad_runtime::{Bus, BusError, Clock};

use crate::place::{
    Asks, LOOK, Place, all_works, look, make_topic, member, next, publish, record, within,
};

/// Signature time and lifetimes of a token, in seconds.
pub struct Signed {
    /// How long ago it was signed.
    pub ago_s: u64,
    /// Its lifetime from the signature, as signed.
    pub life_s: u64,
    /// Its lifetime as the source reports it to the client.
    pub said_life_s: u64,
}

/// A source of tokens in the form of Amazon MSK, with lifetimes other than MSK's 15 minutes.
pub struct Short {
    signed: Signed,
    absent: AtomicBool,
    asked: watch::Sender<usize>,
}

impl Short {
    pub const KEY_ID: &str = "AKIDSHORT";

    pub fn new(signed: Signed) -> Self {
        Self {
            signed,
            absent: AtomicBool::new(false),
            asked: watch::Sender::new(0),
        }
    }
}

impl TokenSource for Short {
    fn token(&self) -> Result<Token, TokenError> {
        self.asked.send_modify(|asked| *asked += 1);
        if self.absent.load(Ordering::SeqCst) {
            return Err(TokenError("the credentials are away".to_owned()));
        }
        // The times in a token are whole seconds.
        let at_s = SystemClock.now().0 / 1000 - self.signed.ago_s;
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(at_s);
        let date = humantime::format_rfc3339_seconds(at).to_string();
        let date = date.replace(['-', ':'], "");
        let address = format!(
            "https://kafka.eu-west-1.amazonaws.com/?Action=kafka-cluster%3AConnect\
             &X-Amz-Credential={}%2F{}%2Feu-west-1%2Fkafka-cluster%2Faws4_request\
             &X-Amz-Date={date}&X-Amz-Expires={}&X-Amz-Signature={}",
            Self::KEY_ID,
            &date[..8],
            self.signed.life_s,
            "0".repeat(64),
        );
        Ok(Token {
            value: URL_SAFE_NO_PAD.encode(address),
            principal: Self::KEY_ID.to_owned(),
            expires: Timestamp((at_s + self.signed.said_life_s) * 1000),
        })
    }
}

/// Counts the tokens that it accepts.
struct Counted {
    form: MskTokenForm,
    taken: Arc<AtomicUsize>,
}

impl TokenCheck for Counted {
    fn check(&self, token: &str) -> Result<Grant, TokenRefused> {
        let grant = self.form.check(token)?;
        self.taken.fetch_add(1, Ordering::SeqCst);
        Ok(grant)
    }
}

fn token_place() -> (Place, Arc<AtomicUsize>) {
    let taken = Arc::new(AtomicUsize::new(0));
    let place = Place::new(Asks {
        token: Some(Arc::new(Counted {
            form: MskTokenForm::new(Short::KEY_ID),
            taken: Arc::clone(&taken),
        })),
        ..Asks::default()
    });
    (place, taken)
}

/// The broker closes a connection whose token has expired. So if records keep arriving, the client has logged in
/// again in time.
#[tokio::test]
async fn nothing_is_lost_when_tokens_end_while_records_flow() {
    let (place, taken) = token_place();
    let life_s = 20;
    let source = Arc::new(Short::new(Signed {
        ago_s: 0,
        life_s,
        said_life_s: life_s,
    }));
    let config = place.client(Credentials::Tokens(source.clone()));
    make_topic(&config).await.expect("a topic");
    let bus = KafkaBus::new(&config).expect("a bus");
    let member = member(&config);
    publish(&bus, 0).await;
    assert_eq!(next(&member).await, 0);
    let (first, began) = (taken.load(Ordering::SeqCst), SystemClock.now());
    let all_ended = began.0 + (life_s + 1) * 1000;
    let mut number = 0;
    while SystemClock.now().0 < all_ended {
        number += 1;
        publish(&bus, number).await;
        assert_eq!(next(&member).await, number);
    }
    let again = taken.load(Ordering::SeqCst) - first;
    println!("{number} records, {first} logins, {again} more");
    assert!(again >= 2, "the bus and the member log in again");
}

#[tokio::test]
async fn a_source_that_fails_at_first_is_asked_again() {
    let (place, _) = token_place();
    let source = Arc::new(Short::new(Signed {
        ago_s: 0,
        life_s: 900,
        said_life_s: 900,
    }));
    source.absent.store(true, Ordering::SeqCst);
    let config = place.client(Credentials::Tokens(source.clone()));
    for said in [look(&config, LOOK).await, make_topic(&config).await] {
        let said = said.expect_err("no token").to_string();
        assert!(said.contains("cannot log in"), "{said}");
        assert!(said.contains("token: the credentials are away"), "{said}");
    }
    // A message that is published meanwhile waits for a token and fails as late; the client requests a token again
    // after ten seconds. The message arrives once, although it is published repeatedly.
    let bus = KafkaBus::new(&config).expect("a bus");
    let member = member(&config);
    let before = *source.asked.borrow();
    let sent = async {
        while let [Err(error)] = &bus.publish(vec![record(0)]).await[..] {
            assert!(matches!(error, BusError::Late(_)), "{error}");
        }
    };
    tokio::join!(within("a record is taken", sent), async {
        // The clients of the bus and of the member have each requested a token and got none.
        let mut asked = source.asked.subscribe();
        let twice = asked.wait_for(|asked| *asked >= before + 2);
        within("tokens are asked for", twice)
            .await
            .expect("a source");
        source.absent.store(false, Ordering::SeqCst);
    });
    assert_eq!(next(&member).await, 0);
    drop((bus, member));
    let (fresh, _) = token_place();
    all_works(fresh.client(Credentials::Tokens(source))).await;
}
