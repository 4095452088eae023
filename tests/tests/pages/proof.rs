//! The table of the long run in docs/explanation/proof.md must match the stored outputs of its parts in `docs/proof`.

use std::fmt::Write;
use std::fs;

use super::tree::{page, root};

const PAGE: &str = "docs/explanation/proof.md";
const BEGIN: &str = "<!-- table: the parts of the long run -->\n";
const END: &str = "<!-- end of the table -->";

/// Name and title of each part, from `tests/proof.sh`.
fn parts() -> Vec<(String, String)> {
    let script = page("tests/proof.sh");
    let parts = script.lines().filter_map(|line| {
        let (name, rest) = line.strip_prefix("part ")?.split_once(' ')?;
        Some((name.to_owned(), rest.split('"').nth(1)?.to_owned()))
    });
    parts.collect()
}

/// The page with a newly generated table.
fn with_table(page: &str) -> String {
    let mut table = String::from("| part | what it does | commit | on |\n|---|---|---|---|\n");
    for (name, title) in parts() {
        // The output of some parts is not stored in the repository.
        let said = fs::read_to_string(root().join(format!("docs/proof/{name}.txt")));
        let begun = said.ok().and_then(|said| {
            let (commit, on) = said
                .lines()
                .next()?
                .strip_prefix("commit ")?
                .split_once(", ")?;
            Some((commit.to_owned(), on.to_owned()))
        });
        let (commit, on) = begun.unwrap_or_else(|| ("not kept".to_owned(), String::new()));
        let title = title.replace('|', "\\|");
        writeln!(table, "| `{name}` | {title} | {commit} | {on} |").expect("a text");
    }
    let (before, rest) = page.split_once(BEGIN).expect("the table begins");
    let (_, after) = rest.split_once(END).expect("the table ends");
    format!("{before}{BEGIN}{table}{END}{after}")
}

#[test]
fn the_table_of_the_long_run_is_what_its_parts_have_said() {
    assert!(parts().len() > 10, "{:?}", parts());
    let kept = page(PAGE);
    assert!(
        kept == with_table(&kept),
        "{PAGE} is not made of docs/proof: run the test `write_the_table` with `--run-ignored all`"
    );
}

#[test]
#[ignore = "writes the golden file anew"]
fn write_the_table() {
    let kept = page(PAGE);
    fs::write(root().join(PAGE), with_table(&kept)).expect("it can be written");
}
