//! One signed request to an API of AWS that takes forms and answers XML, such as IAM's.

use std::time::Duration;

use reqwest::{Method, Request, Url};
use triad_aws::Account;

use super::Signer;
use crate::tls::client_builder;

/// Longest wait for credentials, and then for the answer.
const WITHIN: Duration = Duration::from_secs(10);

/// Sends a form, signed with the account's credentials for this service in this region. Returns status and text.
///
/// # Errors
/// Why there is no answer, for people.
pub async fn signed_form(
    account: Account,
    (service, region, url): (&str, &str, &str),
    pairs: &[(&str, &str)],
) -> Result<(u16, String), String> {
    let signer = Signer::new(&account.into(), service, service, Some(region.to_owned()));
    let signer = signer.map_err(|e| e.to_string())?;
    let keys = signer.keys(WITHIN).await;
    let keys = keys.map_err(|fault| fault.message().to_owned())?;
    let url: Url = url.parse().map_err(|e| format!("{url}: {e}"))?;
    let mut request = Request::new(Method::POST, url);
    let form = form_urlencoded::Serializer::new(String::new())
        .extend_pairs(pairs)
        .finish();
    *request.body_mut() = Some(form.into());
    let kind = "application/x-www-form-urlencoded; charset=utf-8";
    let kind = reqwest::header::HeaderValue::from_static(kind);
    request.headers_mut().insert("content-type", kind);
    *request.timeout_mut() = Some(WITHIN);
    keys.sign(&mut request)
        .map_err(|fault| fault.message().to_owned())?;
    let client = client_builder().build().map_err(|e| e.to_string())?;
    let answer = client.execute(request).await;
    let answer = answer.map_err(|e| e.without_url().to_string())?;
    let status = answer.status().as_u16();
    let text = answer.text().await;
    Ok((status, text.map_err(|e| e.without_url().to_string())?))
}
