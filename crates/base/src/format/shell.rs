//! Words for a POSIX shell.

use std::path::Path;

/// A text as one word of a shell's command, in quotes where it needs them.
pub fn quoted(text: &str) -> String {
    let plain = |char: char| char.is_ascii_alphanumeric() || "_-./=:,@+%".contains(char);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// A path as one word of a shell's command.
pub fn quoted_path(path: &Path) -> String {
    quoted(&path.display().to_string())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_shell_reads_what_was_quoted() {
        let words = [
            "",
            "plain",
            "a b",
            "it's",
            "'",
            "''",
            "$HOME",
            "`id`",
            "~",
            "~/x",
            "*",
            "!",
            "a\nb",
            "\\",
            "-n",
            "a=b",
            "é",
            ";#&|<>(){}[]\"?",
        ];
        let typed = words.map(quoted).join(" ");
        let output = Command::new("sh").args(["-c", &format!("printf '%s\\0' {typed}")]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(text.split_terminator('\0').collect::<Vec<_>>(), words);
        assert_eq!(quoted_path(Path::new("/a b/it's; rm")), r"'/a b/it'\''s; rm'");
        assert_eq!(quoted("/plain/path-1.0"), "/plain/path-1.0");
    }
}
