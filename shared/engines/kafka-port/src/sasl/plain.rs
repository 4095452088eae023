//! The server's side of PLAIN: extracts the user and the password.
//!
//! Source: RFC 4616, section 2. The message is `[authzid] NUL authcid NUL passwd`, in UTF-8.

/// The user and the password. A client may not act for another user, so the first part must be empty or equal to the
/// user's name.
pub(crate) fn user_and_password(message: &[u8]) -> Result<(&str, &str), &'static str> {
    let message = std::str::from_utf8(message).map_err(|_| "the message is no text")?;
    let parts: Vec<&str> = message.splitn(4, '\0').collect();
    let [acts_for, user, password] = parts[..] else {
        return Err("the message has not three parts");
    };
    if !acts_for.is_empty() && acts_for != user {
        return Err("acting for another user is not supported");
    }
    if user.is_empty() || password.is_empty() {
        return Err("the user name or the password is empty");
    }
    Ok((user, password))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_found_and_nothing_else_is_taken_for_them() {
        // The first example of RFC 4616, section 4.
        let example = b"\0tim\0tanstaaftanstaaf";
        assert_eq!(user_and_password(example), Ok(("tim", "tanstaaftanstaaf")));
        assert_eq!(user_and_password(b"tim\0tim\0t"), Ok(("tim", "t")));
        for wrong in [
            &b""[..],
            b"tim\0t",
            b"\0tim\0",
            b"\0\0t",
            b"ann\0tim\0t",
            b"\0tim\0t\0",
            b"\0tim\0\xff",
        ] {
            assert!(user_and_password(wrong).is_err(), "{wrong:?}");
        }
    }
}
