//! Least privilege: what the roles of the Terraform module may do, held against what the functions do.
//!
//! [`policy`] reads what the module gives each role, as Terraform renders it. A [`world`] is what is
//! around one handler: tables, topics, a clock. What the handler asks for goes through the [`gate`], which
//! stands before the tables, SNS and Secrets Manager, and through the [`line`], which is its way to the
//! broker; both refuse what the role may not do, in the words of the service, and note in its [`rights`]
//! what was asked for. [`asked`] says which permissions a request needs. The [`runs`] go through what each
//! function does, and [`verdict`] compares a run with the whole policy to runs without one permission.
//!
//! Architecture invariant: nothing here knows what a role is given. A permission that the module adds or
//! drops is met by the runs alone.

pub mod checked_bus;
pub mod gate;
pub mod policy;
pub mod required;
pub mod rights;
pub mod runs;
pub mod verdict;
pub mod world;
