//! Topic names, in one place for the code, the CLI and the templates.

use triad_workflow::{AgentName, names::check_name};

use crate::order::Priority;

/// Order submissions.
pub const ORDERS: &str = "orders";
/// Order submissions of the high lane.
pub const ORDERS_HIGH: &str = "orders.high";
/// Everything that the Scheduler handles.
pub const SCHEDULER: &str = "scheduler";
/// Default topic of status messages.
pub const STATUS: &str = "status";
/// Alerts for operators.
pub const ALERTS: &str = "alerts";
/// Records that could not be taken, with their cause.
pub const DEAD_LETTER: &str = "dead-letter";
/// What every allow-listed reply topic begins with.
pub const REPLY_PREFIX: &str = "reply.";

/// Topic of an agent's requests.
#[must_use]
pub fn agent(name: &AgentName, priority: Priority) -> String {
    match priority {
        Priority::Normal => format!("agent.{name}"),
        Priority::High => format!("agent.{name}.high"),
    }
}

/// Whether a topic is the Scheduler's, of either lane.
#[must_use]
pub fn is_scheduler(topic: &str) -> bool {
    topic == SCHEDULER || topic == "scheduler.high"
}

/// Topic of submissions.
#[must_use]
pub fn orders(priority: Priority) -> &'static str {
    match priority {
        Priority::Normal => ORDERS,
        Priority::High => ORDERS_HIGH,
    }
}

/// Whether a text has the form of a reply topic: `reply.` and a name.
#[must_use]
pub fn is_reply_topic(text: &str) -> bool {
    text.strip_prefix(REPLY_PREFIX)
        .is_some_and(|app| check_name(app).is_ok())
}

/// Every topic of an installation.
#[must_use]
pub fn all(agents: &[AgentName], reply_topics: &[String]) -> Vec<String> {
    let fixed = [ORDERS, ORDERS_HIGH, SCHEDULER, STATUS, ALERTS, DEAD_LETTER];
    let mut topics: Vec<String> = fixed.iter().map(ToString::to_string).collect();
    for name in agents {
        topics.push(agent(name, Priority::Normal));
        topics.push(agent(name, Priority::High));
    }
    topics.extend(reply_topics.iter().cloned());
    topics
}
