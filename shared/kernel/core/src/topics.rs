//! Topic names, in one place for the code and the CLI. `infra/topics.tf` spells them once more, for the roles:
//! tests run every handler under these roles and write to the topics of this module.

use triad_workflow::{AgentName, Millis, names::check_name};

use crate::ids::Priority;

/// Topic of the orders of normal priority, as applications submit them.
pub const ORDERS: &str = "orders";
/// Topic of the orders of high priority, as applications submit them.
pub const ORDERS_HIGH: &str = "orders.high";
/// Topic of events from outside about orders of either priority.
pub const EVENTS: &str = "events";
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

/// How long Kafka keeps the records of a topic, unless an installation says otherwise: orders and events for 14 days, so that they
/// can be read again after a restore of the tables; dead letters for 30 days, to be replayed; all others for 7 days.
#[must_use]
pub fn retention(topic: &str) -> Millis {
    const DAY: u64 = 24 * 3_600_000;
    Millis(match topic {
        ORDERS | ORDERS_HIGH | EVENTS => 14 * DAY,
        DEAD_LETTER => 30 * DAY,
        _ => 7 * DAY,
    })
}

/// Most characters of an installation's prefix.
const MAX_PREFIX: usize = 20;

/// Reads what the names of an installation's topics, consumer groups and tables begin with: empty, or 2 to 20
/// lower-case letters, digits and hyphens, of which the first is a letter and the last a hyphen. The Terraform module
/// has the same rule for `name_prefix`.
///
/// # Errors
/// The rule, if the text does not keep it.
pub fn prefix(text: &str) -> Result<String, String> {
    let is_plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let is_prefix = text.len() <= MAX_PREFIX
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.ends_with('-')
        && text.bytes().all(is_plain);
    match text.is_empty() || is_prefix {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "{text:?} is no prefix: write 2 to {MAX_PREFIX} lower-case letters, digits and hyphens, beginning with a letter and ending with a hyphen, such as shop-"
        )),
    }
}

/// What the names of consumer groups begin with in an installation without a prefix.
pub const GROUPS: &str = "triad-";

/// Consumer group that reads a topic, for a worker and for the event source mapping of a function alike: so a worker
/// goes on where functions stopped, and beside them takes a part of the partitions. `prefix`: that of the installation.
#[must_use]
pub fn group(prefix: &str, topic: &str) -> String {
    let prefix = if prefix.is_empty() { GROUPS } else { prefix };
    format!("{prefix}{topic}")
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

/// Whether Triad takes its input from topics of this name: orders, events, the Scheduler's messages, or the requests
/// of an agent with any valid name. A dead letter is always about a record of such a topic.
#[must_use]
pub fn is_input(topic: &str) -> bool {
    [ORDERS, ORDERS_HIGH, EVENTS].contains(&topic) || is_between_handlers(topic)
}

/// Whether Triad's handlers alone write and read this topic: the two of the Scheduler, with announcements, wakes and
/// replies, and those of the agents, with requests. One machine keeps such a topic in memory, because a start makes its
/// content again from the records ([`under_way`](crate::effect::under_way)); a reply that nobody has acted on comes
/// again for its request.
#[must_use]
pub fn is_between_handlers(topic: &str) -> bool {
    is_scheduler(topic) || {
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

/// Every topic of an installation with these agents and reply topics: eight fixed ones, two for
/// each agent, then the reply topics as they are given.
#[must_use]
pub fn all(agents: &[AgentName], reply_topics: &[String]) -> Vec<String> {
    let fixed = [
        ORDERS,
        ORDERS_HIGH,
        EVENTS,
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
    fn names_in_kafka_begin_with_the_prefix() {
        assert_eq!(group("", "agent.bank.high"), "triad-agent.bank.high");
        assert_eq!(group("shop-", "orders"), "shop-orders");
        for good in ["", "s-", "shop-eu-1-"] {
            assert_eq!(prefix(good).as_deref(), Ok(good));
        }
        for bad in [
            "-",
            "shop",
            "Shop-",
            "1-",
            "a.b-",
            "sh op-",
            &format!("{}-", "a".repeat(20)),
        ] {
            assert!(prefix(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn topics_between_handlers_are_those_of_schedulers_and_agents() {
        for topic in [SCHEDULER, SCHEDULER_HIGH, "agent.bank", "agent.bank.high"] {
            assert!(is_between_handlers(topic), "{topic}");
        }
        for topic in [
            ORDERS,
            ORDERS_HIGH,
            EVENTS,
            STATUS,
            ALERTS,
            DEAD_LETTER,
            "reply.shop",
            "agent.",
            "agent.a.b",
        ] {
            assert!(!is_between_handlers(topic), "{topic}");
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
