//! Every query and act of operators: a typed request, and one function that executes it.
//!
//! [`Operations::execute`] takes a [`Request`] and answers with an [`Answer`]. Roles, hidden fields, bounds, dry runs,
//! paging and the log of acts are here and nowhere else; the pages, the HTTP API, the tools of MCP and the command
//! line only translate. [`ROUTES`] says where each request is in the HTTP API, and from it the OpenAPI document is
//! made. A new query or act is a type here, a line of `operations!`, and what shows it.
//!
//! | module | owns |
//! |---|---|
//! | [`caller`] | who asks, and their role |
//! | [`problem`] | refusals and failures, with stable codes |
//! | [`filter`] | which orders, which dead letters |
//! | [`hidden`], [`trace`] | fields that no answer shows; the link to an order's trace |
//! | [`local`] | the requests, executed over the ports |
//! | [`routes`] | the place of each request in the HTTP API |
//! | [`order_queries`], [`overview`], [`downstreams`], [`workflows`], [`campaigns`], [`letters`], [`alerts`], [`audit`] | requests and answers by subject |
//! | [`order_acts`] | acts on orders |
//! | [`events`], [`callbacks`] | events from outside, sent to an order; what services say of work that they have taken |

pub mod alerts;
pub mod audit;
pub mod callbacks;
pub mod caller;
pub mod campaigns;
pub mod downstreams;
pub mod events;
pub mod filter;
mod heard;
pub mod hidden;
pub mod letters;
pub mod local;
pub mod order_acts;
pub mod order_queries;
pub mod overview;
pub mod problem;
mod record;
pub mod routes;
pub mod trace;
pub mod workflows;

use futures::future::BoxFuture;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use triad_core::{OperatorAct, Timestamp};
use triad_workflow::Millis;

pub use alerts::ListAlerts;
pub use audit::ListActs;
pub use callbacks::CallBack;
pub use caller::{Caller, Role};
pub use campaigns::{
    GetCampaign, GetCampaignBatch, ListCampaigns, ResumeCampaign, StartCampaign, StopCampaign,
};
pub use downstreams::{ActOnDownstreams, ListDownstreams};
pub use events::{SendEvent, SendKeyedEvent};
pub use filter::{DeadLetterFilter, OrderFilter};
pub use hidden::Hidden;
pub use letters::{ActOnDeadLetters, GetDeadLetter, ListDeadLetters};
pub use local::{Installation, Local, Parts, Settings};
pub use order_acts::ActOnOrders;
pub use order_queries::{GetOrder, ListCauses, ListOrders};
pub use overview::{GetCounts, GetHistory, GetOverview};
pub use problem::Problem;
pub use routes::{Method, Route};
pub use trace::{InvalidTraceUrl, TraceUrl};
pub use workflows::{GetWorkflow, ListWorkflows, PruneWorkflows};

/// The operations of one installation: here over its store, or far away over HTTP.
pub trait Operations: std::fmt::Debug + Send + Sync + 'static {
    /// Executes a request.
    ///
    /// # Errors
    /// [`Problem`]: the caller may not do it, the request is wrong, what it names does not exist, or the store or the
    /// bus cannot be reached. An act on many orders or letters is no error if single ones refuse it: the answer says
    /// what came of each.
    fn execute<'a>(
        &'a self,
        caller: &'a Caller,
        request: Request,
    ) -> BoxFuture<'a, Result<Answer, Problem>>;

    /// The present moment by the clock of the installation.
    fn now(&self) -> Timestamp;

    /// Completes after a time, by the clock of the installation.
    fn sleep(&self, span: Millis) -> BoxFuture<'_, ()>;
}

/// Executes a request, and returns the answer in its type.
///
/// # Errors
/// As [`Operations::execute`].
pub async fn ask<Q: Asked>(
    operations: &dyn Operations,
    caller: &Caller,
    request: Q,
) -> Result<Q::Answer, Problem> {
    let answer = operations.execute(caller, request.into()).await?;
    let other = || Problem::internal("the answer belongs to another request");
    Q::of(answer).ok_or_else(other)
}

/// A request of one type, and the type of its answer.
pub trait Asked: Into<Request> + Serialize + DeserializeOwned {
    /// The type of its answer. Its serde form is read by Triad itself; programs get [`Form::form`].
    type Answer: Form;

    /// The answer, if it belongs to such a request.
    fn of(answer: Answer) -> Option<Self::Answer>;
}

/// An answer in the form for programs: one vocabulary, moments in RFC 3339 ([`crate::json`]).
pub trait Form: Serialize + DeserializeOwned {
    /// The answer for programs.
    ///
    /// # Errors
    /// If it has no form in JSON, which is a fault of Triad.
    fn form(&self) -> Result<Value, serde_json::Error>;

    /// The JSON Schema of [`form`](Self::form).
    fn schema(of: &mut schemars::SchemaGenerator) -> schemars::Schema;
}

/// An answer whose form for programs is its serde form with moments in RFC 3339 and the field `kind`; the items of the
/// lists that are named have a `kind`, too.
macro_rules! plain_form {
    ($answer:ty: $kind:literal $({ $($list:literal: $of:literal),+ })?) => {
        impl $crate::operations::Form for $answer {
            fn form(&self) -> Result<serde_json::Value, serde_json::Error> {
                let shown = $crate::json::line($kind, self)?;
                $(let shown = $crate::operations::with_kinds(shown, &[$(($list, $of)),+]);)?
                Ok(shown)
            }

            fn schema(of: &mut schemars::SchemaGenerator) -> schemars::Schema {
                $crate::operations::routes::with_kind(<$answer as schemars::JsonSchema>::json_schema(of), $kind)
            }
        }
    };
}
pub(crate) use plain_form;

/// Gives the items of lists, named by their fields, a `kind`.
pub(crate) fn with_kinds(mut shown: Value, lists: &[(&str, &str)]) -> Value {
    for (list, kind) in lists {
        for line in shown[*list].as_array_mut().into_iter().flatten() {
            line["kind"] = (*kind).into();
        }
    }
    shown
}

/// Defines the requests: for each its doc comment, type, place in the HTTP API and answer.
macro_rules! operations {
    ($($(#[doc = $about:literal])+ $request:ident: $method:ident $path:literal => $answer:ty;)+) => {
        /// A request for a query or an act.
        #[derive(Debug, Clone)]
        #[expect(missing_docs, reason = "each variant has the doc comment of its type")]
        pub enum Request {
            $($request(Box<$request>),)+
        }

        /// The answer to a request: the variant of the same name.
        #[derive(Debug)]
        #[expect(missing_docs, reason = "each variant has the doc comment of its type")]
        pub enum Answer {
            $($request(Box<$answer>),)+
        }

        impl Request {
            /// Its place in the HTTP API.
            #[must_use]
            pub fn route(&self) -> &'static Route {
                let name = match self { $(Self::$request(_) => stringify!($request),)+ };
                ROUTES.iter().find(|route| route.name == name).expect("every request has a route")
            }

            /// Its fields as JSON.
            ///
            /// # Errors
            /// Never: every request is an object.
            pub fn fields(&self) -> Result<Value, serde_json::Error> {
                match self { $(Self::$request(asked) => serde_json::to_value(asked),)+ }
            }

            /// Reads an answer to it, in the serde form of its type.
            ///
            /// # Errors
            /// If the text is not such an answer.
            pub fn read_answer(&self, text: &[u8]) -> Result<Answer, serde_json::Error> {
                match self { $(Self::$request(_) => serde_json::from_slice(text).map(|read| Answer::$request(Box::new(read))),)+ }
            }

            pub(crate) async fn execute_on<I: Installation>(self, on: &Local<I>, caller: &Caller) -> Result<Answer, Problem> {
                match self { $(Self::$request(asked) => local::Execute::execute(*asked, on, caller).await.map(|made| Answer::$request(Box::new(made))),)+ }
            }
        }

        impl Answer {
            /// The answer for programs.
            ///
            /// # Errors
            /// If it has no form in JSON, which is a fault of Triad.
            pub fn form(&self) -> Result<Value, serde_json::Error> {
                match self { $(Self::$request(made) => made.form(),)+ }
            }

            /// The answer in the serde form of its type, which [`Request::read_answer`] reads.
            ///
            /// # Errors
            /// If it has no form in JSON, which is a fault of Triad.
            pub fn exact(&self) -> Result<Value, serde_json::Error> {
                match self { $(Self::$request(made) => serde_json::to_value(made),)+ }
            }
        }

        $(
            impl From<$request> for Request {
                fn from(asked: $request) -> Self {
                    Self::$request(Box::new(asked))
                }
            }

            impl Asked for $request {
                type Answer = $answer;

                fn of(answer: Answer) -> Option<$answer> {
                    match answer {
                        Answer::$request(made) => Some(*made),
                        _ => None,
                    }
                }
            }
        )+

        /// Every request in the HTTP API.
        pub static ROUTES: &[Route] = &[$(routes::route!($request, $method, $path, $answer, [$($about),+]),)+];
    };
}

mod table {
    use super::routes::{self, Route};
    use super::*;

    operations! {
        /// What is under way, what waits, what is wrong and what needs an operator, on one page.
        GetOverview: Get "/overview" => overview::Overview;
        /// Orders counted by state, and how many came and ended of late.
        GetCounts: Get "/counts" => overview::Counts;
        /// What came and ended in the last hour and day, for plots; empty on a store that does not count its orders.
        GetHistory: Get "/history" => crate::history::History;
        /// Orders that need an operator, counted by cause.
        ListCauses: Get "/causes" => order_queries::CausesFound;
        /// A page of the orders that fit a filter.
        ListOrders: Get "/orders" => order_queries::OrdersFound;
        /// One order with its whole record: its state, failure, steps, timeline and what happens next.
        GetOrder: Get "/orders/{id}" => order_queries::OrderFound;
        /// Act on orders: on those that are named, or on at most 1,000 that a filter finds. The answer says what came
        /// of each. A request without `dry_run: false` changes nothing.
        ActOnOrders: Post "/acts" => order_acts::ActedOnOrders;
        /// Send an event to an order: the step that waits for it takes it. The same name and id again is the same
        /// event, which is sent once.
        SendEvent: Post "/orders/{id}/events" => events::EventSent;
        /// Send an event to the order that waits for it under a key, such as a payment id that an earlier step has
        /// returned.
        SendKeyedEvent: Post "/keyed-events" => events::EventSent;
        /// Say that work is finished, or still going on, that a service has taken for a step of an order. The token that
        /// the service was given with the call is needed.
        CallBack: Post "/orders/{id}/steps/{step}" => callbacks::CalledBack;
        /// The newest campaigns: acts on many orders that the Supervisor carries out.
        ListCampaigns: Get "/campaigns" => campaigns::CampaignsFound;
        /// Start a campaign: an act on all orders that fit a filter, in batches that grow; it stops early if too many
        /// fail again. A request without `dry_run: false` only counts the orders.
        StartCampaign: Post "/campaigns" => campaigns::CampaignStarted;
        /// One campaign: how far it is, and why it stopped.
        GetCampaign: Get "/campaigns/{id}" => campaigns::CampaignFound;
        /// One batch of a campaign: what came of each order.
        GetCampaignBatch: Get "/campaigns/{id}/batches/{batch}" => campaigns::BatchFound;
        /// Stop a campaign between two orders.
        StopCampaign: Post "/campaigns/{id}/stop" => campaigns::CampaignFound;
        /// Resume a campaign that ended before it had acted on every order that fits.
        ResumeCampaign: Post "/campaigns/{id}/resume" => campaigns::CampaignFound;
        /// Every downstream with its breaker, who has paused it, its last changes, and how many orders wait for it.
        ListDownstreams: Get "/downstreams" => downstreams::DownstreamsFound;
        /// Pause, resume, force or release a downstream; pause or resume a step type. A request without
        /// `dry_run: false` changes nothing.
        ActOnDownstreams: Post "/downstreams/acts" => downstreams::ActedOnDownstreams;
        /// The versions of workflows, and how many orders are on each.
        ListWorkflows: Get "/workflows" => workflows::WorkflowsFound;
        /// The definition of one version, and with `against` what has changed since another one.
        GetWorkflow: Get "/workflows/{name}/{version}" => workflows::WorkflowFound;
        /// Remove the versions of workflows that no order needs. A request without `dry_run: false` changes nothing.
        PruneWorkflows: Post "/workflows/prune" => workflows::WorkflowsPruned;
        /// Records that could not be taken, counted by cause, and the newest of them.
        ListDeadLetters: Get "/dead-letters" => letters::LettersFound;
        /// One dead letter with its value, its headers, and what was done about it.
        GetDeadLetter: Get "/dead-letters/{topic}/{partition}/{offset}" => letters::LetterFound;
        /// Replay or dismiss dead letters. A request without `dry_run: false` changes nothing.
        ActOnDeadLetters: Post "/dead-letters/acts" => letters::ActedOnLetters;
        /// What operators were alerted of in the last day, or since a moment; the newest.
        ListAlerts: Get "/alerts" => alerts::AlertsFound;
        /// What operators did: on orders, downstreams, campaigns and dead letters, with who and why.
        ListActs: Get "/audit" => audit::ActsFound;
    }
}

pub use table::{Answer, ROUTES, Request};

/// Default of `dry_run`: true, so that a request that omits it changes nothing.
pub(crate) const fn only_tried() -> bool {
    true
}

impl Caller {
    /// The name of the caller, or the one that a caller without a name gives in `by`; `None` if there is neither.
    ///
    /// # Errors
    /// [`Problem`] `bad-by` if the two are not the same.
    pub(crate) fn named<'a>(&'a self, by: &'a Option<String>) -> Result<Option<&'a str>, Problem> {
        let by = filter::said(by).map(str::trim);
        match (self.name.as_deref(), by) {
            (Some(name), Some(by)) if name != by => {
                let text = "the operator's name comes from the token or the proxy: leave `by` out";
                Err(Problem::bad("bad-by", text))
            }
            (name, by) => Ok(name.or(by)),
        }
    }
}

/// Who acts and why, in every act.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[cfg_attr(feature = "cli", derive(clap::Args))]
pub struct Reason {
    /// Why this is done. It is kept in the record, for people.
    #[cfg_attr(feature = "cli", arg(long, value_name = "TEXT"))]
    pub why: String,
    /// Who does it. Left out where the caller has a name: by a token or a proxy.
    #[cfg_attr(feature = "cli", arg(long, value_name = "NAME"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

impl Reason {
    /// The act's operator and reason. The name is the caller's; a caller without a name gives it in `by`.
    ///
    /// # Errors
    /// [`Problem`] `bad-by` or `bad-why`.
    pub(crate) fn of(&self, caller: &Caller) -> Result<OperatorAct, Problem> {
        let Some(by) = caller.named(&self.by)? else {
            let text = "the operator's name is unknown: give it in `by`";
            return Err(Problem::bad("bad-by", text));
        };
        match self.why.trim() {
            "" => Err(Problem::bad("bad-why", "say why this is done, in `why`")),
            why => Ok(OperatorAct::new(by, why)),
        }
    }
}
