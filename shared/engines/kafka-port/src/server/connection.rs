//! One connection: reads frames and sends answers in the order of the requests.
//!
//! Requests are begun as they arrive and answered in order, so several produce requests of a client share a sync. A
//! long poll at the head of the queue ends early if another request is behind it, because no later request can be
//! answered before it.
//!
//! Bounds: `max_in_flight` begun requests, `max_request_bytes` a request, all large requests together by a budget,
//! and [`MAX_UNSENT`] bytes of finished answers before the next long answer is made. Data beyond a bound waits in the
//! client's socket.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use kafka_protocol::messages::ApiKey;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio::time::Instant;

use super::gate::{LoginGate, MAX_LOGIN_REQUEST, Passage, Shut};
use crate::apis::{self, Reply, groups};
use crate::core::{Client, SharedCore};
use crate::wire::frame::{self, Header, Malformed, Request};

/// Most bytes of unsent answers; beyond it no fetch is answered.
const MAX_UNSENT: usize = 256 << 10;
/// Bound: bytes of all large requests that are being received, in KiB permits. A larger request takes all of them.
pub(super) const LARGE_REQUESTS_KIB: u32 = 128 << 10;
/// Size of the read buffer; larger requests count as large.
const READ_BYTES: usize = 64 << 10;
/// How long no further request is begun while too many writes wait for the disk, before it is looked again.
const BEHIND: Duration = Duration::from_millis(5);
/// A connection that stalls in the middle of a large request is closed after this time.
const STALLED: Duration = Duration::from_secs(60);

/// Why the broker closed a connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Closed {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Malformed(#[from] Malformed),
    #[error("a request of {0} bytes is over the limit")]
    TooLarge(i64),
    #[error("an answer could not be encoded")]
    Unencodable,
    #[error("the client stopped in the middle of a request")]
    Stalled,
    #[error("no TLS connection: {0}")]
    Tls(io::Error),
    #[error(transparent)]
    LoginGate(#[from] Shut),
}

/// A begun request.
struct Slot {
    header: Header,
    outcome: Reply,
}

struct Connection {
    core: SharedCore,
    signal: Arc<Notify>,
    client: Client,
    /// The login gate, if clients must log in.
    gate: Option<LoginGate>,
    /// Set when nothing more is read: the connection ends with this when all answers are sent.
    ending: Option<Shut>,
    slots: VecDeque<Slot>,
    input: BytesMut,
    output: BytesMut,
    max_in_flight: usize,
    max_request: usize,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.core.with(|core| {
            for slot in &self.slots {
                if let Reply::Group(ticket) = slot.outcome {
                    core.drop_ticket(ticket);
                }
            }
        });
    }
}

/// Serves one client until it disconnects or violates the protocol.
pub(crate) async fn serve(
    mut reader: impl AsyncRead + Unpin,
    mut writer: impl AsyncWrite + Unpin,
    client: Client,
    gate: Option<LoginGate>,
    core: SharedCore,
    budget: Rc<Semaphore>,
) -> Result<(), Closed> {
    let bounds = core.with(|core| (core.config.max_in_flight, core.config.max_request_bytes));
    let (max_in_flight, max_request) = bounds;
    let mut connection = Connection {
        core,
        signal: Arc::default(),
        client,
        gate,
        ending: None,
        slots: VecDeque::new(),
        input: BytesMut::with_capacity(READ_BYTES),
        output: BytesMut::new(),
        max_in_flight,
        max_request,
    };
    let mut permit: Option<SemaphorePermit<'_>> = None;
    loop {
        let wanted = connection.begin()?;
        connection.answer_ready()?;
        let sent = poll_fn(|cx| Poll::Ready(send(&mut writer, &mut connection.output, cx))).await;
        let sending = match sent {
            Poll::Ready(sent) => {
                sent?;
                false
            }
            Poll::Pending => true,
        };
        if connection.slots.is_empty()
            && !sending
            && let Some(shut) = connection.ending.take()
        {
            return Err(shut.into());
        }
        // Checked each time: with a client that keeps sending, the timer below might never fire.
        let login_by = connection.gate.as_ref().and_then(LoginGate::deadline);
        if login_by.is_some_and(|by| by <= Instant::now()) {
            return Err(Shut::TooSlow.into());
        }
        // Answering may have made room for requests that were read already.
        let is_full = connection.is_full();
        let is_behind = wanted == InputNeed::Room && !is_full;
        if !sending && is_behind && !connection.is_behind() {
            continue;
        }
        if let InputNeed::Large(bytes) = wanted {
            if permit.is_none() {
                let kib = u32::try_from(bytes >> 10).unwrap_or(u32::MAX);
                let kib = kib.min(LARGE_REQUESTS_KIB);
                permit = budget.acquire_many(kib).await.ok();
            }
            connection
                .input
                .reserve(bytes.saturating_sub(connection.input.len()));
        } else {
            permit = None;
            if connection.input.capacity() - connection.input.len() < READ_BYTES / 4 {
                connection.input.reserve(READ_BYTES);
            }
        }
        let may_read = wanted != InputNeed::Room;
        let stalled = permit.is_some().then(|| Instant::now() + STALLED);
        let again = is_behind.then(|| Instant::now() + BEHIND);
        let until = login_by.into_iter().chain(stalled).chain(again).min();
        let Connection {
            input,
            output,
            signal,
            slots,
            ..
        } = &mut connection;
        let is_answered_later = is_answered_later(slots, output);
        tokio::select! {
            biased;
            read = reader.read_buf(input), if may_read => {
                if read? == 0 {
                    return Ok(());
                }
            }
            () = signal.notified() => {}
            () = answered(slots), if is_answered_later => {}
            sent = poll_fn(|cx| send(&mut writer, output, cx)), if sending => sent?,
            () = at(until), if until.is_some() => {
                if stalled.is_some_and(|at| at <= Instant::now()) {
                    return Err(Closed::Stalled);
                }
            }
        }
    }
}

/// Sends until all is sent and flushed; an encrypting writer may buffer.
fn send(
    writer: &mut (impl AsyncWrite + Unpin),
    output: &mut BytesMut,
    cx: &mut Context<'_>,
) -> Poll<io::Result<()>> {
    while !output.is_empty() {
        match ready!(Pin::new(&mut *writer).poll_write(cx, output))? {
            0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            sent => output.advance(sent),
        }
    }
    Pin::new(writer).poll_flush(cx)
}

async fn at(until: Option<Instant>) {
    if let Some(until) = until {
        tokio::time::sleep_until(until).await;
    }
}

/// What the input needs next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InputNeed {
    /// The rest of a small request, or a new one.
    Bytes,
    /// This many bytes of a large request are still to be read.
    Large(usize),
    /// Room to begin requests that were read already.
    Room,
}

impl Connection {
    /// Begins the requests that have arrived completely.
    fn begin(&mut self) -> Result<InputNeed, Closed> {
        loop {
            if !self.has_room() {
                return Ok(InputNeed::Room);
            }
            let limit = match &self.gate {
                Some(gate) if !gate.is_open() => MAX_LOGIN_REQUEST,
                _ => self.max_request,
            };
            let Some(length) = self.input.first_chunk::<4>() else {
                return Ok(InputNeed::Bytes);
            };
            let said = i32::from_be_bytes(*length);
            let length = usize::try_from(said).ok().filter(|&n| n <= limit);
            let length = length.ok_or(Closed::TooLarge(i64::from(said)))?;
            if self.input.len() < 4 + length {
                let large = 4 + length > READ_BYTES;
                return Ok(if large {
                    InputNeed::Large(4 + length)
                } else {
                    InputNeed::Bytes
                });
            }
            self.input.advance(4);
            let frame = self.input.split_to(length).freeze();
            let (header, outcome) = match frame::parse(frame)? {
                Request::UnknownApiVersions(header) => {
                    let outcome = apis::versions::unsupported(&header, self.gate.is_some());
                    (header, outcome)
                }
                Request::Known(header, body) => {
                    let passage = match &mut self.gate {
                        Some(gate) => gate.pass(&header, &body)?,
                        None => Passage::Serve,
                    };
                    let outcome = match passage {
                        Passage::Serve => self.core.with(|core| {
                            apis::begin(core, &self.signal, &self.client, &header, body)
                        })?,
                        Passage::Answer(answer) => Reply::Ready(answer),
                        Passage::Last(answer, shut) => {
                            self.ending = Some(shut);
                            Reply::Ready(answer)
                        }
                    };
                    (header, outcome)
                }
            };
            self.slots.push_back(Slot { header, outcome });
        }
    }

    fn has_room(&self) -> bool {
        !self.is_full() && !self.is_behind()
    }

    /// Whether no further request may be begun before one is answered.
    fn is_full(&self) -> bool {
        self.ending.is_some() || self.slots.len() >= self.max_in_flight
    }

    /// Whether too many writes wait for the disk.
    fn is_behind(&self) -> bool {
        self.core.with(|core| core.topics.is_behind())
    }

    /// Moves finished answers from the head of the queue to the output.
    fn answer_ready(&mut self) -> Result<(), Closed> {
        loop {
            // Another fetch behind does not count: its client wants to wait, too.
            let behind = self.slots.get(1).map(|slot| slot.header.api.key);
            let hurry = behind.is_some_and(|key| key != ApiKey::Fetch);
            let Some(slot) = self.slots.front_mut() else {
                return Ok(());
            };
            let answer = match &mut slot.outcome {
                Reply::Silent => None,
                Reply::Ready(frame) => Some(std::mem::take(frame)),
                Reply::Group(ticket) => match self.core.with(|core| core.redeem(*ticket)) {
                    Some(answer) => Some(groups::answer(&slot.header, answer)),
                    None => return Ok(()),
                },
                Reply::Fetch(_, hurries) if hurry => {
                    hurries.notify_one();
                    return Ok(());
                }
                Reply::Later(_) | Reply::Fetch(..) => return Ok(()),
            };
            self.slots.pop_front();
            if let Some(answer) = answer {
                if answer.is_empty() {
                    return Err(Closed::Unencodable);
                }
                self.output.extend_from_slice(&answer);
            }
        }
    }
}

/// Whether the head of the queue is an answer that is still being made. A fetch waits until most of the output is
/// sent.
fn is_answered_later(slots: &VecDeque<Slot>, output: &BytesMut) -> bool {
    match slots.front().map(|slot| &slot.outcome) {
        Some(Reply::Later(_)) => true,
        Some(Reply::Fetch(..)) => output.len() <= MAX_UNSENT,
        _ => false,
    }
}

/// Waits until the answer at the head of the queue is made.
async fn answered(slots: &mut VecDeque<Slot>) {
    let Some(slot) = slots.front_mut() else {
        return;
    };
    if let Reply::Later(answer) | Reply::Fetch(answer, _) = &mut slot.outcome {
        let frame = answer.as_mut().await;
        slot.outcome = Reply::Ready(frame);
    }
}
