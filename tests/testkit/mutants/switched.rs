//! The constant that is changed. tests/constants.sh puts this file into the scratch copy, in which every use of a
//! constant gets its value from here.

use std::sync::LazyLock;

use triad_workflow::Millis;

/// How a mutant changes a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    Less,
    More,
    Half,
    Double,
}

/// The constant that the environment variable names (as its digest), and the change; the variable is such as
/// `core/window/MOST less`.
static SWITCHED: LazyLock<Option<(u64, Change)>> = LazyLock::new(|| {
    let text = std::env::var("TRIAD_CONSTANT").ok()?;
    let (name, change) = text.split_once(' ').expect("a constant and its change");
    let change = match change {
        "less" => Change::Less,
        "more" => Change::More,
        "half" => Change::Half,
        "double" => Change::Double,
        other => panic!("{other} is no change"),
    };
    Some((digest(name), change))
});

/// A number that a mutant can change.
pub trait Number: Copy {
    /// The changed number.
    #[must_use]
    fn changed(self, change: fn(u64) -> u64) -> Self;
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Number for $number {
            fn changed(self, change: fn(u64) -> u64) -> Self {
                change(self as u64) as $number
            }
        }
    )*};
}
numbers!(u8, u16, u32, u64, usize);

impl Number for Millis {
    fn changed(self, change: fn(u64) -> u64) -> Self {
        Self(change(self.0))
    }
}

/// The value of a constant: `own`, or the changed one if the environment variable names the constant.
#[must_use]
pub fn now<T: Number>(constant: u64, own: T) -> T {
    match *SWITCHED {
        Some((switched, change)) if switched == constant => own.changed(match change {
            Change::Less => |n| n - 1,
            Change::More => |n| n + 1,
            Change::Half => |n| n / 2,
            Change::Double => |n| n * 2,
        }),
        _ => own,
    }
}

/// The FNV-1a digest of a name, so that the checks compare numbers.
#[must_use]
pub const fn digest(name: &str) -> u64 {
    let bytes = name.as_bytes();
    let mut digest = 0xcbf2_9ce4_8422_2325_u64;
    let mut at = 0;
    while at < bytes.len() {
        digest = (digest ^ bytes[at] as u64).wrapping_mul(0x0000_0100_0000_01b3);
        at += 1;
    }
    digest
}
