//! Writes the YAML of a description.

use super::schema::Typed;

/// Longest line that is written, in characters, unless one word is longer.
const WIDTH: usize = 118;
/// Words that YAML, or an older reader of YAML, does not read as a text.
const NO_TEXTS: [&str; 9] = ["null", "true", "false", "yes", "no", "on", "off", "y", "n"];

/// A comment of one or more lines. Control characters and line ends become blanks.
pub(super) fn comment(indent: &str, text: &str) -> String {
    let mut lines = String::new();
    let mut line = format!("{indent}#");
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()) {
        if word.is_empty() {
            continue;
        }
        if line.chars().count() + 1 + word.chars().count() > WIDTH && line.len() > indent.len() + 1
        {
            lines.push_str(&line);
            lines.push('\n');
            line = format!("{indent}#");
        }
        line.push(' ');
        line.push_str(word);
    }
    lines + &line + "\n"
}

/// A text, in quotes if it needs them.
pub(super) fn text(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    let begins = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_' || c == '/');
    match begins && text.chars().all(is_plain) && !NO_TEXTS.contains(&&*text.to_lowercase()) {
        true => text.to_owned(),
        false => quoted(text),
    }
}

/// A text in double quotes. JSON's escapes are YAML's too.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The name of a field, with the `?` of a field that may be missing.
fn name(written: &str) -> String {
    match written.strip_suffix('?') {
        Some(name) if text(name) == name => written.to_owned(),
        _ => text(written),
    }
}

/// A list of texts in brackets, over several lines if it is long.
pub(super) fn list(indent: &str, key: &str, items: &[String]) -> String {
    let mut lines = format!("{indent}{key}: [");
    let mut width = lines.chars().count();
    for (index, item) in items.iter().enumerate() {
        let item = text(item);
        let more = item.chars().count() + 2;
        if width + more > WIDTH {
            lines = lines.trim_end().to_owned() + &format!("\n{indent}  ");
            width = indent.len() + 2;
        }
        lines.push_str(&item);
        lines.push_str(if index + 1 < items.len() { ", " } else { "" });
        width += more;
    }
    lines + "]\n"
}

/// A type: in one line with braces if it fits, else in block style.
pub(super) fn typed(indent: &str, key: &str, of: &Typed) -> String {
    let one = format!("{indent}{key}: {}", flow(of));
    if one.chars().count() <= WIDTH {
        return one + "\n";
    }
    let deeper = format!("{indent}  ");
    match of {
        Typed::Map(fields) => {
            let fields = fields
                .iter()
                .map(|(field, of)| typed(&deeper, &name(field), of));
            format!("{indent}{key}:\n{}", fields.collect::<String>())
        }
        Typed::List(of) => match &**of {
            Typed::Map(fields) => {
                let mut text = String::new();
                for (index, (field, of)) in fields.iter().enumerate() {
                    let field = typed(&format!("{deeper}  "), &name(field), of);
                    match index {
                        0 => text.push_str(&format!("{deeper}- {}", field.trim_start())),
                        _ => text.push_str(&field),
                    }
                }
                format!("{indent}{key}:\n{text}")
            }
            _ => one + "\n",
        },
        Typed::Word(_) => one + "\n",
    }
}

fn flow(of: &Typed) -> String {
    match of {
        Typed::Word(word) => (*word).to_owned(),
        Typed::List(of) => format!("[{}]", flow(of)),
        Typed::Map(fields) if fields.is_empty() => "{}".to_owned(),
        Typed::Map(fields) => {
            let fields = fields
                .iter()
                .map(|(field, of)| format!("{}: {}", name(field), flow(of)));
            format!("{{ {} }}", fields.collect::<Vec<_>>().join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_as_it_was() {
        for written in [
            "id", "no", "a b", "*", "x-y", "1st", "é", "a: b", "#", "/v1/x", "",
        ] {
            let read: serde_json::Value =
                serde_saphyr::from_str(&format!("{{ k: {} }}", text(written))).expect(written);
            assert_eq!(read["k"], written);
        }
        let long: Vec<(String, Typed)> = (0..40)
            .map(|n| (format!("name-{n}?"), Typed::Word("string")))
            .collect();
        let of = Typed::Map(vec![
            (
                "lines".to_owned(),
                Typed::List(Box::new(Typed::Map(long.clone()))),
            ),
            ("true?".to_owned(), Typed::Map(long)),
        ]);
        let read: serde_json::Value =
            serde_saphyr::from_str(&typed("", "body", &of)).expect("it is YAML");
        assert_eq!(read["body"]["lines"][0]["name-39?"], "string");
        assert_eq!(read["body"]["true?"]["name-0?"], "string");
    }

    #[test]
    fn a_comment_has_no_line_that_is_none() {
        let text = comment("  ", &format!("a\nkey: b {}", "word ".repeat(60)));
        assert!(text.lines().all(|line| line.starts_with("  # ")), "{text}");
        assert!(text.lines().count() > 2 && text.ends_with('\n'));
    }
}
