//! Bearer tokens and their roles, by the SHA-256 of a random secret.
//!
//! A file has one token a line, and holds no secret:
//!
//! ```text
//! # name   sha256 of the token, in hex                                        roles
//! shop     9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08   submit,read
//! ```
//!
//! A token has 256 random bits, so a plain hash is enough: it cannot be guessed.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::{SecureRandom, SystemRandom};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use triad_operator::operations::caller::{self, Caller};

use crate::caller::Keys;

/// Most tokens in a file, inclusive.
pub const MAX_TOKENS: usize = 1_000;
/// Largest file of tokens, in bytes, inclusive: 1 MiB.
pub const MAX_FILE_BYTES: u64 = 1024 * 1024;
/// Longest name of a token, in bytes, inclusive.
pub const MAX_NAME_BYTES: usize = 64;
/// Prefix of every token, so that a leaked one is recognised.
const PREFIX: &str = "triad_";

/// What a token permits. Where applications submit orders, no role includes another. In the console, `Read`
/// permits to look at everything, and `Operate` to look and to act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// To submit orders, and to wait for the ends of these orders.
    Submit,
    /// To read orders.
    Read,
    /// To act as an operator.
    Operate,
}

impl Role {
    const ALL: [Self; 3] = [Self::Submit, Self::Read, Self::Operate];

    /// The role's name in the file: `submit`, `read` or `operate`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Submit => "submit",
            Self::Read => "read",
            Self::Operate => "operate",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Role {
    type Err = TokenError;
    fn from_str(text: &str) -> Result<Self, TokenError> {
        let found = Self::ALL.into_iter().find(|role| role.as_str() == text);
        found.ok_or_else(|| TokenError::Role(text.chars().take(32).collect()))
    }
}

/// Why a token cannot be made, or a line of a file of tokens cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The line has not exactly three parts: name, hash and roles.
    #[error("a line has three parts: name, SHA-256 in hex, and roles with commas")]
    Form,
    /// The name is not 1 to [`MAX_NAME_BYTES`] of the characters `a-z`, `A-Z`, `0-9`, `-`, `_`, `.` and `@`.
    #[error("a name has 1 to {MAX_NAME_BYTES} of a-z, A-Z, 0-9 and - _ . @")]
    Name,
    /// The hash is not 64 hexadecimal digits.
    #[error("the SHA-256 of a token has 64 hex digits")]
    Hash,
    /// There is no role of this name (cut to 32 characters).
    #[error("there is no role {0:?}: submit, read, operate")]
    Role(String),
    /// [`NewToken::make`] was called without a role.
    #[error("a token has at least one role: submit, read, operate")]
    NoRole,
    /// An earlier line of the file has the same name or the same hash.
    #[error("its name or its hash stands in the file twice")]
    Twice,
    /// The system gave no random numbers.
    #[error("the system gives no random numbers")]
    Random,
}

/// Why a file of tokens cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TokensError {
    /// The file cannot be read, or is not UTF-8.
    #[error("it cannot be read: {0}")]
    Unreadable(#[from] std::io::Error),
    /// The file is larger than [`MAX_FILE_BYTES`].
    #[error("it is larger than {MAX_FILE_BYTES} bytes")]
    TooLarge,
    /// The file has more than [`MAX_TOKENS`] tokens.
    #[error("it has more than {MAX_TOKENS} tokens")]
    TooMany,
    /// The file has no token, so every request would be refused.
    #[error("there is no token in it")]
    Empty,
    /// A line cannot be used. It is the first such line of the file.
    #[error("line {line}: {why}")]
    Line {
        /// The number of the line, from 1. Blank lines and comments are counted.
        line: usize,
        /// What is wrong with the line.
        why: TokenError,
    },
}

/// One line of a file of tokens: whose token it is, its hash and its roles.
#[derive(Debug, PartialEq, Eq)]
pub struct Entry {
    /// Name of the token's owner.
    pub name: String,
    digest: crate::Digest,
    roles: Vec<Role>,
}

impl Entry {
    /// Whether the token has this role. No role includes another here.
    #[must_use]
    pub fn may(&self, role: Role) -> bool {
        self.roles.contains(&role)
    }
}

/// The tokens of a file, or of a text of the same form (see the module's description).
#[derive(Debug, Default)]
pub struct Tokens(Vec<Entry>);

impl Tokens {
    /// Reads a file.
    ///
    /// # Errors
    /// [`TokensError::Unreadable`], [`TokensError::TooLarge`], [`TokensError::TooMany`],
    /// [`TokensError::Empty`], or [`TokensError::Line`] for the first line that cannot be used.
    pub fn read(file: &Path) -> Result<Self, TokensError> {
        if std::fs::metadata(file)?.len() > MAX_FILE_BYTES {
            return Err(TokensError::TooLarge);
        }
        std::fs::read_to_string(file)?.parse()
    }

    /// The entry of this token; `None` if the file does not have this token. The time of the search does not depend
    /// on the hashes in the file.
    #[must_use]
    pub fn find(&self, token: &[u8]) -> Option<&Entry> {
        self.by_digest(&Sha256::digest(token).into())
    }

    /// The owner of the token with this digest. The time of the search does not depend on the digests in the file.
    fn by_digest(&self, digest: &crate::Digest) -> Option<&Entry> {
        let mut found = None;
        for entry in &self.0 {
            if bool::from(entry.digest.ct_eq(digest)) {
                found = Some(entry);
            }
        }
        found
    }
}

/// Operators are those with the roles read and operate.
impl Keys for Tokens {
    fn is_open(&self) -> bool {
        false
    }

    fn of(&self, digest: &crate::Digest) -> Option<Caller> {
        let entry = self.by_digest(digest)?;
        let role = match (entry.may(Role::Operate), entry.may(Role::Read)) {
            (true, _) => caller::Role::Operate,
            (false, true) => caller::Role::Read,
            (false, false) => caller::Role::Submit,
        };
        Some(Caller {
            name: Some(entry.name.clone()),
            role,
        })
    }
}

impl FromStr for Tokens {
    type Err = TokensError;
    fn from_str(text: &str) -> Result<Self, TokensError> {
        let mut tokens: Vec<Entry> = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let why = |why| TokensError::Line { line: at + 1, why };
            let entry = entry(line).map_err(why)?;
            let is_same = |e: &Entry| e.name == entry.name || e.digest == entry.digest;
            if tokens.iter().any(is_same) {
                return Err(why(TokenError::Twice));
            }
            tokens.push(entry);
            if tokens.len() > MAX_TOKENS {
                return Err(TokensError::TooMany);
            }
        }
        match tokens.is_empty() {
            true => Err(TokensError::Empty),
            false => Ok(Self(tokens)),
        }
    }
}

fn entry(line: &str) -> Result<Entry, TokenError> {
    let parts: Vec<&str> = line.split_whitespace().collect();
    let [name, hash, roles] = parts.as_slice() else {
        return Err(TokenError::Form);
    };
    check_name(name)?;
    Ok(Entry {
        name: (*name).to_owned(),
        digest: unhex(hash).ok_or(TokenError::Hash)?,
        roles: roles.split(',').map(str::parse).collect::<Result<_, _>>()?,
    })
}

fn check_name(name: &str) -> Result<(), TokenError> {
    let is_of_it = |b: u8| b.is_ascii_alphanumeric() || b"-_.@".contains(&b);
    let fits = (1..=MAX_NAME_BYTES).contains(&name.len()) && name.bytes().all(is_of_it);
    fits.then_some(()).ok_or(TokenError::Name)
}

fn unhex(text: &str) -> Option<crate::Digest> {
    let bytes = text.as_bytes();
    if bytes.len() != 64 {
        return None;
    }
    let digit = |b: u8| {
        char::from(b)
            .to_digit(16)
            .and_then(|d| u8::try_from(d).ok())
    };
    let mut digest = [0; 32];
    for (byte, pair) in digest.iter_mut().zip(bytes.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(digest)
}

/// A token that was just made. The secret is kept nowhere else: it cannot be shown again later. `Debug` does
/// not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct NewToken {
    /// The secret, to hand to the token's user.
    pub token: String,
    /// The line for the file of tokens; it holds no secret.
    pub line: String,
}

impl fmt::Debug for NewToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewToken")
            .field("line", &self.line)
            .finish_non_exhaustive()
    }
}

impl NewToken {
    /// Makes a token of 256 random bits for this name and these roles.
    ///
    /// # Errors
    /// [`TokenError::Name`] if the name has another form, [`TokenError::NoRole`] if no role is given, or
    /// [`TokenError::Random`] if the system gives no random numbers.
    ///
    /// # Example
    /// ```
    /// use triad_console::tokens::{NewToken, Role};
    /// let made = NewToken::make("shop", &[Role::Submit, Role::Read]).unwrap();
    /// assert!(made.token.starts_with("triad_"));
    /// assert!(made.line.starts_with("shop ") && made.line.ends_with(" submit,read"));
    /// assert!(!made.line.contains(&made.token));
    /// ```
    pub fn make(name: &str, roles: &[Role]) -> Result<Self, TokenError> {
        check_name(name)?;
        if roles.is_empty() {
            return Err(TokenError::NoRole);
        }
        let mut secret = [0; 32];
        let filled = SystemRandom::new().fill(&mut secret);
        filled.map_err(|_| TokenError::Random)?;
        let token = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(secret));
        let digest = Sha256::digest(token.as_bytes());
        let hash: String = digest.iter().map(|b| format!("{b:02x}")).collect();
        let roles: Vec<&str> = roles.iter().map(|role| role.as_str()).collect();
        let line = format!("{name} {hash} {}", roles.join(","));
        Ok(Self { token, line })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_made_token_is_found_with_its_roles_and_no_other_is() {
        let shop = NewToken::make("shop", &[Role::Submit]).unwrap();
        let desk = NewToken::make("desk", &[Role::Read, Role::Operate]).unwrap();
        let file = format!("# who\n\n{}\n  {} # with a word\n", shop.line, desk.line);
        let tokens: Tokens = file.parse().unwrap();
        let found = tokens.find(shop.token.as_bytes()).unwrap();
        assert_eq!(found.name, "shop");
        let may = Role::ALL.map(|role| found.may(role));
        assert_eq!(may, [true, false, false]);
        let found = tokens.find(desk.token.as_bytes()).unwrap();
        assert_eq!(Role::ALL.map(|role| found.may(role)), [false, true, true]);
        assert_eq!(tokens.find(b"triad_other"), None);
        assert_eq!(tokens.find(b""), None);
        let hash = shop.line.split(' ').nth(1).unwrap();
        assert_eq!(tokens.find(hash.as_bytes()), None, "the hash is no token");
    }

    #[test]
    fn operators_are_those_who_may_read_or_operate() {
        let roles = [
            &[Role::Submit][..],
            &[Role::Submit, Role::Read],
            &[Role::Operate],
        ];
        let made = ["shop", "eve", "ann"].into_iter().zip(roles);
        let made = made.map(|(name, roles)| NewToken::make(name, roles).unwrap());
        let made: Vec<NewToken> = made.collect();
        let lines: Vec<&str> = made.iter().map(|one| one.line.as_str()).collect();
        let tokens: Tokens = lines.join("\n").parse().unwrap();
        let role = |one: &NewToken| {
            let digest = Sha256::digest(one.token.as_bytes()).into();
            Keys::of(&tokens, &digest).map(|caller| (caller.name.unwrap(), caller.role))
        };
        let known: Vec<_> = made.iter().map(role).collect();
        let eve = ("eve".to_owned(), caller::Role::Read);
        let ann = ("ann".to_owned(), caller::Role::Operate);
        let shop = ("shop".to_owned(), caller::Role::Submit);
        assert_eq!(known, [Some(shop), Some(eve), Some(ann)]);
    }

    #[test]
    fn no_two_tokens_are_the_same_and_none_is_shown() {
        let make = || NewToken::make("a", &[Role::Read]).unwrap();
        let (first, second) = (make(), make());
        assert_ne!(first.token, second.token);
        assert_eq!(first.token.len(), PREFIX.len() + 43);
        assert!(!format!("{first:?}").contains(&first.token));
    }

    #[test]
    fn a_wrong_file_is_refused_with_its_line() {
        let hash = "0".repeat(64);
        for (file, said) in [
            (String::new(), "there is no token"),
            ("# nobody\n".to_owned(), "there is no token"),
            (format!("a {hash}"), "line 1: a line has three parts"),
            (format!("\na b {hash} read"), "line 2: a line has three"),
            (format!("a/b {hash} read"), "line 1: a name has"),
            ("a 00 read".to_owned(), "64 hex digits"),
            (format!("a {}é read", "0".repeat(62)), "64 hex digits"),
            (format!("a {hash} write"), "there is no role \"write\""),
            (format!("a {hash} read,"), "there is no role \"\""),
            (format!("a {hash} read\nb {hash} read"), "line 2: its name"),
        ] {
            let why = file.parse::<Tokens>().unwrap_err().to_string();
            assert!(why.contains(said), "{file:?}: {why}");
        }
    }
}
