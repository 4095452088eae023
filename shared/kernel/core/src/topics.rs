//! Topic names, in one place for the code and the CLI. `infra/topics.tf` spells them once more, for the roles:
//! tests run every handler under these roles and write to the topics of this module.

use triad_workflow::{AgentName, names::check_name};

use crate::ids::Priority;

/// Topic of the orders of normal priority, as applications submit them.
pub const ORDERS: &str = "orders";
/// Topic of the orders of high priority, as applications submit them.
pub const ORDERS_HIGH: &str = "orders.high";
/// Topic of all messages to the Scheduler about orders of normal priority.
pub const SCHEDULER: &str = "scheduler";
/// Topic of all messages to the Scheduler about orders of high priority.
pub const SCHEDULER_HIGH: &str = "scheduler.high";
/// Topic of the status messages of orders without a reply topic.
pub const STATUS: &str = "status";
/// Topic of the alerts for operators: see [`AlertKind`](crate::message::AlertKind).
pub const ALERTS: &str = "alerts";
/// Topic of the records that no function can take, each with its cause.
pub const DEAD_LETTER: &str = "dead-letter";
/// What the name of every reply topic begins with.
pub const REPLY_PREFIX: &str = "reply.";

/// Topic of an agent's requests: `agent.<name>`, or `agent.<name>.high` for high priority.
#[must_use]
pub fn agent(name: &AgentName, priority: Priority) -> String {
    match priority {
        Priority::Normal => format!("agent.{name}"),
        Priority::High => format!("agent.{name}.high"),
    }
}

/// Topic to which applications submit orders of this priority.
#[must_use]
pub fn orders(priority: Priority) -> &'static str {
    match priority {
        Priority::Normal => ORDERS,
        Priority::High => ORDERS_HIGH,
    }
}

/// Topic of the Scheduler for orders of this priority. All messages about one order go to the same
/// topic, so that its events stay in their order.
#[must_use]
pub fn scheduler(priority: Priority) -> &'static str {
    match priority {
        Priority::Normal => SCHEDULER,
        Priority::High => SCHEDULER_HIGH,
    }
}

/// Whether this is one of the two topics that the Scheduler reads.
#[must_use]
pub fn is_scheduler(topic: &str) -> bool {
    [SCHEDULER, SCHEDULER_HIGH].contains(&topic)
}

/// Whether Triad takes its input from topics of this name: orders, the Scheduler's messages, or the requests
/// of an agent with any valid name. A dead letter is always about a record of such a topic.
#[must_use]
pub fn is_input(topic: &str) -> bool {
    [ORDERS, ORDERS_HIGH].contains(&topic) || is_scheduler(topic) || {
        let agent = topic.strip_prefix("agent.");
        agent.is_some_and(|rest| check_name(rest.strip_suffix(".high").unwrap_or(rest)).is_ok())
    }
}

/// Whether a text has the form of a reply topic: `reply.` and a name that keeps the rule of
/// [`check_name`]. Whether the topic is on the allow-list is not checked here.
#[must_use]
pub fn is_reply_topic(text: &str) -> bool {
    text.strip_prefix(REPLY_PREFIX)
        .is_some_and(|app| check_name(app).is_ok())
}

/// Every topic of an installation with these agents and reply topics: seven fixed ones, two for
/// each agent, then the reply topics as they are given.
#[must_use]
pub fn all(agents: &[AgentName], reply_topics: &[String]) -> Vec<String> {
    let fixed = [
        ORDERS,
        ORDERS_HIGH,
        SCHEDULER,
        SCHEDULER_HIGH,
        STATUS,
        ALERTS,
        DEAD_LETTER,
    ];
    let mut topics: Vec<String> = fixed.iter().map(ToString::to_string).collect();
    for name in agents {
        topics.push(agent(name, Priority::Normal));
        topics.push(agent(name, Priority::High));
    }
    topics.extend(reply_topics.iter().cloned());
    topics
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_lane_has_topics_of_its_own_and_all_of_them_are_made() {
        let payment = AgentName::new("payment").unwrap();
        let made = all(std::slice::from_ref(&payment), &["reply.shop".to_owned()]);
        let of = |p| {
            [
                orders(p).to_owned(),
                scheduler(p).to_owned(),
                agent(&payment, p),
            ]
        };
        for (high, normal) in of(Priority::High).into_iter().zip(of(Priority::Normal)) {
            assert_eq!(high, format!("{normal}.high"));
            for topic in [high, normal] {
                assert!(made.contains(&topic), "{topic}");
                assert!(is_input(&topic), "{topic}");
            }
        }
    }

    #[test]
    fn what_triad_only_writes_is_no_input() {
        for topic in [
            STATUS,
            ALERTS,
            DEAD_LETTER,
            "reply.shop",
            "agent.",
            "agent..high",
            "agent.a.b",
            "other",
        ] {
            assert!(!is_input(topic), "{topic}");
        }
    }
}
