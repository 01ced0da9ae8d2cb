//! The lines that a worker writes: one message each, and other output.

use std::io::{self, BufRead};

use sweep_job::Message;

/// Maximum length of a worker's line; a longer line violates the protocol.
pub const MAX_LINE_LENGTH: usize = 64 << 20;

/// Passes on the messages until the input ends or `on_message` returns `false`. Lines that are not messages are skipped
/// and counted: the worker wrote them to the stream of the messages.
pub fn messages(mut from: impl BufRead, mut on_message: impl FnMut(Message) -> bool) -> usize {
    let mut line = Vec::new();
    let mut stray_lines = 0;
    loop {
        line.clear();
        let is_whole = match read_line(&mut from, &mut line) {
            Ok(Line::End) | Err(_) => return stray_lines,
            Ok(Line::Whole) => true,
            Ok(Line::TooLong) => false,
        };
        match serde_json::from_slice(&line) {
            Ok(message) if is_whole => {
                if !on_message(message) {
                    return stray_lines;
                }
            }
            _ => stray_lines += 1,
        }
    }
}

enum Line {
    Whole,
    TooLong,
    End,
}

/// Reads a line, of which never more than [`MAX_LINE_LENGTH`] is in memory.
fn read_line(from: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<Line> {
    let mut too_long = false;
    let mut nothing = true;
    loop {
        let buffer = match from.fill_buf() {
            Ok(buffer) => buffer,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if buffer.is_empty() {
            return Ok(if nothing {
                Line::End
            } else if too_long {
                Line::TooLong
            } else {
                Line::Whole
            });
        }
        nothing = false;
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let part = &buffer[..end.unwrap_or(buffer.len())];
        if line.len() + part.len() > MAX_LINE_LENGTH {
            too_long = true;
            *line = Vec::new();
        } else if !too_long {
            line.extend_from_slice(part);
        }
        let length = part.len() + usize::from(end.is_some());
        from.consume(length);
        if end.is_some() {
            return Ok(if too_long { Line::TooLong } else { Line::Whole });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Read};

    use super::*;

    fn heard(text: &[u8]) -> (Vec<Message>, usize) {
        let mut received = Vec::new();
        let stray_lines = messages(BufReader::with_capacity(7, text), |message| {
            received.push(message);
            true
        });
        (received, stray_lines)
    }

    #[test]
    fn messages_are_found_among_noise() {
        let note = Message::Note("hello".into());
        let text = b"{\"note\":\"hello\"}\n\x00\xff\x1b[2J\n\n\"alive\"\n{\"note\":\"hello\"";
        assert_eq!(heard(text), (vec![note, Message::Alive], 3), "the last line is torn");
    }

    #[test]
    fn an_endless_line_is_one_stray_and_what_follows_is_heard() {
        let noise = io::repeat(b'x').take(MAX_LINE_LENGTH as u64 + 1);
        let mut messages_heard = 0;
        let stray_lines = messages(BufReader::new(noise.chain(&b"\n\"alive\"\n"[..])), |_| {
            messages_heard += 1;
            true
        });
        assert_eq!((messages_heard, stray_lines), (1, 1));
    }
}
