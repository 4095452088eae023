//! A broker with a secured listener, and the operations of its clients.

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

/// Time limit of each wait in a test, against hanging.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// Time limit of a client that must be refused.
pub const LOOK: Duration = Duration::from_secs(3);
pub const USER: &str = "ada";
pub const PASSWORD: &str = "made-up";
const TOPIC: &str = "things";
const RECORDS: usize = 20;

/// A broker, and the certificate authority that its clients trust.
pub struct Place {
    pub authority: Authority,
    pub broker: BrokerHandle,
}

/// The credentials that the broker requires of its clients.
#[derive(Default)]
pub struct Asks {
    /// A certificate signed by the authority.
    pub certificate: bool,
    /// The password of [`USER`].
    pub password: bool,
    /// A token that this check accepts.
    pub token: Option<Arc<dyn TokenCheck>>,
}

impl Place {
    pub fn new(asks: Asks) -> Self {
        Self::at("127.0.0.1", asks)
    }

    /// A broker whose certificate is for this host name.
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

    /// Configuration of a client that trusts the authority and has these credentials.
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
    }
}

/// Creates the topic of the records.
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

/// Reads the next record of a consumer group member; returns its number.
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

/// Does everything that Triad does with Kafka: queries the brokers, creates a topic, sends, and reads with and
/// without a group.
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

/// Queries the brokers.
pub async fn look(config: &KafkaConfig, within: Duration) -> Result<(), KafkaError> {
    let config = config.clone();
    blocking(move || wait_for_broker(&config, within)).await
}

/// Opens a reader at the first record.
pub async fn open(config: &KafkaConfig, within: Duration) -> Result<Reader, KafkaError> {
    let config = config.clone();
    blocking(move || Reader::open(&config, &[TOPIC], ReaderStart::Beginning, within)).await
}

async fn blocking<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> T {
    let called = tokio::task::spawn_blocking(call);
    within("a call returns", called).await.expect("no panic")
}

/// Awaits `future`; panics after [`PATIENCE`].
pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    let began = Instant::now();
    let ended = tokio::time::timeout(PATIENCE, future).await;
    ended.unwrap_or_else(|_| panic!("in vain for {:?}: {what}", began.elapsed()))
}
