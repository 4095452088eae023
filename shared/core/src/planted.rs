//! Bugs that tests plant, to see that the simulated world's checker finds them.
//!
//! Without the feature `planted`, which nothing but those tests switches on, [`planted`] is the
//! constant `false` and every site is compiled away.

/// Declares the bugs: each a variant, a name for people, and what goes wrong.
macro_rules! bugs {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+) => {
        /// One bug, at one place.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Bug {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Bug {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// The bug's name, as the report has it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }
    };
}

bugs! {
    /// A reply of an older attempt is taken.
    OldReplyTaken = "attempt-of-a-reply-not-compared",
    /// A reply after its complete-by is taken.
    LateReplyTaken = "complete-by-of-a-reply-not-compared",
    /// An input that is met again is not known.
    RepeatUnknown = "answered-input-not-remembered",
    /// A claimed order is claimed again.
    ClaimTakenOver = "claim-not-checked",
    /// A claim id is used by many.
    ClaimIdShared = "claim-id-not-unique",
    /// A paused order is claimed.
    PauseIgnored = "pause-not-checked",
    /// A finished order is claimed.
    FinishedClaimed = "finished-order-claimed",
    /// A status has the sequence of the one before.
    SequenceNotRaised = "sequence-not-raised",
    /// What is unsent is not carried on by the next writer.
    OutboxNotCarried = "outbox-not-carried",
    /// Nobody sends `received` where Submission died before it did.
    ReceivedNotMadeUp = "received-not-made-up-for",
    /// An order that stops in Error has no alert.
    ErrorWithoutAlert = "alert-of-an-error-lost",
    /// A failed compensation has no alert.
    UndoFailedWithoutAlert = "alert-of-a-failed-undo-lost",
    /// A bad end is taken as confirmed at once.
    BadEndNotDue = "bad-end-not-confirmed",
    /// The hint in the due index may be later than the true time.
    HintTooLate = "due-hint-too-late",
    /// A step starts before what it comes after.
    PredecessorsIgnored = "predecessors-not-checked",
    /// Steps are undone in any order.
    UndoOrderIgnored = "undo-order-not-kept",
    /// A step in doubt is not undone.
    DoubtNotUndone = "doubt-ignored-by-undo",
    /// A step in doubt that may not be repeated is repeated.
    DoubtRepeated = "doubt-ignored-by-retry",
    /// The service is not asked about a doubt.
    ProbeSkipped = "probe-skipped",
    /// The answer to a probe is read the wrong way round.
    ProbeInverted = "probe-answer-inverted",
    /// An attempt that no agent has taken counts as failed.
    SilenceCounted = "untaken-attempt-counted",
    /// The Supervisor does not wait for replies that were sent in time and not read yet.
    RepliesNotAwaited = "unread-replies-not-awaited",
    /// Submission runs ahead of the Schedulers without a bound.
    BacklogIgnored = "backlog-ignored",
    /// A window lets any number of orders be under way.
    WindowIgnored = "window-ignored",
    /// A window does not shrink when requests wait.
    WindowNeverShrinks = "window-never-shrinks",
    /// Any number of calls repeats earlier ones.
    RetriesUnlimited = "retry-budget-ignored",
    /// Work that was put off counts as failed.
    ParkedCounted = "parked-counted-as-failure",
    /// Reported calls are not subtracted from the total.
    CallsNotCounted = "budget-not-subtracted",
    /// The calls of a silent attempt are not subtracted from the total.
    SilentCallsNotCounted = "budget-of-silence-not-subtracted",
    /// A failure is not counted.
    FailureNotCounted = "failure-not-counted",
    /// One failure more than the threshold is met with another attempt.
    ThresholdPassed = "threshold-off-by-one",
    /// The Supervisor acts before complete-by and skew have passed.
    SkewIgnored = "supervisor-too-early",
    /// The Supervisor takes the word of the due index.
    IndexTrusted = "index-row-trusted",
    /// A key is used again after its effect was undone.
    KeyNotRaised = "key-not-raised",
    /// An order is cancelled past its point of no return.
    PivotIgnored = "pivot-not-checked",
    /// The input of a step in doubt is replaced.
    CorrectionInDoubt = "correction-of-a-doubt",
    /// An operator's act is not in the timeline.
    ActNotWritten = "operators-act-not-written",
    /// An order is moved to a version that it does not fit.
    MigrationUnchecked = "migration-not-checked",
    /// A half-open breaker lets out any number of probes.
    ProbesUnlimited = "breaker-probes-unlimited",
    /// An open breaker is probed before its time.
    OpenIgnored = "open-breaker-ignored",
    /// A paused downstream is called.
    ForcedIgnored = "forced-breaker-ignored",
    /// What was granted of a second is not written down.
    GrantNotWritten = "rate-grant-not-subtracted",
    /// The concurrency limit is not asked.
    ConcurrencyIgnored = "concurrency-not-limited",
    /// An agent's calls may last until complete-by itself.
    AgentTooLate = "agent-ignores-the-skew",
    /// An agent makes one call more than it may.
    AllowancePassed = "allowance-off-by-one",
    /// The call ledger is not asked.
    LedgerSkipped = "ledger-skipped",
    /// A request whose calls another delivery has claimed is said to have had no effect.
    LedgerDenies = "interrupted-calls-not-in-doubt",
    /// The Scheduler does not wait for the bus.
    SchedulerSendUnheard = "scheduler-send-not-awaited",
    /// Submission does not wait for the bus.
    SubmissionSendUnheard = "submission-send-not-awaited",
    /// The Supervisor confirms what it has not sent.
    ConfirmsUnsent = "supervisor-confirms-unsent",
    /// A decision that writes nothing is taken on a copy.
    CopyTrusted = "stale-copy-trusted",
    /// A lost race is taken as won.
    ConflictTakenAsWritten = "conflict-taken-as-written",
    /// All writes have the same token.
    TokenShared = "write-token-not-unique",
    /// The cap on orders in flight is not asked.
    AdmissionIgnored = "admission-cap-ignored",
    /// Other content under the same id is taken as a repetition.
    DigestIgnored = "conflicting-submission-not-seen",
    /// An order that needs an operator expires like any other.
    StoppedExpires = "stopped-order-expires",
    /// A dead letter has no alert.
    LetterWithoutAlert = "alert-of-a-dead-letter-lost",
    /// A dead letter is not kept.
    LetterLost = "dead-letter-lost",
}

#[cfg(feature = "planted")]
static PLANTED: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(usize::MAX);

/// Plants a bug in this process, in the place of the one before; `None` takes it out.
#[cfg(feature = "planted")]
pub fn plant(bug: Option<Bug>) {
    let number = bug.map_or(usize::MAX, |b| b as usize);
    PLANTED.store(number, std::sync::atomic::Ordering::SeqCst);
}

/// Whether a bug is planted.
#[cfg(feature = "planted")]
#[must_use]
pub fn planted(bug: Bug) -> bool {
    PLANTED.load(std::sync::atomic::Ordering::Relaxed) == bug as usize
}

/// Whether a bug is planted: never.
#[cfg(not(feature = "planted"))]
#[inline(always)]
#[must_use]
pub const fn planted(_: Bug) -> bool {
    false
}
