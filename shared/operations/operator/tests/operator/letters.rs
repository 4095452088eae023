//! Listing, showing and replaying the dead letters of a topic in memory.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::json;
use triad_core::{Envelope, Timestamp, topics};
use triad_operator::dead_letters::{
    Chosen, Deed, LetterFilter, Replay, ReplayError, ReplayOutcome, list, replay, show,
};
use triad_operator::topic::{Extent, LogTopic, TopicReader, TopicRecords};
use triad_operator::{Rate, audit};
use triad_runtime::dead_letter::replay::{ReplayAct, dismissal, marker};
use triad_runtime::dead_letter::{Cause, LetterId, dead_letter};
use triad_runtime::{Bus, BusError, InputRecord};
use triad_sim::Ports;

use super::support::run;

/// A bus that is also its own topic reader: records sent to `dead-letter` can be read.
#[derive(Clone, Default)]
pub struct Topic {
    sent: Arc<Mutex<Vec<Envelope>>>,
    /// Whether reads of the topic never return.
    is_silent: bool,
    /// For each read of the topic, the time from which it was read (`since`).
    read: Arc<Mutex<Vec<Option<Timestamp>>>>,
}

/// The records of one read of the topic.
pub struct Records(std::vec::IntoIter<Envelope>);

impl TopicReader for Topic {
    type Error = String;
    type Records = Records;

    async fn open(&self, topic: LogTopic, extent: Extent) -> Result<Records, String> {
        self.read.lock().expect("no panic").push(extent.since);
        let mut all = self.all();
        all.retain(|message| message.topic == topic.name());
        Ok(Records(all.into_iter()))
    }
}

impl TopicRecords for Records {
    type Error = String;

    async fn next(&mut self) -> Result<Option<InputRecord>, String> {
        let record = |message: Envelope| InputRecord {
            topic: message.topic,
            key: message.key,
            value: Some(message.value),
            headers: message.headers,
            ..InputRecord::default()
        };
        Ok(self.0.next().map(record))
    }
}

impl Bus for Topic {
    async fn publish(&self, messages: Vec<Envelope>) -> Vec<Result<(), BusError>> {
        if self.is_silent {
            std::future::pending::<()>().await;
        }
        let results = messages.iter().map(|_| Ok(())).collect();
        self.lock().extend(messages);
        results
    }
}

impl Topic {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Envelope>> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn all(&self) -> Vec<Envelope> {
        self.lock().clone()
    }

    /// Writes the dead letter of a record in the topic `orders`.
    fn letter(&self, offset: i64, cause: &'static str, value: &[u8]) {
        let record = InputRecord {
            topic: topics::orders(triad_core::Priority::Normal).to_owned(),
            offset,
            key: Some(vec![0xff]),
            value: Some(value.to_vec()),
            ..InputRecord::default()
        };
        let at = Timestamp(1_000 + u64::try_from(offset).unwrap_or(0));
        let [letter, _] = dead_letter(&record, &Cause::new(cause, "a reason"), at);
        self.lock().push(letter);
    }

    pub fn with_letters() -> Self {
        let topic = Self::default();
        for offset in 0..6 {
            let cause = if offset < 4 { "early" } else { "late" };
            topic.letter(offset, cause, b"{}");
        }
        // A redelivered record has two equal letters, and the topic may hold records of other programs.
        topic.letter(0, "early", b"{}");
        topic.lock().push(Envelope {
            topic: topics::DEAD_LETTER.to_owned(),
            key: None,
            value: Vec::new(),
            headers: Vec::new(),
            trace: None,
        });
        topic
    }
}

pub fn id(offset: i64) -> LetterId {
    LetterId {
        topic: topics::orders(triad_core::Priority::Normal).to_owned(),
        partition: 0,
        offset,
    }
}

fn of(letters: Chosen) -> Replay {
    Replay {
        deed: Deed::Replay,
        letters,
        act: ReplayAct::new("ann", "fixed", Timestamp(0)).expect("an act"),
        corrected: None,
        again: false,
        dry_run: false,
        rate: Rate::new(100).expect("a rate"),
    }
}

fn early() -> Chosen {
    Chosen::All(LetterFilter {
        cause: Some("early".into()),
        ..LetterFilter::default()
    })
}

#[test]
fn the_audit_has_who_replayed_and_who_dismissed_which_letter_and_why() {
    run(async |_: Ports| {
        let topic = Topic::with_letters();
        let act = |by: &str, at| ReplayAct::new(by, "a reason", Timestamp(at)).expect("an act");
        let markers = vec![
            marker(&id(1), &act("ann", 5), Some(b"{\"a\": 1}".to_vec())),
            dismissal(&id(2), &act("bob", 7)),
        ];
        topic.publish(markers).await;
        let told = async |since| {
            let mut lines = Vec::new();
            let letters = audit::letters(&topic, Timestamp(since), |line| {
                lines.push(serde_json::to_value(line).expect("JSON"));
                Ok::<(), Infallible>(())
            });
            letters.await.expect("it is read");
            lines
        };
        let line = |what, by, letter: i64, at: u64| {
            json!({"at": at, "dead_letter": format!("orders/0/{letter}"), "what": what,
                "by": by, "why": "a reason"})
        };
        let mut replayed = line("replayed", "ann", 1, 5);
        replayed["note"] = json!("value: {\"a\": 1}");
        assert_eq!(told(0).await, [replayed, line("dismissed", "bob", 2, 7)]);
        assert_eq!(told(6).await.len(), 1, "since a moment");
    });
}

#[test]
fn the_newest_are_listed_and_all_are_counted() {
    run(async |_: Ports| {
        let topic = Topic::with_letters();
        let listing = list(&topic, &LetterFilter::default(), 3).await;
        let listing = listing.expect("it can be read");
        let causes: Vec<_> = listing
            .causes
            .iter()
            .map(|g| (&g.cause[..], g.letters))
            .collect();
        assert_eq!(causes, [("early", 4), ("late", 2)]);
        let offsets: Vec<i64> = listing.letters.iter().map(|l| l.offset).collect();
        assert_eq!((offsets, listing.more), (vec![3, 4, 5], true));
        assert_eq!(listing.unreadable, 1);
        let line = serde_json::to_value(&listing.letters[0]).expect("JSON");
        assert_eq!(line["id"], "orders/0/3");
        assert_eq!(line["key"], json!({"hex": "ff"}));
    });
}

#[test]
fn a_letter_is_replayed_once_marked_and_shown_with_its_replay() {
    run(async |ports: Ports| {
        let topic = Topic::with_letters();
        let mut dry = of(early());
        dry.dry_run = true;
        let before = topic.all().len();
        let report = |_: &_, outcome: &ReplayOutcome| {
            assert_eq!(*outcome, ReplayOutcome::WouldBe);
            Ok::<(), ()>(())
        };
        let tally = replay(&topic, &topic, &ports, &dry, report).await;
        assert_eq!(tally.map(|t| t.replayed), Ok(4));
        assert_eq!(topic.all().len(), before, "nothing was sent");
        for (replayed, before) in [(4, 0), (0, 4)] {
            let tally = replay(
                &topic,
                &topic,
                &ports,
                &of(early()),
                |_, _| Ok::<(), ()>(()),
            )
            .await;
            let tally = tally.expect("it works");
            assert_eq!((tally.replayed, tally.before), (replayed, before));
        }
        let again = topic.all().into_iter().filter(|m| m.topic == "orders");
        assert_eq!(again.count(), 4);
        let shown = show(&topic, &id(2), None).await.expect("it works");
        let shown = shown.expect("it is there");
        assert_eq!((shown.replays.len(), &shown.replays[0].by[..]), (1, "ann"));
        let form = serde_json::to_value(&shown).expect("JSON");
        assert_eq!(
            (&form["value"], &form["replays"][0]["why"]),
            (&json!("{}"), &json!("fixed"))
        );
        assert_eq!(show(&topic, &id(99), None).await, Ok(None));
    });
}

#[test]
fn of_a_letter_whose_time_is_known_the_topic_is_read_from_then_on_and_as_a_whole_if_it_is_not_there()
 {
    run(async |_: Ports| {
        let topic = Topic::with_letters();
        let written = Some(Timestamp(100_000));
        let since = Some(Timestamp(40_000));
        for (offset, readings) in [(2, vec![since]), (99, vec![since, None])] {
            topic.read.lock().expect("no panic").clear();
            let found = show(&topic, &id(offset), written).await;
            assert_eq!(found.map(|found| found.is_some()), Ok(offset == 2));
            assert_eq!(*topic.read.lock().expect("no panic"), readings);
        }
    });
}

#[test]
fn an_unknown_letter_or_a_silent_bus_ends_it() {
    run(async |ports: Ports| {
        let mut topic = Topic::with_letters();
        let named = Chosen::Named(BTreeSet::from([id(1), id(99)]));
        let unknown = replay(&topic, &topic, &ports, &of(named), |_, _| Ok::<(), ()>(())).await;
        assert_eq!(unknown, Err(ReplayError::Unknown(vec![id(99)])));
        topic.is_silent = true;
        let silent = replay(
            &topic,
            &topic,
            &ports,
            &of(early()),
            |_, _| Ok::<(), ()>(()),
        )
        .await;
        assert_eq!(silent, Err(ReplayError::NoAnswer));
    });
}

#[test]
fn a_dismissed_letter_is_not_shown_and_not_replayed_with_the_others() {
    run(async |ports: Ports| {
        let topic = Topic::with_letters();
        let listed = async |filter: LetterFilter, limit| {
            let listing = list(&topic, &filter, limit).await.expect("it can be read");
            let offsets: Vec<i64> = listing.letters.iter().map(|l| l.offset).collect();
            let counted: usize = listing.causes.iter().map(|g| g.letters).sum();
            (offsets, counted, listing.more)
        };
        let all = LetterFilter::default;
        let (before, 6, false) = listed(all(), 10).await else {
            panic!("six letters")
        };
        let chosen = |offset| Chosen::Named([id(offset)].into());
        let act = async |what: Replay| {
            let report = |_: &_, _: &_| Ok::<(), ()>(());
            let tally = replay(&topic, &topic, &ports, &what, report).await;
            let tally = tally.expect("it works");
            (tally.replayed, tally.before)
        };
        let dismiss = |offset| Replay {
            deed: Deed::Dismiss,
            ..of(chosen(offset))
        };
        let sent = topic.all().len();
        let dry = Replay {
            dry_run: true,
            ..dismiss(5)
        };
        assert_eq!(act(dry).await, (1, 0));
        assert_eq!(topic.all().len(), sent, "nothing was marked");
        assert_eq!(act(dismiss(5)).await, (1, 0));
        assert_eq!(topic.all().len(), sent + 1, "a marker, and nothing else");
        assert_eq!(act(dismiss(5)).await, (0, 1), "it was dismissed before");
        let left: Vec<i64> = before.iter().copied().filter(|o| *o != 5).collect();
        assert_eq!(listed(all(), 10).await, (left.clone(), 5, false));
        // A limit of one shows the newest letter that is not dismissed.
        assert_eq!(listed(all(), 1).await, (vec![4], 5, true));
        let too = LetterFilter {
            dismissed: true,
            ..all()
        };
        assert_eq!(listed(too, 10).await, (before, 6, false));
        assert_eq!(act(of(chosen(4))).await, (1, 0));
        let open = LetterFilter {
            not_replayed: true,
            ..all()
        };
        let open_offsets: Vec<i64> = left.into_iter().filter(|o| *o != 4).collect();
        assert_eq!(listed(open, 10).await, (open_offsets, 4, false));
        assert_eq!(
            act(of(Chosen::All(all()))).await,
            (4, 1),
            "the dismissed one is left"
        );
        assert_eq!(
            act(of(chosen(5))).await,
            (1, 0),
            "by its name it is replayed"
        );
        let shown = show(&topic, &id(5), None).await.expect("it can be read");
        let shown = shown.expect("it is there");
        let by = shown.dismissed.expect("it is dismissed");
        assert_eq!((by.by.as_str(), by.why.as_str()), ("ann", "fixed"));
    });
}
