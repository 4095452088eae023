//! Tokens in the form of MSK's access control.

use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::{Grant, TokenCheck, TokenRefused};

/// The longest lifetime that MSK allows a token, in seconds.
const LONGEST_S: u64 = 900;
/// Largest lead of a signer's clock.
const SKEW: Duration = Duration::from_secs(300);

/// Accepts tokens that have the form of an MSK IAM token of one access key: the signed URL of a
/// `kafka-cluster:Connect` call in base64url, which has not expired.
///
/// **The signature is not checked**, because that would need the secret key or AWS. It is for tests only and gives no
/// protection.
///
/// Source of the form: AWS's own signers (aws-msk-iam-sasl-signer for Java, Python, Go).
#[derive(Debug, Clone)]
pub struct MskTokenForm {
    key_id: String,
}

impl MskTokenForm {
    /// A check that accepts only tokens of this access key id.
    #[must_use]
    pub fn new(key_id: impl Into<String>) -> Self {
        Self {
            key_id: key_id.into(),
        }
    }

    fn check_at(&self, token: &str, now: SystemTime) -> Result<Grant, String> {
        let address = URL_SAFE_NO_PAD
            .decode(token)
            .ok()
            .and_then(|bytes| String::from_utf8(bytes).ok())
            .ok_or("the token is no text in base64url without padding")?;
        let (host, query) = address
            .strip_prefix("https://")
            .and_then(|rest| rest.split_once("/?"))
            .ok_or("the token is no https address with a query")?;
        let parameter = |name: &str| {
            form_urlencoded::parse(query.as_bytes())
                .find(|(found, _)| found == name)
                .map(|(_, value)| value)
                .ok_or_else(|| format!("the token has no {name}"))
        };
        if parameter("Action")? != "kafka-cluster:Connect" {
            return Err("the token's Action is not kafka-cluster:Connect".to_owned());
        }
        let credential = parameter("X-Amz-Credential")?;
        let scope: Vec<&str> = credential.split('/').collect();
        let [key_id, _day, region, "kafka-cluster", "aws4_request"] = scope[..] else {
            return Err("the token's X-Amz-Credential is not one of kafka-cluster".to_owned());
        };
        if key_id != self.key_id {
            return Err(format!("the access key id {key_id:?} is not known"));
        }
        if !host.starts_with(&format!("kafka.{region}.")) {
            return Err("the token's address is not that of its region".to_owned());
        }
        let signature = parameter("X-Amz-Signature")?;
        if signature.len() != 64 || !signature.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err("the token's X-Amz-Signature is no signature".to_owned());
        }
        let date = parameter("X-Amz-Date")?;
        let signed = signed_at(&date).ok_or("the token's X-Amz-Date is no time")?;
        let life = parameter("X-Amz-Expires")?;
        let life = life.parse().ok().filter(|s| (1..=LONGEST_S).contains(s));
        let life = life.ok_or("the token's X-Amz-Expires is not 1 to 900")?;
        if signed > now + SKEW {
            return Err("the token was signed in the future".to_owned());
        }
        let ends = signed + Duration::from_secs(life);
        let left = ends
            .duration_since(now)
            .ok()
            .filter(|left| !left.is_zero())
            .ok_or("the token has expired")?;
        Ok(Grant {
            name: key_id.to_owned(),
            ends_in: left,
        })
    }
}

/// Parses a date such as `20260102T030405Z`.
fn signed_at(date: &str) -> Option<SystemTime> {
    let (day, time) = date.strip_suffix('Z')?.split_once('T')?;
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if day.len() != 8 || time.len() != 6 || !digits(day) || !digits(time) {
        return None;
    }
    let rfc3339 = format!(
        "{}-{}-{}T{}:{}:{}Z",
        &day[..4],
        &day[4..6],
        &day[6..],
        &time[..2],
        &time[2..4],
        &time[4..]
    );
    humantime::parse_rfc3339(&rfc3339).ok()
}

impl TokenCheck for MskTokenForm {
    fn check(&self, token: &str) -> Result<Grant, TokenRefused> {
        #[expect(
            clippy::disallowed_methods,
            reason = "a token's life is by the wall clock, and this is where it is looked at"
        )]
        let now = SystemTime::now();
        self.check_at(token, now).map_err(TokenRefused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "https://kafka.eu-west-1.amazonaws.com/?Action=kafka-cluster%3AConnect\
        &X-Amz-Algorithm=AWS4-HMAC-SHA256\
        &X-Amz-Credential=AKIDEXAMPLE%2F20260102%2Feu-west-1%2Fkafka-cluster%2Faws4_request\
        &X-Amz-Date=20260102T030405Z&X-Amz-Expires=900&X-Amz-SignedHeaders=host\
        &X-Amz-Signature=7b9512811e0b1fdd1036abf0acc1ac204d9e0fc27970438027ce590a6175ba4f\
        &User-Agent=triad";

    /// Checks the example, this many seconds after it was signed.
    fn check(address: &str, later: u64) -> Result<Grant, String> {
        let signed = SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_323_045);
        let now = signed + Duration::from_secs(later);
        MskTokenForm::new("AKIDEXAMPLE").check_at(&URL_SAFE_NO_PAD.encode(address), now)
    }

    #[test]
    fn a_token_is_good_until_its_life_is_over() {
        let grant = check(GOOD, 100).unwrap();
        assert_eq!(grant.name, "AKIDEXAMPLE");
        assert_eq!(grant.ends_in, Duration::from_secs(800));
        assert!(check(GOOD, 899).is_ok());
        assert_eq!(
            check(GOOD, 900).unwrap_err(),
            "the token has expired".to_owned()
        );
    }

    #[test]
    fn what_has_another_form_is_refused() {
        for (from, to) in [
            ("https://", "http://"),
            ("kafka.eu-west-1.amazonaws", "example.eu-west-1.amazonaws"),
            ("Action=kafka-cluster%3AConnect&", ""),
            ("%3AConnect", "%3ADescribe"),
            ("AKIDEXAMPLE", "AKIDOTHER"),
            ("kafka-cluster%2Faws4", "s3%2Faws4"),
            ("Expires=900", "Expires=901"),
            ("Expires=900", "Expires=0"),
            ("20260102T030405Z", "20260102T040405Z"),
            ("20260102T030405Z", "today"),
            ("Signature=7b", "Signature="),
        ] {
            let address = GOOD.replace(from, to);
            assert_ne!(address, GOOD, "{from}");
            assert!(check(&address, 1).is_err(), "{from} to {to}");
        }
        let form = MskTokenForm::new("AKIDEXAMPLE");
        assert!(form.check("not base64!").is_err());
    }
}
