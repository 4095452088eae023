//! In place of the parts for AWS in a build without the feature `aws`: types without values, whose constructors fail.

use std::time::Duration;

use reqwest::{Request, Url};
use triad_runtime::Fault;

use super::AwsAccount;
use crate::HttpSettingsError;

fn none<T>(what: &str) -> Result<T, HttpSettingsError> {
    Err(HttpSettingsError::NoAws(what.to_owned()))
}

/// A secret of Secrets Manager, which no value can be.
pub(crate) enum ManagedSecret {}

impl ManagedSecret {
    pub(crate) fn new(
        _: &AwsAccount,
        id: &str,
        _: Option<&str>,
    ) -> Result<Self, HttpSettingsError> {
        none(&format!("the secret {id}"))
    }

    pub(crate) fn text(&self) -> Option<String> {
        match *self {}
    }

    pub(crate) async fn now(&self, _: Duration) -> Result<String, Fault> {
        match *self {}
    }

    pub(crate) fn refused(&self) {
        match *self {}
    }
}

/// A signer of requests, which no value can be.
pub(crate) enum Signer {}

/// Keys to sign a request with, which no value can be.
pub(crate) enum Keys {}

impl Signer {
    pub(crate) fn new(
        _: &AwsAccount,
        what: &str,
        _: &str,
        _: Option<String>,
    ) -> Result<Self, HttpSettingsError> {
        none(what)
    }

    pub(crate) async fn keys(&self, _: Duration) -> Result<Keys, Fault> {
        match *self {}
    }

    pub(crate) fn refused(&self) {
        match *self {}
    }
}

impl Keys {
    pub(crate) fn region(&self) -> &str {
        match *self {}
    }

    pub(crate) fn endpoint(&self, _: &str) -> Option<Url> {
        match *self {}
    }

    pub(crate) fn secrets(&self) -> Vec<String> {
        match *self {}
    }

    pub(crate) fn sign(&self, _: &mut Request) -> Result<(), Fault> {
        match *self {}
    }
}
