//! The text of a page to follow: its blocks, and the comparison of outputs.

/// A part of a page.
#[derive(Debug, PartialEq)]
pub enum Block {
    /// Text, with its line ends.
    Prose(String),
    /// A fenced block.
    Fenced {
        /// Its first line, with the fence.
        head: String,
        /// The kind of block.
        kind: Kind,
        /// The lines inside.
        lines: Vec<String>,
    },
}

/// The kinds of fenced blocks.
#[derive(Debug, PartialEq)]
pub enum Kind {
    /// Commands in the shell.
    Console,
    /// Output of the long-running program.
    First,
    /// A change to files.
    Diff,
    /// A part of the file with this name.
    File(String),
    /// Shown to readers, but not run.
    Unrun,
}

/// Splits a page into its parts.
///
/// # Panics
/// At a block of an unknown kind, or without an end.
#[must_use]
pub fn blocks(page: &str) -> Vec<Block> {
    let mut parts = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some(info) = line.strip_prefix("```") else {
            let text = format!("{line}\n");
            match parts.last_mut() {
                Some(Block::Prose(prose)) => prose.push_str(&text),
                _ => parts.push(Block::Prose(text)),
            }
            continue;
        };
        let words: Vec<&str> = info.split_whitespace().collect();
        let kind = match words[..] {
            [.., "unrun"] => Kind::Unrun,
            ["console"] => Kind::Console,
            ["console", "first"] => Kind::First,
            ["diff"] => Kind::Diff,
            [_, file] => Kind::File(file.to_owned()),
            _ => panic!("{line:?}: what is to be done with this block?"),
        };
        let mut inside = Vec::new();
        loop {
            match lines.next() {
                Some("```") => break,
                Some(line) => inside.push(line.to_owned()),
                None => panic!("{line:?} does not end"),
            }
        }
        parts.push(Block::Fenced {
            head: line.to_owned(),
            kind,
            lines: inside,
        });
    }
    parts
}

/// Whether output is as expected, apart from what may differ between runs.
#[must_use]
pub fn matches(expected: &[String], printed: &[String]) -> bool {
    fits(&normal(expected), &normal(printed))
}

/// Both outputs, line by line in the form in which they are compared.
#[must_use]
pub fn differences(expected: &[String], printed: &[String]) -> String {
    let shown = |lines: &[String], mark: &str| {
        let lines = normal(lines).into_iter();
        lines
            .map(|line| format!("{mark} {line}\n"))
            .collect::<String>()
    };
    format!("{}{}", shown(expected, "-"), shown(printed, "+"))
}

/// Whether lines match a pattern in which `…` stands for any lines.
fn fits(pattern: &[String], lines: &[String]) -> bool {
    match pattern {
        [] => lines.is_empty(),
        [dots, rest @ ..] if dots == "…" => {
            (0..=lines.len()).any(|skipped| fits(rest, &lines[skipped..]))
        }
        [first, rest @ ..] => {
            lines.first().is_some_and(|line| line == first) && fits(rest, &lines[1..])
        }
    }
}

/// The lines in the form in which they are compared: neighbouring lines about orders and services are sorted, because
/// their order may vary, and repeated lines count once.
fn normal(lines: &[String]) -> Vec<String> {
    let (mut all, mut aside) = (Vec::new(), Vec::new());
    for line in lines {
        let line = line.split_whitespace().map(word).collect::<Vec<_>>();
        let line = spans(&line);
        if line.is_empty() {
            continue;
        }
        let is_of_order = line.starts_with("order ") || is_numbered(&line);
        if is_of_order || line.starts_with("service ") || line.contains(" | ") {
            aside.push(line);
            continue;
        }
        aside.sort();
        aside.dedup();
        all.append(&mut aside);
        all.push(line);
    }
    aside.sort();
    aside.dedup();
    all.append(&mut aside);
    all
}

/// Whether a line begins with an order's id such as `trip-1`. Such lines may come in any order.
fn is_numbered(line: &str) -> bool {
    let id = line.split(' ').next().and_then(|id| id.rsplit_once('-'));
    id.is_some_and(|(name, number)| {
        !name.is_empty() && !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
    })
}

/// A word in the compared form: a time, address, hash or duration becomes the name of its kind.
fn word(word: &str) -> String {
    let digits =
        |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let is_moment = word.len() >= 20
        && word.as_bytes()[4] == b'-'
        && word.as_bytes()[10] == b'T'
        && word.ends_with('Z');
    if is_moment {
        return "TIME".to_owned();
    }
    for unit in ["ms", "s", "m"] {
        if word.strip_suffix(unit).is_some_and(digits) {
            return "SPAN".to_owned();
        }
    }
    let mut text = word.to_owned();
    if let Some(at) = text.find("127.0.0.1:") {
        let from = at + "127.0.0.1:".len();
        let end = text[from..].find(|c: char| !c.is_ascii_digit());
        text.replace_range(from..end.map_or(text.len(), |end| from + end), "PORT");
    }
    // The temporary directory differs in each run.
    if let Some(at) = text.find("/triad-dev-") {
        let end = text[at + 1..]
            .find('/')
            .map_or(text.len(), |end| at + 1 + end);
        text.replace_range(..end, "SCRATCH");
    }
    // The hash of a definition: 16 hexadecimal digits, alone or after a name and `@`.
    let from = text.rfind('@').map_or(0, |at| at + 1);
    let hex = text[from..].trim_end_matches([',', ':']);
    if hex.len() == 16 && hex.bytes().all(|b| b.is_ascii_hexdigit()) {
        text.replace_range(from..from + 16, "HASH");
    }
    text
}

/// Joins a duration of two units into one word, and a number with its unit.
fn spans(words: &[String]) -> String {
    let mut line: Vec<&str> = Vec::new();
    for word in words {
        let is_unit = ["ms", "s", "orders/s"].contains(&word.as_str());
        let is_number = line
            .last()
            .is_some_and(|last| last.bytes().all(|b| b.is_ascii_digit() || b == b'.'));
        if is_unit && is_number {
            line.pop();
            line.push("SPAN");
        } else if !(word == "SPAN" && line.last() == Some(&"SPAN")) {
            line.push(word);
        }
    }
    line.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(one: &str, other: &str) -> bool {
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        matches(&lines(one), &lines(other))
    }

    #[test]
    fn only_what_differs_from_run_to_run_is_passed_over() {
        for (one, other) in [
            (
                "Finished  2026-11-23T03:00:53.741Z   after 164ms",
                "Finished 2027-01-02T03:04:05.006Z after 1s 6ms",
            ),
            ("Kafka 127.0.0.1:4711", "Kafka     127.0.0.1:80"),
            (
                "Store /tmp/triad-dev-a1/store/s",
                "Store /var/tmp/triad-dev-b/store/s",
            ),
            ("http://127.0.0.1:4711/bank", "http://127.0.0.1:99/bank"),
            (
                "published w@f9ecf98338dc1b4c, before d112b5c7e6fa7f66",
                "published w@0000000000000000, before 1111111111111111",
            ),
            (
                "order a  completed\norder b  completed",
                "order b  completed\norder a  completed",
            ),
            ("x | a\nx | a", "x | a"),
            (
                "trip-1 Processed\ntrip-2 Error",
                "trip-2 Error\ntrip-1 Processed",
            ),
            ("a\n…\nz", "a\nb\nc\nz"),
            ("a\n…\nz", "a\nz"),
            (
                "Time 0.20 s\nThroughput 15 orders/s",
                "Time 1.5 s\nThroughput 7 orders/s",
            ),
        ] {
            assert!(same(one, other), "{one} and {other}");
        }
        for (one, other) in [
            ("order a  completed", "order a  compensated"),
            ("http://127.0.0.1:1/bank", "http://127.0.0.1:1/hotel"),
            ("a\nb", "b\na"),
            ("a\n…\nz", "a\nz\nb"),
            ("a", "a\nb"),
            ("Orders 3", "Orders 4"),
        ] {
            assert!(!same(one, other), "{one} and {other}");
        }
    }

    #[test]
    fn blocks_are_told_apart_by_their_first_line() {
        let page =
            "a\n\n```console\n$ b\nc\n```\nd\n```yaml triad.yaml\ne\n```\n```sh unrun\nf\n```\n";
        let kinds: Vec<Kind> = blocks(page)
            .into_iter()
            .filter_map(|block| match block {
                Block::Prose(_) => None,
                Block::Fenced { kind, .. } => Some(kind),
            })
            .collect();
        assert_eq!(
            kinds,
            [
                Kind::Console,
                Kind::File("triad.yaml".to_owned()),
                Kind::Unrun
            ]
        );
    }
}
