//! Orders for tests. They are computed from a number, so that every run has the same ones.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde_json::{Value, json};

/// The workflow that `triad dev` has built in.
pub const FULFILMENT: &str = include_str!("../../examples/workflows/order-fulfilment.yaml");

/// An order of the built-in workflow.
pub fn order(id: &str, number: usize) -> Value {
    let lines: Vec<Value> = (0..=number % 3)
        .map(|line| json!({"productID": number + line, "unitPrice": 9.8, "quantity": line + 1}))
        .collect();
    json!({
        "order_id": id,
        "workflow": "order-fulfilment",
        "details": {
            "customerID": format!("C{number:04}"),
            "freight": number as f64 / 4.0,
            "shipVia": number % 3 + 1,
            "shipName": format!("Kundin Nº {number}"),
            "shipAddress": {"street": "1 Harbour Road", "city": "Lisboa", "country": "Portugal"},
            "details": lines,
        }
    })
}

/// `count` orders with ids that begin with `prefix`.
pub fn orders(prefix: &str, count: usize) -> Vec<Value> {
    let one = |number| order(&format!("{prefix}-{number}"), number);
    (0..count).map(one).collect()
}

/// Orders as JSON lines.
pub fn lines(orders: &[Value]) -> String {
    let mut text = String::new();
    for order in orders {
        writeln!(text, "{order}").expect("a text takes everything");
    }
    text
}

/// A temporary directory for a test's files.
pub struct Files(tempfile::TempDir);

impl Files {
    /// An empty directory.
    ///
    /// # Panics
    /// If it cannot be created.
    #[expect(clippy::new_without_default, reason = "it makes a directory")]
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory can be made"))
    }

    /// The path of the file with this name.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The same path as text, for a command's arguments.
    pub fn arg(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// Writes a file and returns its path.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn write(&self, name: &str, text: &str) -> String {
        std::fs::write(self.path(name), text).expect("a file can be written");
        self.arg(name)
    }
}
