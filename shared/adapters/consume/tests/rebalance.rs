//! Both consumer loops, in virtual time, while the group revokes and reassigns partitions at any poll, also between
//! the reading of a record and its handling. All random choices come from a seed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use triad_consume::{
    Assignment, Broker, Consumer, Partition, Polled, WorkerConfig, run_batches, run_stream,
};
use triad_core::Envelope;
use triad_runtime::{Bus, BusError, Handled, InputRecord, Redelivery};

const TOPIC: &str = "work";
const HIGH: &str = "work.high";
const PARTITIONS: i32 = 2;
/// Number of records in each partition.
const RECORDS: i64 = 100;
/// Most records of one partition that the loop of batches reads beyond the first unfinished record: a batch, and one
/// more for each half minute for which a handler hangs.
const READ_AHEAD: i64 = 12;
const SEEDS: u64 = 24;
/// How long, in virtual time, partitions are moved and handlers fail.
const UNREST: Duration = Duration::from_secs(600);
/// After that time, every record must be handled and committed within this virtual time.
const CALM_WITHIN: Duration = Duration::from_secs(1_800);

/// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators").
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }
}

/// One partition: its records, the committed offset, and the position of the member under test.
#[derive(Default)]
struct Part {
    committed: i64,
    /// The next offset to deliver.
    position: i64,
    stored: Option<i64>,
    is_paused: bool,
    /// Offsets that some member has handled.
    done: BTreeSet<i64>,
}

impl Part {
    fn first_left(&self) -> i64 {
        (0..).find(|offset| !self.done.contains(offset)).unwrap()
    }
}

/// The consumer group of the normal lane.
struct Group {
    chance: Chance,
    parts: BTreeMap<i32, Part>,
    /// Whether the partitions are assigned to the member under test.
    is_ours: bool,
    calm_from: Instant,
    /// How often the partitions were revoked.
    moves: u32,
    /// Most records of one partition between its first unfinished record and the last record read.
    read_ahead: i64,
    breach: Option<String>,
}

impl Group {
    fn new(seed: u64, read_ahead: i64) -> Self {
        Self {
            read_ahead,
            chance: Chance(seed),
            parts: (0..PARTITIONS).map(|at| (at, Part::default())).collect(),
            is_ours: true,
            calm_from: Instant::now() + UNREST,
            moves: 0,
            breach: None,
        }
    }

    fn is_calm(&self) -> bool {
        Instant::now() >= self.calm_from
    }

    /// Commits an offset. A broker accepts a commit of any member of the group, whether or not the partition is
    /// assigned to it.
    fn commit(&mut self, at: i32, next: i64) {
        let part = self.parts.get_mut(&at).expect("a partition");
        part.committed = next;
        let left = part.first_left();
        if next > left && self.breach.is_none() {
            self.breach = Some(format!("{next} of {at} is committed, and {left} not done"));
        }
    }

    fn commit_stored(&mut self) {
        for at in 0..PARTITIONS {
            if let Some(next) = self.parts.get_mut(&at).and_then(|p| p.stored.take()) {
                self.commit(at, next);
            }
        }
    }

    /// May revoke or reassign the partitions when the member polls.
    fn rebalance(&mut self, assignment: &Assignment) {
        if self.is_ours && !self.is_calm() && self.chance.one_in(12) {
            self.commit_stored();
            assignment.revoke((0..PARTITIONS).map(|at| (TOPIC.to_owned(), at)));
            self.is_ours = false;
            self.moves += 1;
        }
        // Often revoked and reassigned in one poll, so that the loop sees only the revocation.
        if self.is_ours || !(self.is_calm() || self.chance.one_in(2)) {
            return;
        }
        for at in 0..PARTITIONS {
            let others_do = i64::try_from(self.chance.below(4)).unwrap_or(0);
            let part = self.parts.get_mut(&at).expect("a partition");
            let next = (part.committed + others_do).min(RECORDS);
            part.done.extend(part.committed..next);
            self.commit(at, next);
            let part = self.parts.get_mut(&at).expect("a partition");
            part.position = part.committed;
            part.stored = None;
            part.is_paused = false;
        }
        self.is_ours = true;
    }

    fn take(&mut self) -> Option<Polled> {
        if !self.is_ours {
            return None;
        }
        let begin = i32::try_from(self.chance.below(PARTITIONS as u64)).unwrap_or(0);
        for at in (0..PARTITIONS).map(|n| (n + begin) % PARTITIONS) {
            let part = self.parts.get_mut(&at).expect("a partition");
            if part.is_paused || part.position >= RECORDS {
                continue;
            }
            part.position += 1;
            let ahead = part.position - part.first_left();
            if ahead > self.read_ahead && self.breach.is_none() {
                self.breach = Some(format!("of {at} the loop has {ahead} records at once"));
            }
            return Some(Polled::Record(InputRecord {
                topic: TOPIC.to_owned(),
                partition: at,
                offset: part.position - 1,
                ..InputRecord::default()
            }));
        }
        None
    }
}

#[derive(Clone)]
struct Moving(Arc<Mutex<Group>>);

impl Moving {
    fn group(&self) -> MutexGuard<'_, Group> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long the handler takes for `count` records, and its results.
    fn handling(&self, count: usize) -> (Duration, Vec<Handled>) {
        let mut group = self.group();
        let hangs = !group.is_calm() && group.chance.one_in(3);
        let ms = match hangs {
            true => 30_000 + group.chance.below(120_000),
            false => group.chance.below(500),
        };
        let fails_from = match !group.is_calm() && group.chance.one_in(2) {
            true => usize::try_from(group.chance.below(count as u64)).unwrap_or(0),
            false => count,
        };
        let answer = |at| match at < fails_from {
            true => Handled::Done,
            false => Handled::Redeliver(Redelivery::Raced),
        };
        (Duration::from_millis(ms), (0..count).map(answer).collect())
    }

    fn done(&self, record: &InputRecord, answer: &Handled) {
        if answer.is_done() {
            let mut group = self.group();
            let part = group.parts.get_mut(&record.partition).expect("a partition");
            part.done.insert(record.offset);
        }
    }
}

/// A bus for dead letters; this test sends none.
#[derive(Clone)]
struct NoBus;

impl Bus for NoBus {
    async fn publish(&self, messages: Vec<Envelope>) -> Vec<Result<(), BusError>> {
        let refused = |_| Err(BusError::Permanent("nothing is sent here".into()));
        messages.into_iter().map(refused).collect()
    }
}

impl Broker for Moving {
    type Consumer = Member;
    type Bus = NoBus;
    type Error = BusError;

    fn join(&self, _: &str, topic: &str) -> Result<Member, BusError> {
        Ok(Member {
            moving: (topic == TOPIC).then(|| self.clone()),
            assignment: Assignment::default(),
        })
    }

    fn bus(&self) -> Result<NoBus, BusError> {
        Ok(NoBus)
    }

    fn flush(_: &NoBus, _: Duration) {}

    fn address(&self) -> &str {
        "nowhere"
    }
}

/// The consumer group member under test; its high lane is empty.
struct Member {
    moving: Option<Moving>,
    assignment: Assignment,
}

impl Member {
    fn with<T>(&self, act: impl FnOnce(&mut Group) -> T) -> Option<T> {
        self.moving.as_ref().map(|moving| act(&mut moving.group()))
    }

    fn on_ours(&self, at: i32, act: impl FnOnce(&mut Part)) {
        self.with(|group| {
            if group.is_ours {
                act(group.parts.get_mut(&at).expect("a partition"));
            }
        });
    }
}

impl Consumer for Member {
    async fn next(&self) -> Polled {
        loop {
            if let Some(found) = self.at_hand() {
                return found;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    fn at_hand(&self) -> Option<Polled> {
        self.with(|group| {
            group.rebalance(&self.assignment);
            group.take()
        })?
    }

    fn pause(&self, (_, at): &Partition, paused: bool) {
        self.on_ours(*at, |part| part.is_paused = paused);
    }

    fn store(&self, (_, at): &Partition, next: i64) {
        self.on_ours(*at, |part| part.stored = Some(next));
    }

    fn commit(&self) {
        self.with(Group::commit_stored);
    }

    fn commit_and_wait(&self) {
        self.commit();
    }

    fn unread(&self) -> Option<u64> {
        None
    }

    fn assignment(&self) -> &Assignment {
        &self.assignment
    }
}

/// Runs a loop until everything is committed or the virtual time is over; returns the number of revocations.
async fn run<R>(
    seed: u64,
    (max_records, read_ahead): (usize, i64),
    start: impl FnOnce(WorkerConfig<Moving>, CancellationToken, Moving) -> R,
) -> u32
where
    R: Future<Output = ()> + Send + 'static,
{
    let moving = Moving(Arc::new(Mutex::new(Group::new(seed, read_ahead))));
    let config = WorkerConfig {
        broker: moving.clone(),
        group: "readers".to_owned(),
        high: Some(HIGH.to_owned()),
        normal: TOPIC.to_owned(),
        max_records,
    };
    let stop = CancellationToken::new();
    let reading = tokio::spawn(start(config, stop.clone(), moving.clone()));
    let until = Instant::now() + UNREST + CALM_WITHIN;
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let group = moving.group();
        if let Some(breach) = &group.breach {
            panic!("seed {seed}: {breach}");
        }
        if group.parts.values().all(|part| part.committed == RECORDS) {
            break;
        }
        let left: Vec<i64> = group.parts.values().map(Part::first_left).collect();
        assert!(Instant::now() < until, "seed {seed}: {left:?} are not done");
    }
    stop.cancel();
    reading.await.expect("the loop ends");
    moving.group().moves
}

#[tokio::test(start_paused = true)]
async fn batches_commit_nothing_behind_what_a_rebalance_took_from_them() {
    let mut moves = 0;
    for seed in 0..SEEDS {
        moves += run(seed, (4, READ_AHEAD), |config, stop, moving| async move {
            let handle = move |records: Arc<Vec<InputRecord>>| {
                let moving = moving.clone();
                async move {
                    let (span, answers) = moving.handling(records.len());
                    tokio::time::sleep(span).await;
                    let both = records.iter().zip(&answers);
                    both.for_each(|(record, answer)| moving.done(record, answer));
                    answers
                }
            };
            run_batches(config, stop, handle).await.expect("it reads");
        })
        .await;
    }
    assert!(u64::from(moves) > SEEDS, "{moves}");
}

#[tokio::test(start_paused = true)]
async fn a_stream_commits_nothing_behind_what_a_rebalance_took_from_it() {
    let mut moves = 0;
    for seed in 0..SEEDS {
        moves += run(seed, (3, i64::MAX), |config, stop, moving| async move {
            let handle = move |record: Arc<InputRecord>| {
                let moving = moving.clone();
                async move {
                    let (span, mut answers) = moving.handling(1);
                    tokio::time::sleep(span).await;
                    let answer = answers.remove(0);
                    moving.done(&record, &answer);
                    answer
                }
            };
            run_stream(config, stop, handle).await.expect("it reads");
        })
        .await;
    }
    assert!(u64::from(moves) > SEEDS, "{moves}");
}
