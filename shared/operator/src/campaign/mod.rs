//! Campaigns: one act on many orders, which is stored, carried out by the Supervisor, and stopped by itself
//! where it does not help.
//!
//! An operator [starts](desk::start) one and may go away. The Supervisor [carries it on](run::Campaigns) in
//! batches that [grow](rules::SIZES): it chooses orders that fit the filter, acts on each, and waits for what
//! becomes of them before it takes the next batch. Where more than a stated share [fails
//! again](rules::verdict), or most come to no end in time, the campaign stops and operators are alerted.
//!
//! Everything is in the control store: a record for the campaign, one for each batch with what came of every
//! order, and a list of all campaigns. So a crash at any moment changes nothing: whoever runs next reads how
//! far it is. That no order is acted on twice is not left to these records: an order knows the campaign that
//! acted on it last ([`triad_core::Order::campaign`]), and refuses a second act of it.
//!
//! Architecture invariant: [`rules`] and [`form`] are pure. What an act makes of an order is
//! [`acts`](crate::acts)'.

mod act;
pub mod commands;
pub mod form;
mod records;
pub mod rules;
pub mod run;
pub mod view;

pub use form::{
    Batch, Campaign, CampaignAct, CampaignCounts, CampaignEnd, CampaignNote, CampaignOrder, Done,
    EndedOrders, OrderAfterAct, Pace, Phase,
};
pub use run::{Campaigns, Report};
pub use view::View;
