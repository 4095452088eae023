//! Campaigns: one act on many orders, which is stored, carried out by the Supervisor, and stops early where it does
//! not help.
//!
//! An operator [starts](commands::start) a campaign and may go away. The Supervisor [carries it on](run::Campaigns)
//! in batches that [grow](rules::SIZES): it chooses orders that fit the filter, acts on each, and waits for their
//! ends before it takes the next batch. If more than a stated share [fails again](rules::verdict), or most orders do
//! not end in time, the campaign stops and operators are alerted.
//!
//! All state is in the control store: a record for the campaign, one for each batch with the result of every order,
//! and a list of all campaigns. So a crash at any moment is harmless: the next process reads the progress. These
//! records do not guarantee that an order is acted on only once. The order does: it stores the campaign that acted on
//! it last ([`triad_core::Order::campaign`]), and refuses a second act of it.
//!
//! Architecture invariant: [`rules`] and [`form`] are pure. [`acts`](crate::acts) does the acts on orders.

mod act;
pub mod commands;
pub mod form;
mod records;
pub mod rules;
pub mod run;
pub mod view;

pub use form::{
    Batch, Campaign, CampaignAct, CampaignCounts, CampaignEnd, CampaignNote, CampaignOrder, Done,
    EndedOrders, OrderAfterAct, Pace, Phase, Preview,
};
pub use run::{Campaigns, Report};
pub use view::View;
