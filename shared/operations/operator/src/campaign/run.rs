//! Carries campaigns on: the Supervisor's part.
//!
//! Several processes may run it. One holds a lease on a campaign, for `HOLD` after its last write. The lease only
//! avoids duplicate work, and may be wrong: safety comes from the condition of each write.

use serde::Serialize;
use triad_core::message::{Alert, AlertKind};
use triad_core::{CampaignId, Envelope, Failure, FailureKind, OperationRefusal, Timestamp};
use triad_runtime::misconfigured::Misconfigured;
use triad_runtime::operator::{OperateError, Operator};
use triad_runtime::ports::OperatorStore;
use triad_runtime::{Bus, Clock, ControlStore, DefinitionStore, Entropy, StateStore, StoreError};
use triad_workflow::Millis;

use super::act::act_on;
use super::commands::store_error;
use super::form::{Batch, Campaign, CampaignLease, CampaignOrder, Done, MAX_TEXT_BYTES, Phase};
use super::records::{self, Versioned};
use super::rules::{self, Verdict};
use crate::outcome::{ActOutcome, Verdict as OfOne};
use crate::pace::Pacer;
use crate::pages;

/// Handler name in alerts.
const HANDLER: &str = "campaigns";
/// Length of the lease on a campaign after its holder's last write of it: 1 minute.
const HOLD: Millis = Millis(60_000);
/// Most attempts to merge the acted-on orders into a batch that other processes write.
const NOTES: usize = 8;
/// Orders that are acted on before their results are written.
const CHUNK: usize = 50;
/// Interval between two looks at the orders of a batch.
const LOOK_EVERY: Millis = Millis(500);
/// Pages without a fitting order after which a turn ends.
const EMPTY_PAGES: usize = 20;

/// Carries campaigns on. `S` is the store of orders, workflows and control records, `B` the bus, `C` the
/// clock and `E` the source of random numbers.
#[derive(Debug)]
pub struct Campaigns<S, B, C, E> {
    operator: Operator<S, B, C, E>,
    store: S,
    bus: B,
    clock: C,
    entropy: E,
    misconfigured: Misconfigured,
}

/// What one call of [`Campaigns::carry_on`] did. All numbers are counts of that call alone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Campaigns that were under way when the call began.
    pub alive: usize,
    /// Orders on which the act was tried, including those that refused it.
    pub acted: usize,
    /// Further orders of batches that an earlier turn had acted on without writing it down (its process died, for
    /// example).
    pub known: usize,
    /// Campaigns that ended in this call.
    pub ended: usize,
    /// Campaigns that could not be carried on now, because the store or the bus failed. A later call goes on
    /// with them. If the list of campaigns itself could not be read, this is 1.
    pub failed: usize,
}

impl Report {
    /// Writes the report into the log as one line: at level `warn` if a campaign failed, at `info` if orders
    /// were acted on or a campaign ended, else at `debug`.
    pub fn log(&self) {
        let Self {
            alive,
            acted,
            known,
            ended,
            failed,
        } = *self;
        if failed > 0 {
            tracing::warn!(
                alive,
                acted,
                known,
                ended,
                failed,
                "not every campaign could be carried on"
            );
        } else if acted + ended > 0 {
            tracing::info!(alive, acted, known, ended, failed, "campaigns carried on");
        } else {
            tracing::debug!(alive, acted, known, ended, failed, "campaigns carried on");
        }
    }
}

/// Why a turn at a campaign ends.
enum Pause {
    /// The turn's time is over, or nothing is to do now.
    Turn,
    /// The campaign has ended.
    Ended,
    /// Another process changed the campaign; this turn must not continue.
    Lost,
    /// The store or the bus failed.
    Failed(StoreError),
}

impl From<StoreError> for Pause {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

/// A campaign that this process holds.
struct CampaignPass {
    head: Versioned<Campaign>,
    by: u64,
    until: Timestamp,
    pacer: Pacer,
    /// Whether this turn chose the present batch, so that no process has acted on it before.
    is_fresh: bool,
    acted: usize,
    known: usize,
}

impl<S, B, C, E> Campaigns<S, B, C, E>
where
    S: StateStore + DefinitionStore + OperatorStore + ControlStore + Clone,
    B: Bus + Clone,
    C: Clock + Clone,
    E: Entropy + Clone,
{
    /// Makes the part of the Supervisor that carries campaigns on. `operator` does the acts, and must work
    /// on the same ports as are given here. Nothing is read or written yet.
    pub fn new(operator: Operator<S, B, C, E>, store: S, bus: B, clock: C, entropy: E) -> Self {
        Self {
            operator,
            store,
            bus,
            clock,
            entropy,
            misconfigured: Misconfigured::new(HANDLER),
        }
    }

    /// Carries on every campaign that is under way, one after the other. Each gets an equal share of the part of
    /// `time` (milliseconds) that is left. The call may take longer, by the time that one order or one page takes. A
    /// campaign that another process holds is skipped.
    ///
    /// Without a campaign the call costs one eventually consistent read. A failure is logged and counted, and the
    /// call goes on with the next campaign. If only an operator can mend the failure, such as a missing permission,
    /// an alert is sent.
    pub async fn carry_on(&self, time: Millis) -> Report {
        let report = self.turns(time).await;
        self.misconfigured
            .publish_alert(&self.bus, &self.clock)
            .await;
        report
    }

    /// A turn for every campaign that is under way.
    async fn turns(&self, time: Millis) -> Report {
        let mut report = Report::default();
        let ends = self.clock.now().plus(time);
        let known = match records::list(&self.store, false).await {
            Ok(known) => known,
            Err(e) => {
                tracing::warn!(error = %e, "the list of campaigns could not be read");
                self.misconfigured.note_store(&e);
                report.failed += 1;
                return report;
            }
        };
        let alive: Vec<_> = known.into_iter().filter(|c| !c.is_over).collect();
        report.alive = alive.len();
        for (at, campaign) in alive.iter().enumerate() {
            let now = self.clock.now();
            let share = Millis(ends.since(now).0 / (alive.len() - at) as u64);
            self.turn(&campaign.id, now.plus(share), &mut report).await;
        }
        report
    }

    /// One turn for one campaign.
    async fn turn(&self, id: &CampaignId, until: Timestamp, report: &mut Report) {
        let mut turn = match self.take(id, until).await {
            Ok(Some(turn)) => turn,
            Ok(None) => return,
            Err(e) => {
                tracing::warn!(campaign = %id, error = %e, "a campaign could not be carried on");
                self.misconfigured.note_store(&e);
                report.failed += 1;
                return;
            }
        };
        let pause = self.go_on(&mut turn).await;
        report.acted += turn.acted;
        report.known += turn.known;
        match pause {
            Pause::Lost => {}
            Pause::Turn => self.release(turn).await,
            Pause::Ended => {
                report.ended += 1;
                self.log_pass(&turn.head.value).await;
            }
            Pause::Failed(e) => {
                tracing::warn!(campaign = %id, error = %e, "a campaign could not be carried on; the next turn goes on");
                self.misconfigured.note_store(&e);
                report.failed += 1;
                self.release(turn).await;
            }
        }
    }

    /// Takes the lease on a campaign; `None` if there is nothing to do, or another process holds it.
    async fn take(
        &self,
        id: &CampaignId,
        until: Timestamp,
    ) -> Result<Option<CampaignPass>, StoreError> {
        let Some(head) = records::campaign(&self.store, id).await? else {
            return Ok(None);
        };
        let now = self.clock.now();
        if matches!(head.value.phase, Phase::Ended { .. }) {
            // The process that ended the campaign did not update the list, or the list read is a moment old.
            self.log_pass(&head.value).await;
            return Ok(None);
        }
        if head
            .value
            .held
            .is_some_and(|held| held.until.is_awaited(now, HOLD))
        {
            return Ok(None);
        }
        let mut turn = CampaignPass {
            pacer: Pacer::new(head.value.pace.rate),
            head,
            by: self.entropy.next_u64(),
            until,
            is_fresh: false,
            acted: 0,
            known: 0,
        };
        match self.put(&mut turn, |_| {}).await {
            Ok(()) => Ok(Some(turn)),
            Err(Pause::Failed(e)) => Err(e),
            Err(_) => Ok(None),
        }
    }

    /// Runs step by step, until the turn ends.
    async fn go_on(&self, turn: &mut CampaignPass) -> Pause {
        let mut empty = 0;
        // The loop ends: the turn has a time limit, and the number of empty pages is limited.
        loop {
            if self.clock.now() >= turn.until || empty >= EMPTY_PAGES {
                return Pause::Turn;
            }
            let step = match turn.head.value.phase {
                Phase::Choosing => self.choose(turn, &mut empty).await,
                Phase::Acting => self.act(turn).await,
                Phase::Watching { since } => self.watch(turn, since).await,
                Phase::Ended { .. } => return Pause::Ended,
            };
            if let Err(pause) = step {
                return pause;
            }
        }
    }

    /// Chooses the next batch. The batch's record decides: a batch that another process chose before it died is taken
    /// over.
    async fn choose(&self, turn: &mut CampaignPass, empty: &mut usize) -> Result<(), Pause> {
        let campaign = &turn.head.value;
        let (id, number) = (campaign.id.clone(), campaign.batch + 1);
        if let Some(known) = records::batch(&self.store, &id, number).await? {
            turn.is_fresh = false;
            return self
                .put(turn, |c| *c = rules::begun(c.clone(), &known.value))
                .await;
        }
        let limit = rules::size(campaign) as usize;
        let (filter, from, at) = (
            &campaign.filter,
            campaign.next.as_ref(),
            campaign.started_at,
        );
        let page = pages::page(&self.store, filter, limit, from, at).await;
        let page = page.map_err(store_error)?;
        let orders = page.orders.into_iter();
        let orders = orders.filter(|order| !rules::is_left_out(campaign, order));
        let batch = Batch {
            orders: orders.map(|order| CampaignOrder::of(order.id)).collect(),
            is_whole: page.next.is_none(),
            next: page.next,
        };
        if batch.orders.is_empty() {
            *empty += 1;
            let now = self.clock.now();
            return self
                .put(turn, |c| match batch.is_whole {
                    true => {
                        c.is_whole = true;
                        *c = rules::ended(c.clone(), &batch, Verdict::GoOn, now);
                    }
                    false => c.next.clone_from(&batch.next),
                })
                .await;
        }
        let (store, entropy) = (&self.store, &self.entropy);
        let now = self.clock.now();
        let put = records::put_batch(store, entropy, (&id, number), &batch, None, now).await?;
        put.ok_or(Pause::Lost)?;
        turn.is_fresh = true;
        self.put(turn, |c| *c = rules::begun(c.clone(), &batch))
            .await
    }

    /// Determines which orders of the batch were acted on before the campaign was resumed.
    async fn see(&self, turn: &mut CampaignPass, mut batch: Versioned<Batch>) -> Result<(), Pause> {
        let open = |e: &&mut CampaignOrder| e.result.is_none();
        let mut entries: Vec<_> = batch.value.orders.iter_mut().filter(open).collect();
        let known = self
            .find_acted_on(&turn.head.value.id, &mut entries)
            .await?;
        turn.known += known;
        if known > 0 {
            self.put_batch(turn, &mut batch).await?;
        }
        let seen = |c: &mut Campaign| *c = rules::after_batch(c.clone(), &batch.value);
        self.put(turn, seen).await
    }

    /// Acts on the next orders of the batch.
    async fn act(&self, turn: &mut CampaignPass) -> Result<(), Pause> {
        let mut batch = self.batch(turn).await?;
        if turn.head.value.is_resumed {
            return self.see(turn, batch).await;
        }
        let open = |e: &&mut CampaignOrder| e.result.is_none();
        let portion = rules::portion(&turn.head.value, &batch.value);
        let mut entries: Vec<&mut CampaignOrder> = batch.value.orders[portion]
            .iter_mut()
            .filter(open)
            .take(CHUNK)
            .collect();
        if entries.is_empty() {
            if !turn.is_fresh {
                // Another process may have acted on an order whose entry says that it refused.
                let refused = |e: &&mut CampaignOrder| e.result.is_some_and(|r| r != Done::Done);
                let mut refused: Vec<_> = batch.value.orders.iter_mut().filter(refused).collect();
                let known = self
                    .find_acted_on(&turn.head.value.id, &mut refused)
                    .await?;
                turn.known += known;
                if known > 0 {
                    self.put_batch(turn, &mut batch).await?;
                }
            }
            let since = self.clock.now();
            return self
                .put(turn, |c| c.phase = Phase::Watching { since })
                .await;
        }
        if !turn.is_fresh {
            turn.known += self
                .find_acted_on(&turn.head.value.id, &mut entries)
                .await?;
        }
        let mut stopped = None;
        for entry in entries {
            if entry.result.is_some() {
                continue;
            }
            if self.clock.now() >= turn.until {
                stopped = Some(Pause::Turn);
                break;
            }
            self.clock.sleep(turn.pacer.turn(&self.clock)).await;
            let campaign = &turn.head.value;
            let outcome = act_on(&self.operator, &entry.order_id, campaign).await;
            turn.acted += 1;
            if let Err(pause) = record_outcome(entry, &outcome) {
                stopped = Some(pause);
                break;
            }
        }
        // Write the known results, whatever ended the loop; the campaign's record still says that this process holds
        // it.
        self.put_batch(turn, &mut batch).await?;
        self.put(turn, |_| {}).await?;
        stopped.map_or(Ok(()), Err)
    }

    /// For a batch that another process chose: finds the orders that it acted on, from their records.
    async fn find_acted_on(
        &self,
        id: &CampaignId,
        entries: &mut [&mut CampaignOrder],
    ) -> Result<usize, StoreError> {
        let mut known = 0;
        for chunk in entries.chunks_mut(CHUNK) {
            let orders = chunk.iter().map(|e| e.order_id.clone()).collect();
            for (entry, found) in chunk.iter_mut().zip(self.store.load(orders).await) {
                match found {
                    Ok(Some(order)) if order.is_acted_on_by(id) => {
                        entry.result = Some(Done::Done);
                        entry.text = None;
                        known += 1;
                    }
                    // The act on the order will report a record that cannot be read.
                    Ok(_) | Err(StoreError::Item(_)) => {}
                    Err(e) => return Err(e),
                }
            }
        }
        Ok(known)
    }

    /// Looks at the orders of the batch, and judges it if enough have ended.
    async fn watch(&self, turn: &mut CampaignPass, since: Timestamp) -> Result<(), Pause> {
        let mut batch = self.batch(turn).await?;
        let what = turn.head.value.what.clone();
        let open = |e: &&mut CampaignOrder| e.result == Some(Done::Done) && e.then.is_none();
        let mut entries: Vec<&mut CampaignOrder> =
            batch.value.orders.iter_mut().filter(open).collect();
        for chunk in entries.chunks_mut(CHUNK) {
            let orders = chunk.iter().map(|e| e.order_id.clone()).collect();
            for (entry, found) in chunk.iter_mut().zip(self.store.load(orders).await) {
                entry.then = match found {
                    Ok(order) => rules::came_of(&what, order.as_ref()),
                    // The result of an order with an unreadable record cannot be known.
                    Err(StoreError::Item(_)) => Some(super::form::OrderAfterAct::Again),
                    Err(e) => return Err(e.into()),
                };
            }
        }
        let now = self.clock.now();
        let verdict = rules::verdict(&turn.head.value, &batch.value, since, now);
        if verdict == Verdict::Watch {
            let left = turn.until.since(now);
            self.clock.sleep(LOOK_EVERY.min(left)).await;
            return Ok(());
        }
        self.put_batch(turn, &mut batch).await?;
        let ended = |c: &mut Campaign| *c = rules::ended(c.clone(), &batch.value, verdict, now);
        self.put(turn, ended).await
    }

    /// The present batch, while this process holds the campaign.
    async fn batch(&self, turn: &CampaignPass) -> Result<Versioned<Batch>, Pause> {
        let (id, number) = (&turn.head.value.id, turn.head.value.batch);
        let missing = || StoreError::Item(format!("batch {number} of campaign {id} is not stored"));
        let found = records::batch(&self.store, id, number).await?;
        let found = found.ok_or_else(missing)?;
        // Read after the batch: another process may have finished the batch and counted it. A process that takes the
        // campaign over later finds this turn's write, or makes it fail.
        let head = records::campaign(&self.store, id).await?;
        let is_ours = head.is_some_and(|head| head.version == turn.head.version);
        if !is_ours {
            return Err(Pause::Lost);
        }
        Ok(found)
    }

    async fn put_batch(
        &self,
        turn: &CampaignPass,
        batch: &mut Versioned<Batch>,
    ) -> Result<(), Pause> {
        let of = (&turn.head.value.id, turn.head.value.batch);
        let (store, entropy, now) = (&self.store, &self.entropy, self.clock.now());
        let expected = Some(batch.version);
        let put = records::put_batch(store, entropy, of, &batch.value, expected, now).await?;
        match put {
            Some(version) => {
                batch.version = version;
                Ok(())
            }
            None => {
                self.note_acted_on(of, &batch.value).await?;
                Err(Pause::Lost)
            }
        }
    }

    /// The batch changed meanwhile: another process wrote it, or an earlier write succeeded after its time-out.
    /// Merges the orders that this turn acted on, which only this turn may know. Does nothing once others watch the
    /// batch, because its counts may be in the sums.
    async fn note_acted_on(
        &self,
        (id, number): (&CampaignId, u32),
        own: &Batch,
    ) -> Result<(), StoreError> {
        for _ in 0..NOTES {
            let Some(mut stored) = records::batch(&self.store, id, number).await? else {
                return Ok(());
            };
            // Read after the batch: a process that has taken over since has written the batch, or will find it
            // changed.
            let head = records::campaign(&self.store, id).await?;
            let is_open = head.is_some_and(|Versioned { value, .. }| {
                let is_acting = matches!(value.phase, Phase::Acting | Phase::Ended { .. });
                value.batch == number && value.is_open && is_acting
            });
            if !is_open || !rules::take_over(&mut stored.value, own) {
                return Ok(());
            }
            let (store, entropy, now) = (&self.store, &self.entropy, self.clock.now());
            let (of, expected) = ((id, number), Some(stored.version));
            let put = records::put_batch(store, entropy, of, &stored.value, expected, now).await?;
            if put.is_some() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Writes a changed campaign and renews the lease.
    async fn put(
        &self,
        turn: &mut CampaignPass,
        edit: impl FnOnce(&mut Campaign),
    ) -> Result<(), Pause> {
        let now = self.clock.now();
        let mut next = turn.head.value.clone();
        edit(&mut next);
        let is_over = matches!(next.phase, Phase::Ended { .. });
        next.held = (!is_over).then_some(CampaignLease {
            by: turn.by,
            until: now.plus(HOLD),
        });
        let expected = Some(turn.head.version);
        let put = records::put(&self.store, &self.entropy, &next, expected, now).await?;
        turn.head = Versioned {
            value: next,
            version: put.ok_or(Pause::Lost)?,
        };
        Ok(())
    }

    /// Releases the lease. A failure is harmless: the lease expires.
    async fn release(&self, turn: CampaignPass) {
        let (store, entropy, now) = (&self.store, &self.entropy, self.clock.now());
        let mut free = turn.head.value;
        free.held = None;
        let put = records::put(store, entropy, &free, Some(turn.head.version), now).await;
        if let Err(e) = put {
            tracing::debug!(campaign = %free.id, error = %e, "a campaign is in hand until its time is over");
        }
    }

    /// Alerts operators of a campaign that stopped early, and then marks it over in the list. If either fails, the
    /// next turn repeats both, with the same alert.
    async fn log_pass(&self, campaign: &Campaign) {
        let Phase::Ended { at, end } = campaign.phase else {
            return;
        };
        let id = &campaign.id;
        tracing::info!(campaign = %id, how = end.text(), "a campaign is over");
        if end.is_trouble() {
            let sent = self
                .bus
                .publish(vec![alert(campaign, &end.text(), at)])
                .await;
            if let Some(e) = sent.into_iter().find_map(Result::err) {
                tracing::warn!(campaign = %id, error = %e, "the alert that a campaign has stopped was not sent; the next turn tries again");
                return;
            }
        }
        let (store, entropy, now) = (&self.store, &self.entropy, self.clock.now());
        if let Err(e) = records::note(store, entropy, id, Some(at), now).await {
            tracing::warn!(campaign = %id, error = %e, "the list of campaigns could not be written");
        }
    }
}

/// Records the result of one order in its entry.
///
/// # Errors
/// [`Pause::Failed`] if the result is unknown, or if the bus has not taken the messages of the act: each further
/// order would wait for it in vain.
fn record_outcome(entry: &mut CampaignOrder, outcome: &ActOutcome) -> Result<(), Pause> {
    let is_ours = matches!(outcome, ActOutcome::Refused(OperationRefusal::ActedOn(_)));
    let result = match outcome.verdict() {
        OfOne::Done => Done::Done,
        OfOne::Refused if is_ours => Done::Done,
        OfOne::Refused => Done::Refused,
        OfOne::Failed => match outcome {
            ActOutcome::Failed(OperateError::Store(e)) if !matches!(e, StoreError::Item(_)) => {
                return Err(Pause::Failed(e.clone()));
            }
            _ => Done::Failed,
        },
    };
    entry.result = Some(result);
    if result != Done::Done {
        entry.text = Some(cut(&outcome.to_string()));
    }
    match outcome.is_unsent() {
        true => {
            let text = "the bus has not taken the messages of an act; the Supervisor sends them";
            Err(Pause::Failed(StoreError::Transient(text.into())))
        }
        false => Ok(()),
    }
}

fn cut(text: &str) -> String {
    let mut end = text.len().min(MAX_TEXT_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

fn alert(campaign: &Campaign, why: &str, at: Timestamp) -> Envelope {
    let name = campaign.what.name();
    let text = format!("campaign {} ({name}) has stopped: {why}", campaign.id);
    let alert = Alert {
        alert_id: format!("campaign/{}/{}", campaign.id, at.0),
        kind: AlertKind::CampaignStopped,
        order_id: None,
        // The text of a failure is bounded.
        cause: Failure::new(FailureKind::Operator, "campaign-stopped", &text).message,
        at,
    };
    alert.message(&campaign.id.to_string(), None)
}
