//! The run of an agent: requests on both lanes, one with counted calls, a failing service, and records that cannot be
//! handled.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use triad_bootstrap::{Config, http_remotes};
use triad_core::Priority;
use triad_core::breaker::BreakerSettings;
use triad_core::topics;
use triad_runtime::agent::{Agent, Remotes};
use triad_runtime::settings::{DownstreamSettings, Settings};
use triad_runtime::system::SystemEntropy;
use triad_runtime::{Call, Fault, InputRecord, RemoteService};
use triad_workflow::{AgentName, Millis};

use crate::policy::{Installation, Policy};
use crate::world::{Run, World, poison, record};

/// Number of failed calls that opens the circuit breaker.
const FAILURES: u32 = 2;

/// A service that fails once the flag is set.
#[derive(Clone, Default)]
struct Service(Arc<AtomicBool>);

impl RemoteService for Service {
    async fn call(&self, _: Call<'_>) -> Result<Value, Fault> {
        if !self.0.load(Ordering::SeqCst) {
            return Ok(json!({}));
        }
        Err(Fault::Transient {
            code: "http-503".into(),
            message: "busy".into(),
            retry_after: None,
            maybe_applied: true,
        })
    }
}

/// The configuration of an agent that needs AWS, as the module sets it; `None` if the agent does not need AWS. In place
/// of an HTTP service the agent calls one of the test, which answers every call.
async fn with_aws(world: &World, name: &AgentName) -> Option<Config> {
    let mut config = world.wiring.config.clone();
    let agent = config.agents.get_mut(name)?;
    if agent.base_url.is_some() {
        agent.auth.as_ref()?;
        let routes = axum::Router::new().fallback(|| async { "{}" });
        let address = triad_tests::http::serve(routes).await;
        agent.base_url = Some(format!("http://{address}"));
    }
    Some(config)
}

pub(super) async fn run(installation: &Installation, agent: &str, policy: &Policy) -> Run {
    let world = World::start(installation, &format!("agent-{agent}"), policy).await;
    let name = AgentName::new(agent).expect("a name");
    let service = Service::default();
    let breaker = BreakerSettings {
        window: FAILURES,
        minimum: FAILURES,
        ..BreakerSettings::default()
    };
    let limits = DownstreamSettings {
        breaker,
        ..DownstreamSettings::default()
    };
    let settings = Settings {
        downstreams: [(name.clone(), limits)].into(),
        ..world.settings()
    };
    let role = Agent::new(
        Remotes::new().with(name.clone(), service.clone()),
        world.wiring.store.clone(),
        world.line.clone(),
        world.clock.clone(),
        SystemEntropy,
        settings,
    );
    let request = |id: &str, lane: Priority, counted: bool| -> InputRecord {
        let request = json!({
            "order_id": id, "step": "charge", "direction": "forward", "attempt": 1,
            "complete_by": world.now() + 90_000, "attempt_timeout_ms": 30_000, "allowance": 1,
            "backoff_initial_ms": 10, "backoff_max_ms": 10, "counted": counted,
            "idempotency_key": format!("{id}/charge/forward"), "action": "charge", "input": {},
            "priority": lane, "agent": agent, "workflow": "shop",
        });
        record(&topics::agent(&name, lane), &request)
    };
    let take = async |what: &str, record: InputRecord| {
        let handled = role.handle(&[record], None).await;
        world.note_handled(what, &handled);
    };
    if let Some(mut config) = with_aws(&world, &name).await {
        // Three calls: if all are refused, the circuit breaker opens and sends an alert.
        let own = config.settings.clone();
        config.agents.retain(|agent, _| *agent == name);
        let remotes = http_remotes(&config, &world.account().into()).expect("sound settings");
        let (store, line) = (world.wiring.store.clone(), world.line.clone());
        let role = Agent::new(
            remotes,
            store,
            line,
            world.clock.clone(),
            SystemEntropy,
            own,
        );
        for n in 0..3 {
            let record = request(&format!("aws-{n}"), Priority::Normal, false);
            let handled = role.handle(&[record], None).await;
            world.note_handled("one whose call needs AWS", &handled);
        }
        let sent = world.line.sent();
        if sent.iter().any(|message| message.topic == topics::ALERTS) {
            world.note("sent to alerts: that calls which need AWS are refused");
        }
    }
    take("a request", request("a", Priority::Normal, false)).await;
    take("one on the high lane", request("h", Priority::High, false)).await;
    take(
        "one whose calls are counted",
        request("c", Priority::Normal, true),
    )
    .await;
    take(
        "no request",
        poison(&topics::agent(&name, Priority::Normal)),
    )
    .await;
    service.0.store(true, Ordering::SeqCst);
    for n in 0..FAILURES {
        take(
            "one whose call fails",
            request(&format!("f-{n}"), Priority::Normal, false),
        )
        .await;
    }
    // After a minute, the agent reads the shared records of the control table again.
    world.pass(Millis(60_000));
    take(
        "one while the service is away",
        request("o", Priority::Normal, false),
    )
    .await;
    world
        .note_control(&[
            &format!("downstream/{agent}"),
            "call/c/charge/forward/forward/1",
        ])
        .await;
    world.end()
}
