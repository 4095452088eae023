//! Error texts of a text that is not an expression.

use cel::ParseErrors;

/// Why a source is not an expression, and what its author may have meant. The library's own messages list the symbols
/// of its grammar, so only the position is taken from them.
pub(super) fn error_text(source: &str, errors: &ParseErrors) -> String {
    if source.trim().is_empty() {
        return "it is empty".to_owned();
    }
    let at = errors.errors.first().map_or((1, 1), |e| e.pos);
    let line = usize::try_from(at.0 - 1).unwrap_or(0);
    let column = usize::try_from(at.1 - 1).unwrap_or(0);
    let rest: String = source
        .lines()
        .skip(line)
        .flat_map(|l| l.chars().chain([' ']))
        .skip(column)
        .collect();
    let rest = rest.trim();
    let what = if rest.is_empty() {
        "it ends too early".to_owned()
    } else {
        let shown: String = rest.chars().take(40).collect();
        format!("it cannot be read from `{shown}` on")
    };
    match suggestion(source, rest) {
        Some(hint) => format!("{what}; {hint}"),
        None => what,
    }
}

/// The step that is read as `steps.NAME` with a `-` in its name, if the unknown variable is a piece of that name.
pub(super) fn step_with_hyphen<'s>(source: &'s str, unknown: &str) -> Option<&'s str> {
    let names = source.match_indices("steps.").map(|(at, steps)| {
        let name = &source[at + steps.len()..];
        let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        &name[..name.find(|c| !is_of_name(c)).unwrap_or(name.len())]
    });
    let mut names = names.filter(|name| name.contains('-'));
    names.find(|name| name.split('-').any(|piece| piece == unknown))
}

const MACROS: [&str; 6] = ["map(", "filter(", "all(", "exists(", "exists_one(", "has("];

fn suggestion(source: &str, rest: &str) -> Option<&'static str> {
    if source.contains("${") {
        return Some("a `when` is an expression as a whole: write it without `${` and `}`");
    }
    if source.starts_with('{') || source.contains("{{") {
        return Some("write one brace: `${ … }`, and no braces at all in a `when`");
    }
    let bare = without_texts(source);
    let has_word = |word: &str| {
        bare.split(|c: char| !c.is_alphanumeric())
            .any(|w| w == word)
    };
    if bare.matches(['"', '\'']).count() % 2 == 1 {
        return Some("a quote is opened and not closed");
    }
    if bare.contains("===") || bare.contains("!==") {
        return Some("write `==` or `!=` to compare");
    }
    let pairs: Vec<char> = bare.chars().collect();
    let is_single = |at: usize| {
        pairs[at] == '='
            && !(at > 0 && "=!<>".contains(pairs[at - 1]))
            && pairs.get(at + 1) != Some(&'=')
    };
    if (0..pairs.len()).any(is_single) {
        return Some("write `==` to compare");
    }
    if bare.contains("<>") {
        return Some("write `!=` for not equal");
    }
    if has_word("and") || has_word("or") || has_word("not") {
        return Some("write `&&` for and, `||` for or, `!` for not");
    }
    if bare.contains("??") {
        return Some("write `coalesce(a, b)`");
    }
    if bare.contains('|') && !bare.contains("||") {
        return Some("there are no filters as in templates: call a function, such as size(x)");
    }
    if MACROS.iter().any(|m| rest.contains(m) || bare.contains(m)) {
        return Some(
            "write has(details.note), or items.map(i, i.price): a name of your own first, then what is computed with it",
        );
    }
    let is_unclosed =
        |open: char, close: char| bare.matches(open).count() > bare.matches(close).count();
    if is_unclosed('(', ')') || is_unclosed('[', ']') || is_unclosed('{', '}') {
        return Some("a bracket is opened and not closed");
    }
    None
}

/// The source without its quoted texts.
fn without_texts(source: &str) -> String {
    let mut bare = String::new();
    let mut rest = source;
    while let Some(start) = rest.find(['"', '\'']) {
        let quote = &rest[start..=start];
        let Some(end) = rest[start + 1..].find(quote) else {
            break;
        };
        bare.push_str(&rest[..start]);
        rest = &rest[start + end + 2..];
    }
    bare.push_str(rest);
    bare
}
