//! The line of a program's output that names the cause of its failure.

/// Maximum length of a line that is kept, in characters.
const MAX_LENGTH: usize = 300;

/// Beginnings of lines that name an error outside of a traceback of Python.
const ERRORS: [&str; 6] =
    ["Caused by: ", "Exception in thread ", "FATAL ", "panic: ", "thread '", "terminate called after throwing"];
/// Beginnings of lines that end an output and name no cause: advice, and the ends of programs that started the failed one.
const ADVICE: [&str; 9] = [
    "Set the environment variable HYDRA_FULL_ERROR",
    "To append to your default list use",
    "To append to your config use",
    "BEGIN failed--compilation aborted",
    "full_key:",
    "object_type=",
    "Execution halted",
    "Calls: ",
    "make: ***",
];
/// Beginnings of messages about arguments, which a text about the usage follows: `make: unrecognized option '--lr'`.
const OPTION_ERRORS: [&str; 4] = ["illegal option", "invalid option", "unknown option", "unrecognized option"];
/// Exceptions that report only the failure of another program, which has already printed its cause.
const FOLLOWING: [&str; 3] = ["CalledProcessError", "ChildFailedError", "ProcessExitedException"];

/// The cause of a failure, from the lines of an output.
#[derive(Debug, Default)]
pub(super) struct Cause {
    /// The last line that is not advice.
    last: String,
    /// The last line that names an error.
    named: Option<String>,
    /// True if that line ends with a colon, so that the next one belongs to it.
    is_open: bool,
    /// True in a frame with the title "Error", as Rich draws it: its lines are one.
    is_boxed: bool,
    traceback: Traceback,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Traceback {
    #[default]
    None,
    /// The frames of a traceback; the exception follows them.
    Frames,
    /// The frames of an exception that Python ignores.
    Ignored,
    /// The exception was read.
    Read,
}

impl Cause {
    /// Takes a line without codes for terminals.
    pub(super) fn hear(&mut self, line: &str) {
        let kept = |text: &str| text.chars().take(MAX_LENGTH).collect::<String>();
        let text = line.trim();
        if text.starts_with(['╭', '┌']) && text.contains("Error") {
            (self.is_boxed, self.named) = (true, Some(String::new()));
            return;
        }
        let text = if text.contains("Traceback (") { text } else { text.trim_matches(is_frame_char).trim() };
        if text.is_empty() {
            // A rule, or the end of a frame.
            self.is_boxed &= line.trim().starts_with(['│', '┃', '|']);
            return;
        }
        if self.is_boxed
            && let Some(named) = &mut self.named
        {
            *named = kept(format!("{named} {text}").trim_start());
            return;
        }
        let inner = text.strip_prefix("| ").unwrap_or(text);
        let is_part = |named: &String| {
            let is_group = named.ends_with("sub-exceptions)") || named.ends_with("sub-exception)");
            inner.starts_with("what():") && named.starts_with("terminate called") || is_group && is_error(inner)
        };
        if let Some(named) = self.named.as_mut().filter(|named| is_part(named)) {
            *named = kept(&format!("{named}: {inner}"));
            return;
        }
        if std::mem::take(&mut self.is_open)
            && let Some(named) = &mut self.named
        {
            *named = kept(&format!("{named} {text}"));
            return;
        }
        if text.starts_with("Exception ignored in") {
            self.traceback = Traceback::Ignored;
        } else if text.contains("Traceback (most recent call last)") {
            if self.traceback != Traceback::Ignored {
                self.traceback = Traceback::Frames;
            }
        } else if matches!(self.traceback, Traceback::Frames | Traceback::Ignored) {
            if is_frame(line) {
                return;
            }
            let is_ignored = self.traceback == Traceback::Ignored;
            self.traceback = Traceback::Read;
            let follows = FOLLOWING.iter().any(|name| text.contains(name)) && self.named.is_some();
            if !is_ignored && !follows {
                self.name(kept(text.trim_start_matches("| ")));
            }
        } else if is_advice(text) {
            // No cause.
        } else if self.traceback == Traceback::None && (is_error(text) || is_logged_error(text)) {
            self.name(kept(text));
        } else if text.starts_with("Error: ") {
            // The program has dealt with the exception of the traceback, and ends for another reason.
            self.name(kept(text));
        }
        if !is_advice(text) {
            self.last = kept(text);
        }
    }

    fn name(&mut self, line: String) {
        self.is_open = line.ends_with(':');
        self.named = Some(line);
    }

    /// The line that names an error.
    pub(super) fn named(self) -> Option<String> {
        self.named
    }

    /// The line that names an error, else the last line.
    pub(super) fn line(self) -> String {
        self.named.unwrap_or(self.last)
    }
}

/// True for a line of a traceback above its exception: indented, or in the frame that Rich draws.
fn is_frame(line: &str) -> bool {
    let inner = line.trim_start().strip_prefix("| ").or_else(|| line.trim_start().strip_prefix("+ "));
    inner.unwrap_or(line).starts_with([' ', '\t', '│', '╭', '╰', '❱', '┃'])
}

/// True for the lines and corners of frames that programs draw on terminals.
fn is_frame_char(char: char) -> bool {
    matches!(char, '\u{2500}'..='\u{257f}')
}

fn is_advice(text: &str) -> bool {
    let is_exit = text.starts_with("srun: error: ") && text.contains("Exited with exit code");
    is_exit || ADVICE.iter().any(|advice| text.starts_with(advice))
}

/// True for a line of a log whose level is an error.
fn is_logged_error(text: &str) -> bool {
    text.split(|char: char| !char.is_ascii_alphanumeric() && char != '_')
        .any(|word| matches!(word, "ERROR" | "CRITICAL"))
}

/// True for `ERROR: …`, `a.c:1:14: error: …`, `ValueError: …` and [`ERRORS`].
fn is_error(text: &str) -> bool {
    let is_error_word = |text: &str| {
        let text = text.strip_prefix("fatal ").or_else(|| text.strip_prefix("internal compiler ")).unwrap_or(text);
        let (word, rest) = text.split_at(text.find(|char: char| !char.is_ascii_alphabetic()).unwrap_or(text.len()));
        word.eq_ignore_ascii_case("error") && rest.starts_with([':', '['])
    };
    let after_place =
        text.split_once(": ").filter(|(place, _)| !place.contains(' ')).map(|(_, rest)| rest.trim_start());
    let class = text.strip_prefix("Uncaught ").unwrap_or(text).split(':').next().unwrap_or_default();
    let is_class = (class.ends_with("Error") || class.ends_with("Exception"))
        && class.chars().all(|char| char.is_ascii_alphanumeric() || matches!(char, '_' | '.'));
    is_error_word(text)
        || after_place.is_some_and(is_error_word)
        || after_place.is_some_and(|rest| OPTION_ERRORS.iter().any(|start| rest.starts_with(start)))
        || is_class
        || ERRORS.iter().any(|beginning| {
            text.starts_with(beginning) && (*beginning != "thread '" || text.contains("' panicked at"))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cause(output: &str) -> String {
        let mut cause = Cause::default();
        output.lines().for_each(|line| cause.hear(line));
        cause.line()
    }

    const FRAMES: &str = "Traceback (most recent call last):\n  File \"t.py\", line 1, in f\n    g()\n    ~^^\n";

    #[test]
    fn the_exception_of_the_last_traceback_is_the_cause() {
        for (after, expected) in [
            (
                "RuntimeError: CUDA error: out of memory\nCompile with TORCH_USE_CUDA_DSA to enable\n",
                "RuntimeError: CUDA error: out of memory",
            ),
            (
                "RuntimeError: Error(s) in loading state_dict for Net:\n\tsize mismatch\n\tMissing key(s)\n",
                "RuntimeError: Error(s) in loading state_dict for Net: size mismatch",
            ),
            ("ValueError: bad lr\nwhile training epoch 3\n", "ValueError: bad lr"),
            ("ValueError\n", "ValueError"),
            ("ValueError: a\nhint: Error: b\n", "ValueError: a"),
            (
                "omegaconf.errors.ConfigAttributeError: Key lr is not in struct\n    full_key: lr\n\nSet the environment variable HYDRA_FULL_ERROR=1 for a stack trace.\n",
                "omegaconf.errors.ConfigAttributeError: Key lr is not in struct",
            ),
            ("ValueError: real\nwandb: wandb sync offline-run-1\n", "ValueError: real"),
            ("ValueError: real\nx.py:224: UserWarning: leaked\n  warnings.warn(\n", "ValueError: real"),
            (
                "ValueError: real\nException ignored in: <function f>\nTraceback (most recent call last):\n  File \"x\"\nTypeError: late\n",
                "ValueError: real",
            ),
            (
                "TypeError: real\n--------------------\nFor simplicity, JAX has removed its internal frames\n",
                "TypeError: real",
            ),
        ] {
            assert_eq!(cause(&format!("step 1\n{FRAMES}{after}")), expected, "{after}");
        }
        let chained = format!(
            "{FRAMES}KeyError: 'a'\n\nThe above exception was the direct cause of the following exception:\n\n{FRAMES}RuntimeError: cannot build\n"
        );
        assert_eq!(cause(&chained), "RuntimeError: cannot build");
        let started = format!(
            "{FRAMES}ValueError: inner\n{FRAMES}subprocess.CalledProcessError: Command returned non-zero exit status 1.\n"
        );
        assert_eq!(cause(&started), "ValueError: inner");
        let group = "  + Exception Group Traceback (most recent call last):\n  |   File \"t.py\", line 1\n  |     raise\n  | ExceptionGroup: many (2 sub-exceptions)\n  +-+---------------- 1 ----------------\n    | ValueError: first\n    +------------------------------------\n";
        assert_eq!(cause(group), "ExceptionGroup: many (2 sub-exceptions): ValueError: first");
        let handled = format!("{FRAMES}ImportError: no apex\nfalling back\nError: dataset folder /d is empty\n");
        assert_eq!(cause(&handled), "Error: dataset folder /d is empty");
        let rich = "╭─── Traceback (most recent call last) ───╮\n│ t.py:3 in main │\n╰──────────╯\nValueError: real\n";
        assert_eq!(cause(rich), "ValueError: real");
    }

    #[test]
    fn errors_of_other_programs_are_the_cause() {
        for (output, expected) in [
            (
                "a.c: In function 'main':\na.c:1:14: error: 'foo' undeclared\n    1 | int main(){ foo }\n      |             ^~~\n",
                "a.c:1:14: error: 'foo' undeclared",
            ),
            ("real cause\nmake: *** [Makefile:2: all] Error 3\n", "real cause"),
            (
                "Exception in thread \"main\" java.lang.IllegalStateException: a\n\tat Main.main(Main.java:3)\nCaused by: java.io.IOException: deeper\n\t... 1 more\n",
                "Caused by: java.io.IOException: deeper",
            ),
            ("throw new Error(\"real\")\n^\n\nError: real\n    at [eval]:1:7\n\nNode.js v20.20.2\n", "Error: real"),
            (
                "ERROR: LoadError: DimensionMismatch: A\nStacktrace:\n [1] f()\nin expression starting at a.jl:1\n",
                "ERROR: LoadError: DimensionMismatch: A",
            ),
            ("ValueError: real\n\nCall arguments received by layer dense:\n  - inputs=x\n", "ValueError: real"),
            (
                "FATAL Flags parsing error: Unknown command line flag 'x'\nPass --helpshort or --helpfull to see help on flags.\n",
                "FATAL Flags parsing error: Unknown command line flag 'x'",
            ),
            (
                "usage: t.py [-h]\nt.py: error: the following arguments are required: data\n",
                "t.py: error: the following arguments are required: data",
            ),
            (
                "Error in file(filename, \"r\") : \n  cannot open the connection\nIn addition: Warning message:\nIn file(filename, \"r\") :\n  cannot open file 'util.R': No such file or directory\nExecution halted\n",
                "cannot open file 'util.R': No such file or directory",
            ),
            (
                "Could not override \"a\".\nKey \"lrr\" is not in struct\n    full_key: a\n    object_type=dict\n\nSet the environment variable HYDRA_FULL_ERROR=1 for more.\n",
                "Key \"lrr\" is not in struct",
            ),
            (
                "thread 'main' panicked at src/main.rs:2:5:\nboom\nnote: run with `RUST_BACKTRACE=1`\n",
                "thread 'main' panicked at src/main.rs:2:5: boom",
            ),
            ("epoch 1 error: 0.5\nepoch 2 error: 0.4\nno space left\n", "no space left"),
            (
                "Usage: t.py [OPTIONS] DATA\nTry 't.py --help' for help.\n╭─ Error ───────────────────╮\n│ Invalid value for '--n':  │\n│ 'null' is not an integer. │\n╰───────────────────────────╯\n",
                "Invalid value for '--n': 'null' is not an integer.",
            ),
            ("no GPU\n──────────────\n", "no GPU"),
            (
                "terminate called after throwing an instance of 'std::runtime_error'\n  what():  no GPU 7\nAborted\n",
                "terminate called after throwing an instance of 'std::runtime_error': what():  no GPU 7",
            ),
            (
                "2026-01-01 10:00:00 ERROR train: loss is not finite\n2026-01-01 10:00:01 INFO train: bye\n",
                "2026-01-01 10:00:00 ERROR train: loss is not finite",
            ),
            (
                "Can't locate Foo.pm in @INC at t.pl line 1.\nBEGIN failed--compilation aborted at t.pl line 1.\n",
                "Can't locate Foo.pm in @INC at t.pl line 1.",
            ),
            (
                "RuntimeError: CUDA out of memory\nsrun: error: node1: task 0: Exited with exit code 1\n",
                "RuntimeError: CUDA out of memory",
            ),
            (
                "Could not override 'db'. No match in the defaults list.\nTo append to your default list use +db=mysql\n\nSet the environment variable HYDRA_FULL_ERROR=1 for more.\n",
                "Could not override 'db'. No match in the defaults list.",
            ),
            ("something\n", "something"),
            ("", ""),
        ] {
            assert_eq!(cause(output), expected, "{output}");
        }
    }
}
