//! The account of AWS in which a program acts.

use triad_aws::{Account, SdkConfig};

/// The domain of AWS's endpoints in a region.
pub(crate) fn domain(region: &str) -> &'static str {
    match region.starts_with("cn-") {
        true => "amazonaws.com.cn",
        false => "amazonaws.com",
    }
}

/// The number of the account of these credentials.
///
/// # Errors
/// Why it is not known, for people.
pub async fn account_number(aws: &SdkConfig) -> Result<String, String> {
    let region = aws.region().map(ToString::to_string).unwrap_or_default();
    let own = triad_aws::endpoint(aws, "STS");
    let url = own.unwrap_or_else(|| format!("https://sts.{region}.{}/", domain(&region)));
    let form = [("Action", "GetCallerIdentity"), ("Version", "2011-06-15")];
    let account = Account::of_config(aws.clone());
    let asked = triad_http::signed_form(account, ("sts", &region, &url), &form);
    let (status, answer) = asked.await?;
    let number = answer
        .split_once("<Account>")
        .and_then(|(_, rest)| rest.split_once("</Account>"));
    number
        .map(|(number, _)| number.to_owned())
        .ok_or_else(|| format!("STS answered {status} without an account"))
}
