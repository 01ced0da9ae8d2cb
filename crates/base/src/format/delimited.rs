//! Rows of delimited text: CSV and its relatives.

/// The separator of a header: the most frequent of the usual ones.
pub fn separator(header: &[u8]) -> u8 {
    let count = |separator: u8| header.split(|byte| *byte == separator).count();
    [b';', b'\t', b','].into_iter().max_by_key(|separator| count(*separator)).unwrap_or(b',')
}

/// The fields of a row (RFC 4180).
pub fn fields(row: &[u8], separator: u8) -> Vec<String> {
    let mut fields = vec![Vec::new()];
    let mut quoted = false;
    let mut bytes = row.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        let Some(field) = fields.last_mut() else { break };
        match byte {
            b'"' if quoted && bytes.peek() == Some(&b'"') => {
                bytes.next();
                field.push(b'"');
            }
            b'"' => quoted = !quoted,
            byte if byte == separator && !quoted => fields.push(Vec::new()),
            byte => field.push(byte),
        }
    }
    fields.into_iter().map(|field| String::from_utf8_lossy(&field).into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_fields_are_whole() {
        assert_eq!(fields(br#"a,"b,c","d""e",,f"#, b','), ["a", "b,c", "d\"e", "", "f"]);
        assert_eq!((separator(b"a;b;c,d"), separator(b"a\tb"), separator(b"a,b")), (b';', b'\t', b','));
    }
}
