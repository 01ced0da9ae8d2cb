//! The protocol between a connection and the server on its host: frames of a line of JSON and a body of bytes.
//!
//! Long bodies are sent in parts, so that they do not block other messages. Data from the other side is not trusted: lengths have limits,
//! and a malformed line ends the connection with an error.

use std::{
    io::{self, BufRead, Read as _, Write},
    time::Duration,
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{Stop, error::Fault};
use crate::record::Key;

/// Version of the protocol. Both sides are the same program, as the folder of the program on the host has its digest.
pub(crate) const PROTOCOL: u32 = 1;
/// The longest line of a frame, in bytes.
const MAX_LINE: u64 = 1 << 20;
/// The longest body of a frame, in bytes.
pub(crate) const MAX_BODY: usize = 1 << 20;
/// Length of the parts of long bodies, in bytes.
pub(crate) const PART: usize = 1 << 18;
/// Interval of the signs of life of both sides.
pub(crate) const BEAT: Duration = Duration::from_secs(2);

/// A frame.
#[derive(Debug)]
pub(crate) struct Frame<T> {
    /// Number of the request; 0 for a message without a request.
    pub id: u64,
    /// True if further parts of the body follow.
    pub more: bool,
    pub head: T,
    pub body: Vec<u8>,
}

/// The line of a frame.
#[derive(Debug, Serialize, Deserialize)]
struct Line<T> {
    id: u64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    more: bool,
    #[serde(default, skip_serializing_if = "is_zero")]
    bytes: usize,
    head: T,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(bytes: &usize) -> bool {
    *bytes == 0
}

/// A request, or a part of one.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Ask {
    /// Opens the connection. The answer is a [`super::Probe`].
    Hello { protocol: u32, store: String },
    /// A sign of life.
    Ping,
    /// A further part of the body of the request with the same number.
    Part,
    /// The body has a [`Stock`], and the answer the part of it that is missing.
    Have,
    /// A file by content, in the body.
    Put { digest: String },
    /// The archive of a record, in the body.
    Record { key: Key },
    /// Makes a tree of the entries in the body.
    Tree { digest: String },
    /// Starts the [`super::StartJob`] in the body. The answer is [`super::Started`].
    Start,
    /// Follows a job's journal from a place in it.
    Follow { key: Key, from: u64 },
    /// The jobs of the store. The answer is a list of [`super::SpooledJob`].
    Jobs,
    /// The archive of a record.
    Fetch { key: Key },
    /// The log of a job from a place in it.
    Log { key: Key, from: u64 },
    /// The output of a job's engine.
    Output { key: Key },
    /// Stops jobs.
    Cancel { keys: Vec<Key>, how: Stop },
    /// Removes the remains of a job's run.
    Forget { key: Key },
    /// Removes files and records that nothing needs. The answer is [`super::Cleaned`].
    Clean,
    /// True if results can be written.
    Writes,
    /// Checks of the host's folder and programs. The answer is a list of [`crate::host::finding::Finding`].
    Examine,
    /// The compute devices. The answer is a [`sweep_job::Probe`].
    Devices,
}

/// An answer to a request, or an unsolicited message.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Say {
    /// A part of the answer's body, which further ones follow.
    Part,
    /// The end of the answer, with the last part of its body.
    Done,
    /// The request failed.
    Failed(Fault),
    /// A sign of life.
    Alive,
    /// A line of a job's journal, in the body; the next one begins at `next`.
    Line { key: Key, next: u64 },
    /// A job's process has ended, and all its lines were sent.
    Ended { key: Key, has_record: bool },
}

/// Things by digest that a host has, or lacks.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stock {
    #[serde(default)]
    pub blobs: Vec<String>,
    #[serde(default)]
    pub trees: Vec<String>,
    #[serde(default)]
    pub records: Vec<Key>,
}

/// Error of a stream that has no frames.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WireError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("a line is longer than {MAX_LINE} bytes")]
    LongLine,
    #[error("a body of {0} bytes is longer than {MAX_BODY}")]
    LongBody(usize),
    #[error("the line `{line}` is not a frame: {error}")]
    NoFrame { line: String, error: serde_json::Error },
    #[error("it ends within a frame")]
    Torn,
}

/// Writes a frame.
pub(crate) fn write<T: Serialize>(
    writer: &mut impl Write,
    id: u64,
    more: bool,
    head: &T,
    body: &[u8],
) -> io::Result<()> {
    let mut text = serde_json::to_vec(&Line { id, more, bytes: body.len(), head })?;
    text.push(b'\n');
    writer.write_all(&text)?;
    writer.write_all(body)?;
    writer.flush()
}

/// Reads a frame; `None` at the end of the stream.
pub(crate) fn read<T: DeserializeOwned>(reader: &mut impl BufRead) -> Result<Option<Frame<T>>, WireError> {
    let mut line = Vec::new();
    reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)?;
    match line.last() {
        None => return Ok(None),
        Some(b'\n') => {}
        Some(_) if line.len() as u64 == MAX_LINE => return Err(WireError::LongLine),
        Some(_) => return Err(WireError::Torn),
    }
    let Line { id, more, bytes, head } = serde_json::from_slice(&line).map_err(|error| {
        let line = String::from_utf8_lossy(&line).trim().chars().take(80).collect();
        WireError::NoFrame { line, error }
    })?;
    if bytes > MAX_BODY {
        return Err(WireError::LongBody(bytes));
    }
    let mut body = vec![0; bytes];
    reader.read_exact(&mut body).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => WireError::Torn,
        _ => WireError::Io(error),
    })?;
    Ok(Some(Frame { id, more, head, body }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn frames_survive() {
        let mut stream = Vec::new();
        write(&mut stream, 7, true, &Ask::Put { digest: "d".into() }, b"line\n{}").unwrap();
        write(&mut stream, 0, false, &Ask::Ping, b"").unwrap();
        let mut reader = stream.as_slice();
        let first: Frame<Ask> = read(&mut reader).unwrap().unwrap();
        assert_eq!((first.id, first.more, first.body.as_slice()), (7, true, &b"line\n{}"[..]));
        assert!(matches!(first.head, Ask::Put { digest } if digest == "d"));
        let second: Frame<Ask> = read(&mut reader).unwrap().unwrap();
        assert!(matches!((second.id, second.more, second.head), (0, false, Ask::Ping)));
        assert!(read::<Ask>(&mut reader).unwrap().is_none());
    }

    #[test]
    fn lengths_have_limits() {
        let error_of = |text: &[u8]| read::<Ask>(&mut &text[..]).unwrap_err();
        assert!(matches!(error_of(br#"{"id":1,"bytes":99999999999,"head":"ping"}"#), WireError::Torn));
        assert!(matches!(
            error_of(b"{\"id\":1,\"bytes\":9999999,\"head\":\"ping\"}\n"),
            WireError::LongBody(9_999_999)
        ));
        assert!(matches!(error_of(b"{\"id\":1,\"bytes\":9,\"head\":\"ping\"}\n12"), WireError::Torn));
        assert!(matches!(error_of(&vec![b'x'; 2 << 20]), WireError::LongLine));
        assert!(error_of(b"Welcome to box1!\n").to_string().contains("the line `Welcome to box1!` is not a frame"));
    }

    proptest! {
        #[test]
        fn no_stream_makes_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut reader = bytes.as_slice();
            while let Ok(Some(_)) = read::<Ask>(&mut reader) {}
        }
    }
}
