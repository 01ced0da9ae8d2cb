//! Files of dependencies in Makefile format, as compilers write them and ninja reads them.

use std::{
    ffi::OsString,
    io,
    os::unix::ffi::OsStringExt as _,
    path::{Path, PathBuf},
};

use fs_err as fs;

/// The longest file that is read, in bytes.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// The files that a file of dependencies lists; a phrase if it cannot be used.
pub(super) fn read(path: &Path) -> Result<Vec<PathBuf>, String> {
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err("was not written".into()),
        Err(error) => return Err(format!("cannot be read: {error}")),
    };
    if !metadata.is_file() {
        return Err("is not a file".into());
    }
    if metadata.len() > MAX_FILE_BYTES {
        return Err(format!("is longer than {} MiB", MAX_FILE_BYTES >> 20));
    }
    let text = fs::read(path).map_err(|error| format!("cannot be read: {error}"))?;
    parse(&text)
}

/// Returns the prerequisites of all rules. The error is a phrase, if there is no rule.
///
/// The rules of Make apply: words end at blanks; a line that ends with a backslash continues in the next; `\ `, `\#` and
/// `\:` stand for the character; `$$` is `$`; of several targets before one colon none is a prerequisite. A backslash before
/// any other character stands for itself, as compilers write it.
fn parse(text: &[u8]) -> Result<Vec<PathBuf>, String> {
    let (mut prerequisites, mut word): (Vec<PathBuf>, Vec<u8>) = (Vec::new(), Vec::new());
    let (mut is_after_colon, mut rules) = (false, 0);
    let mut targets = 0;
    let mut index = 0;
    let mut finish = |word: &mut Vec<u8>, is_after_colon: bool, targets: &mut usize| {
        if word.is_empty() {
            return;
        }
        let path = PathBuf::from(OsString::from_vec(std::mem::take(word)));
        if is_after_colon {
            prerequisites.push(path);
        } else {
            *targets += 1;
        }
    };
    let text = [text, b"\n"].concat();
    while let Some(byte) = text.get(index).copied() {
        let next_byte = text.get(index + 1).copied();
        match (byte, next_byte) {
            (b'\\', Some(b'\n')) => {
                finish(&mut word, is_after_colon, &mut targets);
                index += 1;
            }
            (b'\\', Some(b'\r')) if text.get(index + 2) == Some(&b'\n') => {
                finish(&mut word, is_after_colon, &mut targets);
                index += 2;
            }
            (b'\\', Some(escaped @ (b' ' | b'#' | b':'))) => {
                word.push(escaped);
                index += 1;
            }
            (b'$', Some(b'$')) => {
                word.push(b'$');
                index += 1;
            }
            (b'#', _) if word.is_empty() => {
                while text.get(index + 1).is_some_and(|byte| *byte != b'\n') {
                    index += 1;
                }
            }
            (b':', Some(b' ' | b'\t' | b'\n' | b'\r' | b'\\') | None) if !is_after_colon => {
                finish(&mut word, is_after_colon, &mut targets);
                if targets == 0 {
                    return Err("has a rule without a target".into());
                }
                (is_after_colon, rules) = (true, rules + 1);
            }
            (b'\n', _) => {
                finish(&mut word, is_after_colon, &mut targets);
                if !is_after_colon && targets > 0 {
                    return Err("is not in Makefile format: a line has no `:`".into());
                }
                (is_after_colon, targets) = (false, 0);
            }
            (b' ' | b'\t' | b'\r', _) => finish(&mut word, is_after_colon, &mut targets),
            (byte, _) => word.push(byte),
        }
        index += 1;
    }
    if rules == 0 { Err("has no rule `TARGET: FILE …`".into()) } else { Ok(prerequisites) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Vec<String> {
        parse(text.as_bytes()).unwrap().iter().map(|path| path.to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn what_compilers_write() {
        assert_eq!(parsed("main.o: main.c a.h \\\n  b.h\n\na.h:\n\nb.h:\n"), ["main.c", "a.h", "b.h"]);
        assert_eq!(parsed("a.o b.o : my\\ file.c x\\#y.h $$HOME/z.h"), ["my file.c", "x#y.h", "$HOME/z.h"]);
        assert_eq!(parsed("out: a \\\r\n b\r\n"), ["a", "b"]);
        assert_eq!(parsed("# of a build\nout: C:/x.h a:b"), ["C:/x.h", "a:b"]);
        assert_eq!(parsed("x\\:y: c\\d"), [r"c\d"]);
        assert_eq!(parsed("out:"), Vec::<String>::new());
    }

    #[test]
    fn what_is_none() {
        for text in ["", "\n", "just words\n", ": a\n", "\u{0}\u{1}"] {
            assert!(parse(text.as_bytes()).is_err(), "{text:?}");
        }
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read(folder.path()), Err("is not a file".into()));
        assert_eq!(read(&folder.path().join("x")), Err("was not written".into()));
    }
}
