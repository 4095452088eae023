//! AWS: secrets of Secrets Manager, requests signed with the credentials of the program's role, and the AWS services
//! that an agent can call in place of an HTTP service.
//!
//! In a build without the feature `aws`, an agent whose settings need an account of AWS cannot be made.

#[cfg(feature = "aws")]
mod form;
#[cfg(feature = "aws")]
mod managed;
pub(crate) mod services;
#[cfg(feature = "aws")]
mod sign;
#[cfg(not(feature = "aws"))]
mod without;

#[cfg(feature = "aws")]
pub use form::signed_form;
#[cfg(feature = "aws")]
pub(crate) use managed::ManagedSecret;
#[cfg(feature = "aws")]
pub(crate) use sign::{Keys, Signer};
#[cfg(not(feature = "aws"))]
pub(crate) use without::{Keys, ManagedSecret, Signer};

/// The account of AWS with which agents read secrets and sign calls. The default is no account: an agent whose settings
/// need one cannot be made.
#[derive(Debug, Clone, Default)]
pub struct AwsAccount {
    #[cfg(feature = "aws")]
    account: Option<triad_aws::Account>,
}

#[cfg(feature = "aws")]
impl From<triad_aws::Account> for AwsAccount {
    fn from(account: triad_aws::Account) -> Self {
        Self {
            account: Some(account),
        }
    }
}

#[cfg(feature = "aws")]
impl AwsAccount {
    /// The account. `what` names the setting that needs it, for the error.
    fn needed(&self, what: &str) -> Result<triad_aws::Account, crate::HttpSettingsError> {
        let none = || crate::HttpSettingsError::NoAws(what.to_owned());
        self.account.clone().ok_or_else(none)
    }
}

/// The region in an ARN; `None` if the text is not an ARN, or its ARN has no region.
pub(crate) fn region_of(arn: &str) -> Option<String> {
    let mut parts = arn.split(':');
    let is_arn = parts.next() == Some("arn");
    let region = parts.nth(2)?;
    (is_arn && !region.is_empty()).then(|| region.to_owned())
}
