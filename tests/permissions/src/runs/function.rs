//! Runs of a function as a process: the alerts function, and each function's login to Kafka.
//!
//! The process has the environment variables that the module sets. The SDK's variable `AWS_ENDPOINT_URL` directs its
//! requests to the gate.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use triad_broker::{Broker, BrokerConfig};
use triad_core::topics;
use triad_kafka::{KafkaConfig, Topic, create_topics};

use crate::checked_bus::refuse;
use crate::gate::IamGate;
use crate::policy::{Installation, Policy};
use crate::required::to_write;
use crate::rights::Rights;
use crate::world::{Run, record};
use triad_tests::engines::Store;
use triad_tests::event_source::{INVOCATION, event, failures};
use triad_tests::process::binary;
use triad_tests::runtime_api::{Answer, RuntimeApi};
use triad_tests::topics::read_all;

/// An address at which nothing listens.
const NOWHERE: &str = "127.0.0.1:1";

/// The run of the alerts function: an alert, and a record that is not an alert.
pub(super) async fn alerts(installation: &Installation, policy: &Policy) -> Run {
    let rights = Rights::of(policy);
    let refused = tempfile::tempdir().expect("a directory");
    let broker = Broker::start(BrokerConfig {
        refuse_topics: Some(refused.path().to_owned()),
        ..BrokerConfig::default()
    });
    let broker = broker.expect("the broker starts");
    let brokers = broker.addr().to_string();
    let written = [topics::ALERTS, topics::DEAD_LETTER].map(str::to_owned);
    let made = written.clone().map(|name| Topic {
        name,
        partitions: 1,
    });
    let mut variables = installation.variables["alerts"].clone();
    let kafka = KafkaConfig {
        prefix: variables["TRIAD_PREFIX"].clone(),
        ..KafkaConfig::new(brokers.clone())
    };
    let made = create_topics(&kafka, &made).await;
    made.expect("topics can be made");
    let written = written.map(|topic| kafka.in_kafka(&topic));
    let is_governed = variables["TRIAD_KAFKA_AUTH"] == "msk-iam";
    if is_governed {
        refuse(refused.path(), &written, &rights);
    }
    for own in [
        "TRIAD_KAFKA_AUTH",
        "TRIAD_KAFKA_SECRET",
        "TRIAD_KAFKA_CA_SECRET",
        "TRIAD_KAFKA_SETTINGS",
    ] {
        variables.remove(own);
    }
    variables.insert("TRIAD_BROKERS".into(), brokers.clone());
    let gate = IamGate::start(NOWHERE.into(), rights.clone(), BTreeMap::new()).await;
    let api = RuntimeApi::start();
    let function = spawn(&api, "alerts", &variables, &gate);
    let mut facts = BTreeSet::new();
    let alert = json!({"alert_id": "a/Error/7", "kind": "order-error", "order_id": "a", "cause": "refused", "at": 7});
    let alert = event(&[&record(topics::ALERTS, &alert)]);
    let mut spoilt: Value = serde_json::from_str(&alert).expect("an event is JSON");
    let lists = spoilt["records"]
        .as_object_mut()
        .expect("an event has records");
    for record in lists
        .values_mut()
        .flat_map(|list| list.as_array_mut())
        .flatten()
    {
        record["value"] = json!("%");
    }
    for (what, event) in [
        ("an alert", alert),
        ("a record that is none", spoilt.to_string()),
    ] {
        let told = match api.invoke(event, INVOCATION).await {
            Ok(answer) if failures(&answer).is_empty() => "done",
            Ok(_) => "again",
            Err(_) => "failed",
        };
        facts.insert(format!("{what}: {told}"));
    }
    facts.insert(format!("published: {}", gate.published().len()));
    drop(function);
    // The process writes to the broker directly, so the permissions that it used are derived from the records in the
    // topics.
    for topic in &written {
        let sent = read_all(&brokers, &[topic]).await.len();
        facts.insert(format!("sent to {topic}: {sent}"));
        let permission = to_write(topic);
        if is_governed && (sent > 0 || !rights.allow(&permission)) {
            let _noted = rights.ask(&permission);
        }
    }
    Run {
        facts,
        noted: rights.noted(),
    }
}

/// Starts a function that logs in to Kafka with SCRAM, and gives it a first batch.
pub(super) async fn start(installation: &Installation, role: &str, policy: &Policy) -> Run {
    let rights = Rights::of(policy);
    let mut variables = installation.variables[role].clone();
    let secret = |name: &str| variables.get(name).cloned();
    // No connection is made with these credentials.
    let login = json!({"username": role, "password": role});
    let certificate = rcgen::generate_simple_self_signed(vec![role.to_owned()]);
    let certificate = certificate.expect("a name is enough").cert.pem();
    let secrets = [
        (secret("TRIAD_KAFKA_SECRET"), login.to_string()),
        (
            secret("TRIAD_KAFKA_CA_SECRET"),
            json!({"certificate": certificate}).to_string(),
        ),
    ];
    let secrets = secrets
        .into_iter()
        .filter_map(|(id, text)| Some((id?, text)));
    // The Supervisor's first invocation is a sweep, which needs tables.
    let tables = Store::with_prefix(&variables["TRIAD_PREFIX"]).await;
    let gate = IamGate::start(tables.url(), rights.clone(), secrets.collect()).await;
    variables.insert("TRIAD_BROKERS".into(), NOWHERE.into());
    let kind = if role.starts_with("agent-") {
        "agent"
    } else {
        role
    };
    if kind == "console" {
        // In a real installation, Terraform generates the key.
        variables.insert("TRIAD_CONSOLE_KEY".into(), super::console::KEY.into());
    }
    let api = RuntimeApi::start();
    let _function = spawn(&api, kind, &variables, &gate);
    let first = match kind {
        "supervisor" => "{}".to_owned(),
        "setup" => publication().to_string(),
        "console" => json!({"version": "2.0", "rawPath": "/console/",
            "requestContext": {"http": {"method": "GET"}}})
        .to_string(),
        _ => event(&[]),
    };
    let answer = api.invoke(first, INVOCATION).await;
    let told = match answer {
        Ok(Answer::Response(_)) => "done",
        Ok(Answer::FunctionError { .. }) | Err(_) => "failed",
    };
    let fact = format!("its start and first work: {told}");
    Run {
        facts: [fact].into(),
        noted: rights.noted(),
    }
}

/// The request to publish a workflow.
fn publication() -> Value {
    let workflow =
        "workflow: w\nsteps: [{id: a, agent: payment, action: charge, compensation: none}]";
    json!({"do": "publish", "files": {"w.yaml": workflow}, "agents": ["payment"]})
}

/// The run of the setup function that publishes a workflow.
pub(super) async fn setup(installation: &Installation, policy: &Policy) -> Run {
    let rights = Rights::of(policy);
    let mut variables = installation.variables["setup"].clone();
    for own in [
        "TRIAD_KAFKA_AUTH",
        "TRIAD_KAFKA_SECRET",
        "TRIAD_KAFKA_CA_SECRET",
        "TRIAD_KAFKA_SETTINGS",
    ] {
        variables.remove(own);
    }
    variables.insert("TRIAD_BROKERS".into(), NOWHERE.into());
    let tables = Store::with_prefix(&variables["TRIAD_PREFIX"]).await;
    let gate = IamGate::start(tables.url(), rights.clone(), BTreeMap::new()).await;
    let api = RuntimeApi::start();
    let _function = spawn(&api, "setup", &variables, &gate);
    let answer = api.invoke(publication().to_string(), INVOCATION).await;
    let told = match answer {
        Ok(Answer::Response(_)) => "done",
        Ok(Answer::FunctionError { .. }) | Err(_) => "failed",
    };
    Run {
        facts: [format!("a workflow is published: {told}")].into(),
        noted: rights.noted(),
    }
}

fn spawn(
    api: &RuntimeApi,
    kind: &str,
    variables: &BTreeMap<String, String>,
    gate: &IamGate,
) -> triad_tests::runtime_api::Function {
    let url = gate.url();
    let own = [
        ("AWS_ENDPOINT_URL", url.as_str()),
        ("AWS_ACCESS_KEY_ID", "test"),
        ("AWS_SECRET_ACCESS_KEY", "test"),
        // No log: the refusals that it would report are expected.
        ("TRIAD_LOG", "off"),
    ];
    let told = variables
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()));
    let all = told.filter(|(name, _)| *name != "TRIAD_LOG").chain(own);
    let function = api.spawn(&binary(&format!("triad-{kind}")), all);
    function.expect("the function starts")
}
