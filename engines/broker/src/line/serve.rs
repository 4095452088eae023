//! The broker's side of its lines: questions are answered on its one thread.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use tokio::sync::oneshot;

use super::{Ask, Asked, Batch, LineError, Part, Position, TopicShape, Wanted};
use crate::apis::{offsets, produce};
use crate::core::{Core, Signal};
use crate::log::flusher::Lsn;
use crate::log::partition::Read;
use crate::log::store::Kept;
use crate::offsets::Committed;

/// Answers until nobody can ask any more.
pub(crate) async fn serve(core: Rc<RefCell<Core>>, mut asked: Asked) {
    while let Some(ask) = asked.recv().await {
        keep_up(&core).await;
        answer(&core, ask);
    }
}

/// Waits while the disk is behind, as connections do.
async fn keep_up(core: &RefCell<Core>) {
    loop {
        let next = {
            let core = core.borrow();
            if !core.store.is_behind() {
                return;
            }
            core.store.durable_to() + 1
        };
        if durable(core, next).await.is_err() {
            return;
        }
    }
}

fn answer(core: &Rc<RefCell<Core>>, ask: Ask) {
    match ask {
        Ask::Shape(topic, answer) => tell(answer, shape(&core.borrow(), &topic)),
        Ask::Attend(group, attending) => core.borrow_mut().attend(&group, attending),
        Ask::Append(batches, answer) => append(core, &batches, answer),
        Ask::Read(wanted, answer) => read(core, wanted, answer),
        Ask::Committed(group, topic, answer) => tell(answer, committed(core, &group, &topic)),
        Ask::Commit(group, topic, positions, answer) => {
            when_durable(core, commit(core, &group, &topic, positions), answer);
        }
    }
}

fn shape(core: &Core, topic: &str) -> Result<TopicShape, LineError> {
    let topic = core.store.topics.get(topic).ok_or(LineError::NoTopic)?;
    Ok(TopicShape {
        partitions: i32::try_from(topic.logs.len()).unwrap_or(i32::MAX),
        max_batch_bytes: core.store.max_batch_bytes(topic),
    })
}

/// Who asked may be gone.
fn tell<T>(answer: oneshot::Sender<T>, told: T) {
    let _ = answer.send(told);
}

fn append(
    core: &Rc<RefCell<Core>>,
    batches: &[Batch],
    answer: oneshot::Sender<Vec<Result<i64, LineError>>>,
) {
    let mut to = 0;
    let mut appended = Vec::with_capacity(batches.len());
    for batch in batches {
        let mut core = core.borrow_mut();
        let kept = match batch.is_restorable {
            true => Kept::Soon,
            false => Kept::First,
        };
        let (topic, partition) = (&batch.topic, batch.partition);
        let done = produce::append(&mut core, topic, partition, &batch.bytes, kept);
        to = done.as_ref().map_or(to, |accepted| accepted.lsn.max(to));
        appended.push(
            done.map(|accepted| accepted.base_offset)
                .map_err(LineError::from),
        );
    }
    if to <= core.borrow().store.durable_to() {
        return tell(answer, appended);
    }
    let core = core.clone();
    tokio::task::spawn_local(async move {
        let told = match durable(&core, to).await {
            Ok(()) => appended,
            Err(failed) => appended.into_iter().map(|a| a.and(Err(failed))).collect(),
        };
        tell(answer, told);
    });
}

/// Answers once a change is durable.
fn when_durable(
    core: &Rc<RefCell<Core>>,
    changed: Result<Lsn, LineError>,
    answer: SyncSender<Result<(), LineError>>,
) {
    let core = core.clone();
    tokio::task::spawn_local(async move {
        let done = match changed {
            Ok(lsn) => durable(&core, lsn).await,
            Err(error) => Err(error),
        };
        // Who asked may be gone. There is room for the one answer.
        let _ = answer.try_send(done);
    });
}

async fn durable(core: &RefCell<Core>, lsn: Lsn) -> Result<(), LineError> {
    let signal = Rc::new(Signal::default());
    loop {
        {
            let mut core = core.borrow_mut();
            if core.store.failed() {
                return Err(LineError::Storage);
            }
            if lsn <= core.store.durable_to() {
                return Ok(());
            }
            core.watch_durable(lsn, &signal);
        }
        signal.notify.notified().await;
    }
}

fn read(
    core: &Rc<RefCell<Core>>,
    wanted: Wanted,
    answer: oneshot::Sender<Result<Vec<Part>, LineError>>,
) {
    match read_now(&mut core.borrow_mut(), &wanted) {
        Ok(parts) if parts.is_empty() => {}
        read => return tell(answer, read),
    }
    let core = core.clone();
    tokio::task::spawn_local(read_later(core, wanted, answer));
}

/// Waits until there is something to read, or nobody who wants it.
async fn read_later(
    core: Rc<RefCell<Core>>,
    wanted: Wanted,
    mut answer: oneshot::Sender<Result<Vec<Part>, LineError>>,
) {
    let signal = Rc::new(Signal::default());
    loop {
        watch(&mut core.borrow_mut(), &wanted, &signal);
        let read = read_now(&mut core.borrow_mut(), &wanted);
        if !matches!(&read, Ok(parts) if parts.is_empty()) {
            signal.closed.set(true);
            return tell(answer, read);
        }
        tokio::select! {
            biased;
            () = answer.closed() => {
                signal.closed.set(true);
                return;
            }
            () = signal.notify.notified() => {}
        }
    }
}

fn watch(core: &mut Core, wanted: &Wanted, signal: &Rc<Signal>) {
    for (partition, _) in &wanted.positions {
        if let Some(log) = core.store.topics.log(&wanted.topic, *partition) {
            core.watch_log(log, signal);
        }
    }
}

/// What can be read at once; nothing if there is nothing yet.
fn read_now(core: &mut Core, wanted: &Wanted) -> Result<Vec<Part>, LineError> {
    let mut parts = Vec::new();
    let mut left = wanted.max_bytes;
    for &(partition, offset) in &wanted.positions {
        let log = core.store.log_of(&wanted.topic, partition);
        let log = log.ok_or(LineError::NoTopic)?;
        let mut bytes = Vec::new();
        match log.read(offset, left, parts.is_empty(), &mut bytes) {
            Ok(Read::Bytes(0)) => {}
            Ok(Read::Bytes(count)) => {
                left = left.saturating_sub(count);
                parts.push(Part::Batches {
                    partition,
                    bytes,
                    end: log.high_watermark,
                });
            }
            Ok(Read::OutOfRange) => parts.push(Part::OutOfRange {
                partition,
                start: log.start,
                end: log.high_watermark,
            }),
            Err(error) => {
                tracing::error!(%error, topic = &*wanted.topic, partition, "a segment cannot be read");
                return Err(LineError::Storage);
            }
        }
    }
    Ok(parts)
}

fn committed(core: &RefCell<Core>, group: &str, topic: &str) -> Vec<Position> {
    let core = core.borrow();
    let of_group = core.store.offsets.of_group(group);
    let of_topic = of_group.filter(|(name, _)| *name == topic);
    let positions = of_topic.flat_map(|(_, partitions)| partitions.values());
    let position = |c: &Committed| Position {
        partition: c.partition,
        offset: c.offset,
        metadata: c.metadata.clone(),
    };
    positions.map(position).collect()
}

fn commit(
    core: &RefCell<Core>,
    group: &Arc<str>,
    topic: &Arc<str>,
    positions: Vec<Position>,
) -> Result<Lsn, LineError> {
    let mut core = core.borrow_mut();
    offsets::has_room(&core, group)?;
    let items = positions.into_iter().map(|position| Committed {
        topic: topic.to_string(),
        partition: position.partition,
        offset: position.offset,
        leader_epoch: -1,
        metadata: position.metadata,
    });
    let checked = items.map(|item| offsets::check(&core, item));
    let items = checked.collect::<Result<Vec<_>, _>>()?;
    Ok(core.store.commit_offsets(group, items)?)
}
