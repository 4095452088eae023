//! Waits, after the last fault, until all work has ended.

use std::time::Duration;

use anyhow::{Context, Result};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use tokio::time::{Instant, sleep};
use triad_core::{Priority, Timestamp, topics};
use triad_dynamodb::DynamoStore;
use triad_runtime::StateStore;
use triad_runtime::system::SystemClock;

use super::evidence::Offsets;
use super::installation::Installation;

/// Longest wait for one answer of the broker.
const ANSWER: Duration = Duration::from_secs(20);
/// Interval between two checks.
const EVERY: Duration = Duration::from_millis(500);
/// Number of shards of the due index.
const SHARDS: u32 = 16;
/// Most rows that are read of a shard; further rows are counted.
const ROWS: u32 = 1_000;

/// Waits until no order is in the due index and every group has read its topics to their end, in two consecutive
/// checks. After `within`, returns the work that is left.
///
/// # Errors If broker or store do not answer.
pub async fn wait_until_quiet(
    installation: &Installation,
    within: Duration,
) -> Result<(Vec<String>, Vec<Offsets>)> {
    let store = installation.state_store().await;
    let until = Instant::now() + within;
    let mut quiet = 0;
    loop {
        let due = due(&store).await?;
        let offsets = offsets(installation).await?;
        let behind = offsets.iter().filter(|o| !o.is_at_end()).count();
        quiet = if due == 0 && behind == 0 {
            quiet + 1
        } else {
            0
        };
        if quiet == 2 {
            return Ok((Vec::new(), offsets));
        }
        if Instant::now() > until {
            let mut left = vec![format!("{due} orders are due")];
            let behind = offsets.iter().filter(|o| !o.is_at_end());
            left.extend(behind.map(|o| format!("{o:?}")));
            return Ok((left, offsets));
        }
        sleep(EVERY).await;
    }
}

/// Number of orders in the due index: unfinished, or with an unconfirmed status.
async fn due(store: &DynamoStore<SystemClock>) -> Result<usize> {
    let mut rows = 0;
    for shard in 0..SHARDS {
        let page = store.due(shard, Timestamp(u64::MAX), ROWS, None).await?;
        rows += page.rows.len();
    }
    Ok(rows)
}

/// The consumer groups, each with its topic.
fn groups(installation: &Installation) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for lane in [Priority::Normal, Priority::High] {
        let fixed = [topics::orders(lane), topics::scheduler(lane)].map(str::to_owned);
        let agents = installation.agents().into_iter();
        let agents = agents.map(|agent| topics::agent(&agent, lane));
        all.extend(
            fixed
                .into_iter()
                .chain(agents)
                .map(|topic| (topics::group("", &topic), topic)),
        );
    }
    all
}

async fn offsets(installation: &Installation) -> Result<Vec<Offsets>> {
    let brokers = installation.places.brokers.clone();
    let groups = groups(installation);
    let ask = move || {
        groups
            .iter()
            .map(|(g, t)| of_group(&brokers, g, t))
            .collect()
    };
    let all: Result<Vec<Vec<Offsets>>> = tokio::task::spawn_blocking(ask).await?;
    Ok(all?.into_iter().flatten().collect())
}

fn of_group(brokers: &str, group: &str, topic: &str) -> Result<Vec<Offsets>> {
    let client: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", brokers)
        .set("group.id", group)
        .create()?;
    let told = || format!("the offsets of {group}");
    let metadata = client
        .fetch_metadata(Some(topic), ANSWER)
        .with_context(told)?;
    let mut asked = TopicPartitionList::new();
    for partition in metadata.topics().iter().flat_map(|t| t.partitions()) {
        asked.add_partition(topic, partition.id());
    }
    let committed = client.committed_offsets(asked, ANSWER).with_context(told)?;
    let mut all = Vec::new();
    for element in committed.elements() {
        let partition = element.partition();
        all.push(Offsets {
            group: group.to_owned(),
            topic: topic.to_owned(),
            partition,
            committed: match element.offset() {
                Offset::Offset(at) => Some(at),
                _ => None,
            },
            held: client
                .fetch_watermarks(topic, partition, ANSWER)
                .with_context(told)?,
        });
    }
    Ok(all)
}
