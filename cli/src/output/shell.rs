//! Words for a shell.

/// A word of a POSIX shell.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_means_itself_to_a_shell() {
        let text = "it's \"$HOME\" `x` \\ *";
        let shell = std::process::Command::new("sh")
            .args(["-c", &format!("printf %s {}", quoted(text))])
            .output()
            .expect("a shell");
        assert_eq!(String::from_utf8_lossy(&shell.stdout), text);
    }
}
