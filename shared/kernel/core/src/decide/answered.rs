//! The request that a reply answers.

use triad_workflow::StepIndex;

use crate::ids::Timestamp;
use crate::step::Out;

/// The request that a reply answers.
#[derive(Clone, Copy)]
pub(super) struct AnsweredRequest {
    pub index: StepIndex,
    pub out: Out,
    /// How many calls the agent made for it.
    pub calls: u32,
    /// When the agent finished the work.
    pub finished: Timestamp,
}
