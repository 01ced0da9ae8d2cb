//! The format of `TensorBoard`'s event files, written and read: TensorFlow's records with masked CRC-32C sums around
//! protocol buffers (`event.proto`, `summary.proto`, `tensor.proto`).

/// A protocol buffer that is being written.
#[derive(Debug, Default)]
pub struct Message(Vec<u8>);

impl Message {
    /// The bytes that were written.
    pub fn content(&self) -> &[u8] {
        &self.0
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push((value & 0x7f) as u8);
    }

    /// Adds a whole number.
    pub fn number(&mut self, field: u64, value: u64) {
        self.varint(field << 3);
        self.varint(value);
    }

    /// Adds a number of double precision.
    pub fn double(&mut self, field: u64, value: f64) {
        self.varint(field << 3 | 1);
        self.0.extend(value.to_le_bytes());
    }

    /// Adds a text, a message or other bytes.
    pub fn bytes(&mut self, field: u64, value: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(value.len() as u64);
        self.0.extend(value);
    }

    /// Adds a number of single precision.
    pub fn float(&mut self, field: u64, value: f32) {
        self.varint(field << 3 | 5);
        self.0.extend(value.to_le_bytes());
    }
}

/// Appends a record to `file`: the length of `content`, the checksum of the length, `content`, and the checksum of
/// `content`.
pub fn frame(file: &mut Vec<u8>, content: &[u8]) {
    let length = (content.len() as u64).to_le_bytes();
    file.extend(length);
    file.extend(masked(crc32c(&length)).to_le_bytes());
    file.extend(content);
    file.extend(masked(crc32c(content)).to_le_bytes());
}

/// Number of bytes of a record before its content.
pub const HEADER: usize = 12;
/// Number of bytes of a record after its content.
pub const FOOTER: usize = 4;

/// The length of a record's content in bytes, from its header; `None` if the header's checksum is wrong.
pub fn content_length(header: [u8; HEADER]) -> Option<u64> {
    let (length, sum) = header.split_first_chunk::<8>()?;
    let is_whole = masked(crc32c(length)).to_le_bytes() == *sum;
    is_whole.then(|| u64::from_le_bytes(*length))
}

/// True if `footer` is the checksum of `content`.
pub fn is_whole(content: &[u8], footer: &[u8]) -> bool {
    masked(crc32c(content)).to_le_bytes() == *footer
}

/// A number of a series in a record.
#[derive(Debug, Clone, PartialEq)]
pub struct Scalar<'a> {
    /// Name of the series.
    pub tag: &'a str,
    /// The value, which can be infinite or NaN.
    pub value: f64,
}

/// Returns the step and the scalars of a record's content. Other or damaged contents have no scalars.
pub fn scalars(content: &[u8]) -> (u64, Vec<Scalar<'_>>) {
    let (mut step, mut scalars) = (0, Vec::new());
    for (field, value) in Fields(content) {
        match (field, value) {
            (2, Field::Number(number)) => step = number,
            (5, Field::Bytes(summary)) => {
                let values = Fields(summary).filter_map(|(field, value)| match (field, value) {
                    (1, Field::Bytes(value)) => scalar(value),
                    _ => None,
                });
                scalars.extend(values);
            }
            _ => {}
        }
    }
    (step, scalars)
}

/// `Summary.Value { tag = 1, simple_value = 2, tensor = 8 }`.
fn scalar(value: &[u8]) -> Option<Scalar<'_>> {
    let (mut tag, mut number) = (None, None);
    for (field, value) in Fields(value) {
        match (field, value) {
            (1, Field::Bytes(text)) => tag = std::str::from_utf8(text).ok(),
            (2, Field::Fixed32(bytes)) => number = Some(f64::from(f32::from_le_bytes(bytes))),
            (8, Field::Bytes(tensor)) => number = tensor_value(tensor).or(number),
            _ => {}
        }
    }
    Some(Scalar { tag: tag?, value: number? })
}

/// The value of a `TensorProto { dtype = 1, shape = 2, content = 4, float_val = 5, double_val = 6 }` of single or
/// double precision; `None` unless it has exactly one.
fn tensor_value(tensor: &[u8]) -> Option<f64> {
    const FLOAT: u64 = 1;
    const DOUBLE: u64 = 2;
    let (mut kind, mut bytes) = (0, Vec::new());
    for (field, value) in Fields(tensor) {
        match (field, value) {
            (1, Field::Number(number)) => kind = number,
            (4..=6, Field::Bytes(content)) => bytes.extend_from_slice(content.get(..9).unwrap_or(content)),
            (5, Field::Fixed32(content)) => bytes.extend(content),
            (6, Field::Fixed64(content)) => bytes.extend(content),
            _ => {}
        }
    }
    match kind {
        FLOAT => Some(f64::from(f32::from_le_bytes(bytes.try_into().ok()?))),
        DOUBLE => Some(f64::from_le_bytes(bytes.try_into().ok()?)),
        _ => None,
    }
}

/// The fields of a protocol buffer, each with its number. Ends at the first malformed field.
pub struct Fields<'a>(pub &'a [u8]);

/// The value of a field.
pub enum Field<'a> {
    /// A whole number.
    Number(u64),
    /// Eight bytes, such as a number of double precision.
    Fixed64([u8; 8]),
    /// A text, a message or other bytes.
    Bytes(&'a [u8]),
    /// Four bytes, such as a number of single precision.
    Fixed32([u8; 4]),
}

impl<'a> Fields<'a> {
    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = (u64, Field<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let key = self.varint()?;
        let value = match key & 7 {
            0 => Field::Number(self.varint()?),
            1 => Field::Fixed64(self.take(8)?.try_into().ok()?),
            2 => {
                let length = usize::try_from(self.varint()?).ok()?;
                Field::Bytes(self.take(length)?)
            }
            5 => Field::Fixed32(self.take(4)?.try_into().ok()?),
            _ => return None,
        };
        Some((key >> 3, value))
    }
}

/// Masks a checksum as the format requires, because the CRC of data that contains CRCs detects fewer errors.
fn masked(sum: u32) -> u32 {
    sum.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// The remainders of CRC-32C (Castagnoli) for each byte.
const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0_u32;
    while byte < 256 {
        let mut sum = byte;
        let mut bit = 0;
        while bit < 8 {
            sum = if sum & 1 == 1 { (sum >> 1) ^ 0x82f6_3b78 } else { sum >> 1 };
            bit += 1;
        }
        table[byte as usize] = sum;
        byte += 1;
    }
    table
};

fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |sum, byte| (sum >> 8) ^ TABLE[usize::from(sum.to_le_bytes()[0] ^ byte)])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 3720, appendix B.4.
    #[test]
    fn sums_are_the_standards() {
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(&(0..32).collect::<Vec<u8>>()), 0x46dd_794e);
    }

    fn event(values: &[Message]) -> Vec<u8> {
        let mut summary = Message::default();
        for value in values {
            summary.bytes(1, value.content());
        }
        let mut event = Message::default();
        event.double(1, 1e9);
        event.number(2, 300);
        event.bytes(5, summary.content());
        event.0
    }

    fn value(tag: &str, fill: impl FnOnce(&mut Message)) -> Message {
        let mut value = Message::default();
        value.bytes(1, tag.as_bytes());
        fill(&mut value);
        value
    }

    fn tensor(kind: u64, fill: impl FnOnce(&mut Message)) -> impl FnOnce(&mut Message) {
        move |value| {
            let mut tensor = Message::default();
            tensor.number(1, kind);
            tensor.bytes(2, &[]);
            fill(&mut tensor);
            value.bytes(8, tensor.content());
        }
    }

    #[test]
    fn every_form_of_a_scalar_is_read() {
        let event = event(&[
            value("simple", |value| value.float(2, 0.5)),
            value("float", tensor(1, |tensor| tensor.float(5, 1.5))),
            value("packed", tensor(1, |tensor| tensor.bytes(5, &2.5_f32.to_le_bytes()))),
            value("double", tensor(2, |tensor| tensor.double(6, 3.5))),
            value("content", tensor(2, |tensor| tensor.bytes(4, &4.5_f64.to_le_bytes()))),
            value("text", tensor(7, |tensor| tensor.bytes(8, b"abcd"))),
            value("two", tensor(1, |tensor| tensor.bytes(4, &[0; 8]))),
            value("images", |value| value.bytes(5, &[0; 8])),
        ]);
        let (step, scalar_values) = scalars(&event);
        let scalar_values: Vec<(&str, f64)> = scalar_values.iter().map(|scalar| (scalar.tag, scalar.value)).collect();
        let expected = [("simple", 0.5), ("float", 1.5), ("packed", 2.5), ("double", 3.5), ("content", 4.5)];
        assert_eq!((step, scalar_values.as_slice()), (300, expected.as_slice()));
    }

    #[test]
    fn what_is_damaged_has_no_scalars_and_does_no_harm() {
        let event = event(&[value("loss", |value| value.float(2, 0.5))]);
        for end in 0..event.len() {
            scalars(&event[..end]);
        }
        let mut seed = 1_u64;
        for _ in 0..2000 {
            let noise: Vec<u8> = std::iter::repeat_with(|| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                seed.to_be_bytes()[0]
            })
            .take(64)
            .collect();
            scalars(&noise);
        }
        let mut file = Vec::new();
        frame(&mut file, &event);
        let header: [u8; HEADER] = file[..HEADER].try_into().unwrap();
        assert_eq!(content_length(header), Some(event.len() as u64));
        assert!(is_whole(&event, &file[HEADER + event.len()..]));
        let mut damaged_header = header;
        damaged_header[0] ^= 1;
        assert_eq!(content_length(damaged_header), None);
    }
}
