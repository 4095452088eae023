//! A broker with a secured listener, and what a client does with it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use triad_broker::{Broker, BrokerConfig, BrokerHandle, SaslConfig, SecuredListener, TokenCheck};
use triad_core::Envelope;
use triad_kafka::{
    Credentials, KafkaBus, KafkaConfig, KafkaError, Login, Member, Polled, Reader, ReaderStart,
    Topic, create_topics, wait_for_broker,
};
use triad_runtime::Bus;

use crate::authority::Authority;

/// How long a test waits for what should happen soon: a bound against hanging, not a measure.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// How long a client is given that has to be refused.
pub const LOOK: Duration = Duration::from_secs(3);
pub const USER: &str = "ada";
pub const PASSWORD: &str = "made-up";
const TOPIC: &str = "things";
const RECORDS: usize = 20;

/// A broker, and the authority that its clients trust.
pub struct Place {
    pub authority: Authority,
    pub broker: BrokerHandle,
}

/// What clients of a place must show.
#[derive(Default)]
pub struct Asks {
    /// A certificate of the place's authority.
    pub certificate: bool,
    /// A user's password.
    pub password: bool,
    /// A token that this takes.
    pub token: Option<Arc<dyn TokenCheck>>,
}

impl Place {
    pub fn new(asks: Asks) -> Self {
        Self::at("127.0.0.1", asks)
    }

    /// With a certificate for this name.
    pub fn at(name: &str, asks: Asks) -> Self {
        let authority = Authority::new();
        let server = authority.server(name);
        let mut users = BTreeMap::new();
        if asks.password {
            users.insert(USER.to_owned(), PASSWORD.to_owned());
        }
        let has_sasl = asks.password || asks.token.is_some();
        let broker = Broker::start(BrokerConfig {
            secured: Some(SecuredListener {
                listen: ([127, 0, 0, 1], 0).into(),
                certificate: server.certificate,
                key: server.key,
                client_ca: asks.certificate.then(|| authority.pem.clone()),
                sasl: has_sasl.then_some(SaslConfig {
                    users,
                    tokens: asks.token,
                }),
            }),
            ..BrokerConfig::default()
        });
        Self {
            authority,
            broker: broker.expect("a broker"),
        }
    }

    /// A client that trusts the place's authority and shows these credentials.
    pub fn client(&self, credentials: Credentials) -> KafkaConfig {
        let addr = self.broker.secured_addr().expect("a secured listener");
        let mut config = KafkaConfig::new(addr.to_string());
        config.login = Login {
            credentials,
            ca: Some(self.authority.pem.clone()),
        };
        config
    }
}

pub fn scram(password: &str) -> Credentials {
    Credentials::Scram {
        username: USER.to_owned(),
        password: password.to_owned(),
    }
}

pub fn record(number: usize) -> Envelope {
    Envelope {
        topic: TOPIC.to_owned(),
        key: Some(b"key".to_vec()),
        value: number.to_string().into_bytes(),
        headers: Vec::new(),
        trace: None,
        is_restorable: false,
    }
}

/// Makes the topic of the records.
pub async fn make_topic(config: &KafkaConfig) -> Result<(), KafkaError> {
    let topic = Topic {
        name: TOPIC.to_owned(),
        partitions: 1,
    };
    within("the topic is made", create_topics(config, &[topic])).await
}

pub async fn publish(bus: &KafkaBus, number: usize) {
    let sent = within("a record is taken", bus.publish(vec![record(number)])).await;
    assert_eq!(sent, [Ok(())]);
}

/// The next record of a member, as its number.
pub async fn next(member: &Member) -> usize {
    let found = async {
        loop {
            if let Polled::Record(record) = member.next(LOOK).await {
                member.commit_through(&record);
                let text = String::from_utf8(record.value.unwrap_or_default());
                return text.expect("text").parse().expect("a number");
            }
        }
    };
    within("a record comes", found).await
}

pub fn member(config: &KafkaConfig) -> Member {
    Member::join(config, "group", TOPIC).expect("a member")
}

/// Everything that Triad does with Kafka: asks for brokers, makes a topic, sends, reads in a group
/// and without one.
pub async fn all_works(config: KafkaConfig) {
    look(&config, PATIENCE).await.expect("a broker");
    make_topic(&config).await.expect("a topic");
    let bus = KafkaBus::new(&config).expect("a bus");
    for number in 0..RECORDS {
        publish(&bus, number).await;
    }
    let member = member(&config);
    for number in 0..RECORDS {
        assert_eq!(next(&member).await, number);
    }
    let reader = open(&config, PATIENCE).await.expect("a reader");
    for number in 0..RECORDS {
        let Polled::Record(record) = reader.next(PATIENCE).await else {
            panic!("record {number} is missing");
        };
        assert_eq!(record.value, Some(number.to_string().into_bytes()));
    }
}

/// Asks for the brokers.
pub async fn look(config: &KafkaConfig, within: Duration) -> Result<(), KafkaError> {
    let config = config.clone();
    blocking(move || wait_for_broker(&config, within)).await
}

/// Opens a reader at the beginning.
pub async fn open(config: &KafkaConfig, within: Duration) -> Result<Reader, KafkaError> {
    let config = config.clone();
    blocking(move || Reader::open(&config, &[TOPIC], ReaderStart::Beginning, within)).await
}

async fn blocking<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> T {
    let called = tokio::task::spawn_blocking(call);
    within("a call returns", called).await.expect("no panic")
}

/// Waits, but not for ever.
pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    let began = Instant::now();
    let ended = tokio::time::timeout(PATIENCE, future).await;
    ended.unwrap_or_else(|_| panic!("in vain for {:?}: {what}", began.elapsed()))
}
