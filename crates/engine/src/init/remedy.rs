//! Ways to vary a parameter that `sweep` does not find, as the program's text suggests.

use std::{path::Path, sync::LazyLock};

use regex::Regex;

use super::{Language, Script, languages::regex};

/// Maximum size of a script that is searched, in bytes.
const MAX_SIZE: u64 = 1 << 20;
/// Reads of arguments by their places, in Python, R, Julia, JavaScript, Perl, Ruby and shells.
static PLACES: LazyLock<Regex> = LazyLock::new(|| {
    regex(r"\bsys\.argv\s*\[|\bcommandArgs\s*\(|\bARGS\s*\[|\bprocess\.argv\b|\bARGV\b|\bargv\s*\[|\$\{?[1-9]\b")
});
/// The split of an argument `key=value`.
static PAIRS: LazyLock<Regex> = LazyLock::new(|| regex(r#"\b(?:str)?split\s*\([^)\n]*['"]=['"]"#));

/// The command with a place for the values of `name`, as in `python3 train.py --lr {lr}`.
pub(super) fn with_place(name: &str, argv: &[String], folder: &Path) -> String {
    let command = argv.join(" ");
    let program = argv.first().map(|program| program.rsplit('/').next().unwrap_or(program)).unwrap_or_default();
    let text = argv.iter().skip(1).find_map(|argument| text_of(&folder.join(argument))).unwrap_or_default();
    match program {
        "make" | "gmake" => format!("{command} {name}={{{name}}}"),
        "sh" | "bash" | "zsh" | "dash" | "ksh"
            if argv.iter().any(|word| word.starts_with('-') && word.ends_with('c')) =>
        {
            format!("{program} -c '… {{{name}}} …'")
        }
        _ if reads_variable(&text, name) => format!("env {name}={{{name}}} {command}"),
        _ if PAIRS.is_match(&text) => format!("{command} {name}={{{name}}}"),
        _ => match flag_of(&text, name) {
            Some(flag) => format!("{command} {flag} {{{name}}}"),
            None if PLACES.is_match(&text) => format!("{command} {{{name}}}"),
            None => format!("{command} --{name} {{{name}}}"),
        },
    }
}

/// The way to make a parameter of a constant in a script; `None` if the script has no such constant.
pub(super) fn of_constant(script: &Script, name: &str) -> Option<String> {
    let text = text_of(&script.folder.join(&script.path))?;
    let escaped = regex::escape(name);
    let of = |pattern: String| Regex::new(&pattern).ok()?.captures(&text).map(|found| found[1].trim().to_owned());
    match script.language {
        Language::Python => {
            let literal = r#"(?m)^[ \t]*NAME[ \t]*(?::[^=\n]*)?=[ \t]*([-+]?[\d.][\w.+-]*|'[^'\n]*'|"[^"\n]*"|True|False)[ \t]*(?:#.*|;.*)?$"#;
            let value = of(literal.replace("NAME", &escaped))?;
            let read = |default: &str| format!("os.environ.get(\"{name}\", {default})");
            let new = match &value {
                text if text.starts_with(['"', '\'']) => read(text),
                text if text.parse::<i64>().is_ok() => format!("int({})", read(text)),
                text if text.parse::<f64>().is_ok() => format!("float({})", read(text)),
                text => format!("{} == \"True\"", read(&format!("\"{text}\""))),
            };
            Some(format!("it is a constant there: write `{name} = {new}`, and an axis sets it"))
        }
        Language::Shell => {
            let literal =
                r#"(?m)(?:^|;)[ \t]*(?:export[ \t]+)?NAME=(\w[\w.+-]*|"[^"$`\n]*"|'[^'\n]*')[ \t]*(?:#.*|;.*)?$"#;
            let value = of(literal.replace("NAME", &escaped))?;
            Some(format!("it is a constant there: write `{name}=${{{name}:-{value}}}`, and an axis sets it"))
        }
        Language::Notebook => Some(format!(
            "its parameters are the variables of the cell with the tag `parameters`: give this tag to the cell that sets `{name}`"
        )),
        Language::R | Language::Julia | Language::Program => None,
    }
}

/// The flag of an option that a script declares under another name: `--rate` and `lr` in `option("--rate", "lr")`.
pub(super) fn flag_of(text: &str, name: &str) -> Option<String> {
    let declaration = format!(r#"["'](--?[A-Za-z][\w-]*)["'][^)\n]*["']{}["']"#, regex::escape(name));
    let own = format!(r#"["'](--?{})["']"#, regex::escape(name).replace('_', "[_-]").replace("\\-", "[_-]"));
    let find = |pattern: &str| Some(Regex::new(pattern).ok()?.captures(text)?[1].to_owned());
    find(&own).or_else(|| find(&declaration))
}

/// The text of a script; `None` if it cannot be read, or is large.
pub(super) fn text_of(path: &Path) -> Option<String> {
    let is_small = fs_err::metadata(path).is_ok_and(|file| file.is_file() && file.len() <= MAX_SIZE);
    is_small.then(|| fs_err::read_to_string(path).ok()).flatten()
}

/// True if a script reads a variable of the environment.
fn reads_variable(text: &str, name: &str) -> bool {
    let name = regex::escape(name);
    let reads = format!(
        r#"(?:environ|getenv|ENV|env)\w*(?:\.get)?\s*[\[({{.]\s*['"]?{name}\b|\bget\(\s*ENV\s*,\s*"{name}"|\$\{{{name}:?[-=]"#
    );
    Regex::new(&reads).is_ok_and(|reads| reads.is_match(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_a_value_follows_from_the_program() {
        let folder = tempfile::tempdir().unwrap();
        for (script, name, expected) in [
            ("lr = float(sys.argv[1])", "lr", "python3 t {lr}"),
            ("lr <- as.numeric(commandArgs(TRUE)[1])", "lr", "python3 t {lr}"),
            ("kv <- strsplit(a, \"=\")[[1]]; commandArgs(TRUE)", "lr", "python3 t lr={lr}"),
            ("os.environ.get('LR', '0.1')", "LR", "env LR={LR} python3 t"),
            ("os.environ[\"LR\"]", "LR", "env LR={LR} python3 t"),
            ("Sys.getenv(\"lr\", \"0.1\")", "lr", "env lr={lr} python3 t"),
            ("process.env.LR", "LR", "env LR={LR} python3 t"),
            ("LR=${LR:-0.1}\n", "LR", "env LR={LR} python3 t"),
            ("@click.option('--lr', '-l', 'rate', default=0.1)", "rate", "python3 t --lr {rate}"),
            ("add_argument('--batch-size')", "batch_size", "python3 t --batch-size {batch_size}"),
            ("", "lr", "python3 t --lr {lr}"),
        ] {
            fs_err::write(folder.path().join("t"), script).unwrap();
            let argv = ["python3", "t"].map(str::to_owned);
            assert_eq!(with_place(name, &argv, folder.path()), expected, "{script}");
        }
        let place = |words: &[&str]| {
            with_place("LR", &words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>(), folder.path())
        };
        assert_eq!(place(&["make", "train"]), "make train LR={LR}");
        assert_eq!(place(&["bash", "-ec", "python3 t"]), "bash -c '… {LR} …'");
    }

    #[test]
    fn constants_become_parameters() {
        let folder = tempfile::tempdir().unwrap();
        let remedy = |language, text: &str| {
            let path = Path::new("t").to_owned();
            fs_err::write(folder.path().join(&path), text).unwrap();
            let (start, python, arguments) = (super::super::Start::File, None, Vec::new());
            let script = Script { path, folder: folder.path().to_owned(), language, start, python, arguments };
            of_constant(&script, "n")
        };
        for (text, new) in [
            ("n = 2\n", Some("n = int(os.environ.get(\"n\", 2))")),
            ("if __name__ == '__main__':\n    n = 1e-3 # rate\n", Some("n = float(os.environ.get(\"n\", 1e-3))")),
            ("n: str = 'a'\n", Some("n = os.environ.get(\"n\", 'a')")),
            ("n = True\n", Some("n = os.environ.get(\"n\", \"True\") == \"True\"")),
            ("n = float(sys.argv[1])\n", None),
            ("n == 2\n", None),
        ] {
            let found = remedy(Language::Python, text);
            assert_eq!(found.is_some(), new.is_some(), "{text}: {found:?}");
            assert!(found.is_none_or(|found| found.contains(new.unwrap())), "{text}");
        }
        let found = remedy(Language::Shell, "n=0.1\necho $n\n").unwrap();
        assert!(found.contains("n=${n:-0.1}"), "{found}");
        assert_eq!(remedy(Language::Shell, "n=$1\n"), None);
    }
}
