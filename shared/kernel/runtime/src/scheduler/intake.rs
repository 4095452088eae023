//! Which orders may start: a window before each downstream, the orders under way, and the waiting ones.
//!
//! An order starts when every downstream that it still needs has room for one more, and the Scheduler itself has,
//! which counts as another downstream: unread replies are its queue. An order without room is not written, and waits
//! here, oldest first; its announcement is acknowledged, and the Supervisor finds its record if this process dies or
//! has too many.
//!
//! An order under way counts for the downstreams that it is at, and for those ahead of it while it makes progress. An
//! order that is held up at a slow downstream reaches the others at the pace of the slow one, and takes no room from
//! orders that need only them.
//!
//! All of it belongs to this process and may be lost. An order under way whose further events another process handles
//! is forgotten after [`FORGOTTEN_AFTER`], so nothing leaks. If no message of its partition was read meanwhile,
//! another process reads that partition, and orders of it that wait here are left to that process: otherwise each
//! order that starts here would take room for that time, and the others would wait behind it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use triad_core::message::Pace;
use triad_core::window::Window;
use triad_core::{OrderId, Priority, Timestamp};
use triad_workflow::{AgentName, Millis};

use crate::pressure::Pressure;
use crate::record::InputRecord;

/// Time without an event after which an order under way is no longer counted here.
const FORGOTTEN_AFTER: Millis = Millis(30_000);
/// Time without an event after which an order counts as held up.
const HELD_UP_AFTER: Millis = Millis(1_000);
/// An order that was let in is written within this time, or will not be because of a fault.
const BEGUN_WITHIN: Millis = Millis(5_000);
/// How often both are checked.
const SWEPT_EVERY: Millis = Millis(250);
/// Most bytes of waiting records that are kept whole; of further ones only the order's id is kept, and the details
/// are read when the order starts.
const KEPT_BYTES: usize = 8 * 1024 * 1024;

/// The downstreams that an order still needs.
pub(super) type Needs = BTreeSet<AgentName>;

/// Result for an order that is to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InboxEntry {
    /// The order is started.
    Start,
    /// The order waits here.
    Waits,
    /// Too many orders wait here already: the Supervisor announces this one later.
    Full,
}

/// An order that is to start.
#[derive(Debug)]
pub(super) struct Candidate<'a> {
    /// The order's id.
    pub order: &'a OrderId,
    /// Since when the order waits to start: the oldest starts first. If an attempt of it was deferred, or no agent
    /// took it, that is the time of its last wake. Otherwise orders whose requests are in a partition without a
    /// reader would start before all younger ones, again and again, and take all the room of their agent.
    pub since: Timestamp,
    /// What the order needs to be started.
    pub needs: Needs,
    /// The message that announces or wakes the order.
    pub record: &'a InputRecord,
}

/// One process's view of both lanes.
#[derive(Debug)]
pub(super) struct Intake {
    normal: Mutex<Lane>,
    high: Mutex<Lane>,
    most_waiting: usize,
    skew: Millis,
}

#[derive(Debug, Default)]
struct Lane {
    own: Window,
    windows: BTreeMap<AgentName, Window>,
    under_way: HashMap<OrderId, UnderWay>,
    /// How many of the orders under way make progress ([`UnderWay::moves`]).
    moving: u32,
    counts: BTreeMap<AgentName, u32>,
    swept_at: Timestamp,
    /// The waiting orders, by the downstreams that they need, each group by age.
    waiting: BTreeMap<Needs, BTreeMap<(Timestamp, OrderId), InputRecord>>,
    ids: HashSet<OrderId>,
    kept_bytes: usize,
    /// When a message of each partition was last read.
    read_at: HashMap<i32, Timestamp>,
}

/// An order under way, and the downstreams that it counts for.
#[derive(Debug)]
struct UnderWay {
    /// The downstreams that the order is at; none while it is being started.
    at: Needs,
    /// The downstreams that the order still needs. It counts for them until it is held up.
    ahead: Needs,
    /// Whether the order makes progress, and so counts for the Scheduler itself.
    moves: bool,
    heard_at: Timestamp,
    /// The partition of the message that started the order; `None` if another process has started it.
    from: Option<i32>,
}

impl Intake {
    pub(super) fn new(most_waiting: usize, skew: Millis) -> Self {
        Self {
            normal: Mutex::default(),
            high: Mutex::default(),
            most_waiting,
            skew,
        }
    }

    fn lane(&self, lane: Priority) -> MutexGuard<'_, Lane> {
        let lane = match lane {
            Priority::Normal => &self.normal,
            Priority::High => &self.high,
        };
        lane.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an order in: it starts now, or waits. No order starts before an older one with the same needs.
    pub(super) fn enter(
        &self,
        lane: Priority,
        candidate: Candidate<'_>,
        now: Timestamp,
    ) -> InboxEntry {
        let mut lane = self.lane(lane);
        let id = candidate.order;
        if let Some(known) = lane.under_way.get(id) {
            let begins = known.at.is_empty() && known.heard_at.is_near(now, BEGUN_WITHIN);
            if begins {
                // Another task of this process is about to write the order.
                return InboxEntry::Waits;
            }
            // The order is at no downstream any more, and waits for its turn like all others. If it kept its room,
            // orders whose requests no agent takes would be woken again and again, and leave no room to waiting
            // orders.
            lane.end(id);
        }
        if lane.ids.contains(id) {
            return InboxEntry::Waits;
        }
        let is_next = !lane.waiting.contains_key(&candidate.needs);
        if is_next && lane.has_room(&candidate.needs, now) {
            let from = Some(candidate.record.partition);
            lane.begin(id.clone(), Needs::new(), candidate.needs, from, now);
            return InboxEntry::Start;
        }
        // Orders with the same needs take at most half of the places from the others.
        let same = lane.waiting.get(&candidate.needs).map_or(0, BTreeMap::len);
        if lane.ids.len() >= self.most_waiting || same >= self.most_waiting.div_ceil(2) {
            return InboxEntry::Full;
        }
        lane.wait(candidate);
        InboxEntry::Waits
    }

    /// Notes that this process has read a message of a partition.
    pub(super) fn reads(&self, lane: Priority, partition: i32, now: Timestamp) {
        self.lane(lane).read_at.insert(partition, now);
    }

    /// The next orders that may start, oldest first, at most `most`.
    pub(super) fn next(&self, lane: Priority, most: usize, now: Timestamp) -> Vec<InputRecord> {
        let mut lane = self.lane(lane);
        lane.sweep(now);
        std::iter::from_fn(|| lane.next(now)).take(most).collect()
    }

    /// Whether any order waits here.
    pub(super) fn is_waiting(&self, lane: Priority) -> bool {
        !self.lane(lane).ids.is_empty()
    }

    /// Notes after a write or a read of an order the downstreams that it is at, and all that it still needs. An order
    /// at no downstream is not under way.
    pub(super) fn track(
        &self,
        lane: Priority,
        order: &OrderId,
        at: Needs,
        needs: &Needs,
        now: Timestamp,
    ) {
        let mut lane = self.lane(lane);
        if at.is_empty() {
            lane.end(order);
        } else {
            let ahead = needs.difference(&at).cloned().collect();
            let from = lane.under_way.get(order).and_then(|known| known.from);
            lane.begin(order.clone(), at, ahead, from, now);
        }
    }

    /// Notes that an order could not be written and may come again, or is at no downstream.
    pub(super) fn forget(&self, lane: Priority, order: &OrderId) {
        self.lane(lane).end(order);
    }

    /// Notes an agent's reply, and how long it has waited to be read.
    pub(super) fn answered(
        &self,
        lane: Priority,
        agent: &AgentName,
        pace: Pace,
        unread: Millis,
        now: Timestamp,
    ) {
        let mut lane = self.lane(lane);
        let moving = lane.moving;
        let own = Pace {
            waited_ms: unread.0,
            took_ms: 0,
        };
        lane.own.answered(own, moving, self.skew, now);
        let count = lane.counts.get(agent).copied().unwrap_or(0);
        let window = lane.windows.entry(agent.clone()).or_default();
        window.answered(pace, count, self.skew, now);
    }

    /// Shuts the window of an agent whose downstream must not be called before a moment.
    pub(super) fn shut(&self, lane: Priority, agent: &AgentName, until: Timestamp, now: Timestamp) {
        let mut lane = self.lane(lane);
        let window = lane.windows.entry(agent.clone()).or_default();
        window.shut(until, now);
    }

    /// Shrinks the window of an agent after a request reached a limit of its downstream. `made` is when that request was
    /// made.
    pub(super) fn shrink(
        &self,
        lane: Priority,
        agent: &AgentName,
        made: Timestamp,
        now: Timestamp,
    ) {
        let mut lane = self.lane(lane);
        let window = lane.windows.entry(agent.clone()).or_default();
        window.shrink(made, now);
    }

    /// Number of orders held back, each counted once: for the first agent that it needs and that has no room for it,
    /// or for the Schedulers themselves. Every known agent has an entry.
    pub(super) fn held_back(
        &self,
        now: Timestamp,
    ) -> BTreeMap<(Option<AgentName>, Priority), usize> {
        let mut all = BTreeMap::new();
        for priority in [Priority::High, Priority::Normal] {
            let lane = self.lane(priority);
            let agents = lane.windows.keys().chain(lane.counts.keys());
            let agents = agents.cloned().map(Some);
            all.extend(agents.chain([None]).map(|agent| ((agent, priority), 0)));
            for (needs, group) in &lane.waiting {
                let full = needs.iter().find(|agent| !lane.has_room_at(agent, now));
                *all.entry((full.cloned(), priority)).or_default() += group.len();
            }
        }
        all
    }

    /// The orders held back, by downstream and lane.
    pub(super) fn pressure(&self) -> Vec<Pressure> {
        let of = |priority| self.lane(priority).pressure(priority);
        let mut all: Vec<Pressure> = of(Priority::High);
        all.extend(of(Priority::Normal));
        all
    }
}

fn uncount<'a>(counts: &mut BTreeMap<AgentName, u32>, agents: impl Iterator<Item = &'a AgentName>) {
    for agent in agents {
        if let Some(count) = counts.get_mut(agent) {
            *count = count.saturating_sub(1);
        }
    }
}

impl Lane {
    fn has_room(&self, needs: &Needs, now: Timestamp) -> bool {
        self.own.has_room(self.moving, now)
            && needs.iter().all(|agent| self.has_room_at(agent, now))
    }

    fn has_room_at(&self, agent: &AgentName, now: Timestamp) -> bool {
        let count = self.counts.get(agent).copied().unwrap_or(0);
        let window = self.windows.get(agent);
        window.map_or_else(
            || Window::default().has_room(count, now),
            |w| w.has_room(count, now),
        )
    }

    /// Counts an order for these downstreams instead of those that it counted for before.
    fn begin(
        &mut self,
        order: OrderId,
        at: Needs,
        ahead: Needs,
        from: Option<i32>,
        now: Timestamp,
    ) {
        self.end(&order);
        for agent in at.iter().chain(&ahead) {
            *self.counts.entry(agent.clone()).or_default() += 1;
        }
        self.moving += 1;
        let under_way = UnderWay {
            at,
            ahead,
            moves: true,
            heard_at: now,
            from,
        };
        self.under_way.insert(order, under_way);
    }

    fn end(&mut self, order: &OrderId) {
        if let Some(ended) = self.under_way.remove(order) {
            self.moving = self.moving.saturating_sub(u32::from(ended.moves));
            uncount(&mut self.counts, ended.at.iter().chain(&ended.ahead));
        }
    }

    fn sweep(&mut self, now: Timestamp) {
        if self.swept_at.is_near(now, SWEPT_EVERY) {
            return;
        }
        self.swept_at = now;
        let silent = |u: &UnderWay| !u.heard_at.is_near(now, FORGOTTEN_AFTER);
        let all = self.under_way.iter();
        let forgotten: Vec<_> = all
            .filter(|(_, u)| silent(u))
            .map(|(id, u)| (id.clone(), u.from, u.heard_at))
            .collect();
        let mut elsewhere = BTreeSet::new();
        for (id, from, heard_at) in forgotten {
            self.end(&id);
            let is_read = |p: &i32| self.read_at.get(p).is_some_and(|at| *at > heard_at);
            elsewhere.extend(from.filter(|partition| !is_read(partition)));
        }
        if !elsewhere.is_empty() {
            self.leave(&elsewhere);
        }
        for held_up in self.under_way.values_mut() {
            let is_held_up = !held_up.heard_at.is_near(now, HELD_UP_AFTER);
            if is_held_up && held_up.moves && !held_up.at.is_empty() {
                held_up.moves = false;
                self.moving = self.moving.saturating_sub(1);
                uncount(&mut self.counts, std::mem::take(&mut held_up.ahead).iter());
            }
        }
    }

    fn wait(&mut self, candidate: Candidate<'_>) {
        let bytes = candidate.record.value.as_ref().map_or(0, Vec::len);
        let mut record = candidate.record.clone();
        if self.kept_bytes + bytes > KEPT_BYTES {
            record.value = Some(super::wake(candidate.order));
        }
        self.kept_bytes += record.value.as_ref().map_or(0, Vec::len);
        self.ids.insert(candidate.order.clone());
        let group = self.waiting.entry(candidate.needs).or_default();
        group.insert((candidate.since, candidate.order.clone()), record);
    }

    /// Drops the waiting orders of these partitions: the Supervisor announces them to the partitions' new readers.
    fn leave(&mut self, partitions: &BTreeSet<i32>) {
        let (ids, kept_bytes) = (&mut self.ids, &mut self.kept_bytes);
        self.waiting.retain(|_, group| {
            group.retain(|(_, id), record| {
                let stays = !partitions.contains(&record.partition);
                if !stays {
                    ids.remove(id);
                    let bytes = record.value.as_ref().map_or(0, Vec::len);
                    *kept_bytes = kept_bytes.saturating_sub(bytes);
                }
                stays
            });
            !group.is_empty()
        });
    }

    /// The oldest waiting order whose needs have room; it counts as under way from now on.
    fn next(&mut self, now: Timestamp) -> Option<InputRecord> {
        let heads = self.waiting.iter();
        let oldest = heads
            .filter(|(needs, _)| self.has_room(needs, now))
            .filter_map(|(needs, group)| group.first_key_value().map(|(key, _)| (key, needs)))
            .min_by(|a, b| a.0.cmp(b.0))
            .map(|(_, needs)| needs.clone())?;
        let group = self.waiting.get_mut(&oldest)?;
        let ((_, id), record) = group.pop_first()?;
        if group.is_empty() {
            self.waiting.remove(&oldest);
        }
        self.ids.remove(&id);
        let bytes = record.value.as_ref().map_or(0, Vec::len);
        self.kept_bytes = self.kept_bytes.saturating_sub(bytes);
        self.begin(id, Needs::new(), oldest, Some(record.partition), now);
        Some(record)
    }

    fn pressure(&self, lane: Priority) -> Vec<Pressure> {
        let waiting = |agent: Option<&AgentName>| {
            let of = |needs: &Needs| agent.is_none_or(|a| needs.contains(a));
            let groups = self.waiting.iter().filter(|(needs, _)| of(needs));
            let sizes = groups.clone().map(|(_, group)| group.len()).sum();
            let heads = groups.filter_map(|(_, group)| group.first_key_value());
            (sizes, heads.map(|((at, _), _)| *at).min())
        };
        let one = |agent: Option<&AgentName>, window: &Window, under_way: u32| {
            let (waiting, oldest) = waiting(agent);
            Pressure {
                agent: agent.cloned(),
                lane,
                under_way,
                bound: window.bound(),
                waited: window.waited(),
                shut_until: window.shut_until(),
                waiting,
                oldest,
            }
        };
        let count = |agent: &AgentName| self.counts.get(agent).copied().unwrap_or(0);
        let windows = self.windows.iter();
        std::iter::once(one(None, &self.own, self.moving))
            .chain(windows.map(|(agent, window)| one(Some(agent), window, count(agent))))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LANE: Priority = Priority::Normal;

    fn at(ms: u64) -> Timestamp {
        Timestamp(1_000_000 + ms)
    }

    fn agents(names: &[&str]) -> Needs {
        let agent = |name: &&str| AgentName::new(*name).expect("a name");
        names.iter().map(agent).collect()
    }

    fn intake() -> Intake {
        Intake::new(1_000, Millis(0))
    }

    /// Enters an order with a record of `bytes` bytes.
    fn enter(
        intake: &Intake,
        id: &str,
        needs: &[&str],
        bytes: usize,
        now: Timestamp,
    ) -> InboxEntry {
        enter_from(0, intake, id, needs, bytes, now)
    }

    /// Enters an order with a record of `bytes` bytes, read from this partition.
    fn enter_from(
        partition: i32,
        intake: &Intake,
        id: &str,
        needs: &[&str],
        bytes: usize,
        now: Timestamp,
    ) -> InboxEntry {
        let record = InputRecord {
            partition,
            value: Some(vec![b'x'; bytes]),
            ..InputRecord::default()
        };
        let candidate = Candidate {
            order: &OrderId::new(id).expect("an id"),
            since: now,
            needs: agents(needs),
            record: &record,
        };
        intake.enter(LANE, candidate, now)
    }

    /// Enters as many orders as a new window admits, each at its first downstream.
    fn full(intake: &Intake, needs: &[&str]) {
        for n in 0..16 {
            let id = format!("first-{n}");
            assert_eq!(enter(intake, &id, needs, 1, at(0)), InboxEntry::Start);
            let order = OrderId::new(id).expect("an id");
            intake.track(LANE, &order, agents(&needs[..1]), &agents(needs), at(0));
        }
        // Their partition is still read.
        intake.reads(LANE, 0, at(1));
    }

    #[test]
    fn an_order_of_which_nothing_is_heard_takes_room_for_half_a_minute() {
        for (ms, started) in [(29_999, 0), (30_000, 1)] {
            let intake = intake();
            full(&intake, &["bank"]);
            assert_eq!(
                enter(&intake, "next", &["bank"], 1, at(0)),
                InboxEntry::Waits
            );
            assert_eq!(intake.next(LANE, 9, at(ms)).len(), started, "{ms}");
        }
    }

    #[test]
    fn an_order_of_which_nothing_is_heard_for_a_second_takes_room_only_where_it_is() {
        for (ms, started) in [(999, 0), (1_000, 1)] {
            let intake = intake();
            full(&intake, &["bank", "mail"]);
            assert_eq!(
                enter(&intake, "next", &["mail"], 1, at(0)),
                InboxEntry::Waits
            );
            assert_eq!(
                enter(&intake, "other", &["bank"], 1, at(0)),
                InboxEntry::Waits
            );
            assert_eq!(intake.next(LANE, 9, at(ms)).len(), started, "{ms}");
        }
    }

    #[test]
    fn an_order_that_was_let_in_and_is_not_begun_may_begin_after_five_seconds() {
        let intake = intake();
        let begins = |ms| enter(&intake, "o-1", &["bank"], 1, at(ms));
        assert_eq!(begins(0), InboxEntry::Start);
        assert_eq!(begins(4_999), InboxEntry::Waits);
        assert_eq!(begins(5_000), InboxEntry::Start);
    }

    #[test]
    fn an_order_that_is_asked_for_again_takes_its_turn_behind_those_that_wait() {
        let intake = intake();
        full(&intake, &["bank"]);
        assert_eq!(
            enter(&intake, "next", &["bank"], 1, at(1)),
            InboxEntry::Waits
        );
        // No agent has taken the order's request: it is woken before it is forgotten.
        let again = enter(&intake, "first-0", &["bank"], 1, at(20_000));
        assert_eq!(again, InboxEntry::Waits, "its room is the next one's");
        assert_eq!(intake.next(LANE, 9, at(20_000)).len(), 1);
    }

    #[test]
    fn an_order_that_waits_is_counted_once_whatever_it_needs() {
        let intake = intake();
        full(&intake, &["bank"]);
        for n in 0..3 {
            let id = format!("o-{n}");
            let entry = enter(&intake, &id, &["bank", "mail", "stock"], 1, at(1));
            assert_eq!(entry, InboxEntry::Waits);
        }
        let shut = AgentName::new("stock").expect("a name");
        intake.shut(LANE, &shut, at(9_000), at(1));
        let held_back = intake.held_back(at(1));
        assert_eq!(held_back.values().sum::<usize>(), 3, "{held_back:?}");
        let bank = AgentName::new("bank").expect("a name");
        assert_eq!(held_back[&(Some(bank), LANE)], 3);
        assert_eq!(held_back[&(Some(shut), LANE)], 0, "it is known");
    }

    #[test]
    fn what_waits_of_a_partition_that_another_process_reads_is_left_to_it() {
        for (reads, waiting) in [(false, 0), (true, 4)] {
            let intake = intake();
            full(&intake, &["bank"]);
            for n in 0..20 {
                let id = format!("o-{n}");
                let entry = enter_from(7, &intake, &id, &["bank"], 1, at(1));
                assert_eq!(entry, InboxEntry::Waits);
            }
            assert_eq!(intake.next(LANE, 99, at(30_000)).len(), 16);
            if reads {
                // The record read here is only the wake of another order.
                intake.reads(LANE, 7, at(30_001));
            }
            let _ = intake.next(LANE, 0, at(60_000));
            let waits: usize = intake
                .pressure()
                .iter()
                .map(|p| p.waiting)
                .max()
                .unwrap_or(0);
            assert_eq!(waits, waiting, "reads: {reads}");
            let entry = enter_from(7, &intake, "o-19", &["bank"], 1, at(60_000));
            let is_new = entry == InboxEntry::Start;
            assert_eq!(
                is_new, !reads,
                "it is taken in again when it is asked for here"
            );
        }
    }

    #[test]
    fn of_waiting_records_8_mib_are_kept_whole() {
        let intake = intake();
        full(&intake, &["bank"]);
        for n in 0..8 {
            let entry = enter(&intake, &format!("large-{n}"), &["bank"], 1 << 20, at(1));
            assert_eq!(entry, InboxEntry::Waits);
        }
        assert_eq!(
            enter(&intake, "small", &["bank"], 1, at(2)),
            InboxEntry::Waits
        );
        let started = intake.next(LANE, 9, at(30_000));
        let bytes = started.iter().map(|r| r.value.as_ref().map_or(0, Vec::len));
        let bytes: Vec<usize> = bytes.collect();
        assert_eq!(bytes[..8], [1 << 20; 8]);
        assert!(bytes[8] > 1, "its order is asked for instead: {bytes:?}");
    }

    #[test]
    fn orders_that_need_the_same_take_half_of_the_places() {
        let intake = Intake::new(10, Millis(0));
        full(&intake, &["bank"]);
        let enters = |id: &str, needs: &[&str]| enter(&intake, id, needs, 1, at(1));
        for n in 0..5 {
            assert_eq!(enters(&format!("o-{n}"), &["bank"]), InboxEntry::Waits);
        }
        assert_eq!(enters("o-5", &["bank"]), InboxEntry::Full);
        assert_eq!(enters("o-6", &["bank", "mail"]), InboxEntry::Waits);
    }
}
