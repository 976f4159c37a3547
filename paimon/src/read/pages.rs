//! Page headers of a Parquet file, looked at before the decoder does: it makes room for what they
//! claim, be it gigabytes.
//!
//! Source: `PageHeader` of `parquet.thrift`, in Thrift's compact protocol.

/// What a page header claims.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Header {
    uncompressed_bytes: i64,
    compressed_bytes: i64,
    dictionary_values: i64,
}

/// Bytes, and values, that a page may claim whatever the footer says: not all writers count alike.
const SMALL: i64 = 16 << 20;

/// Says what is wrong with the pages of a column chunk, which has so many bytes when it is not
/// compressed.
pub(super) fn check(chunk: &[u8], uncompressed_bytes: i64) -> Result<(), String> {
    let mut rest = chunk;
    while !rest.is_empty() {
        let mut header = Header::default();
        let Some(page) = page_header(rest, &mut header) else {
            return Err("a page without a header".to_owned());
        };
        let bytes_max = uncompressed_bytes.max(SMALL);
        if !(0..=bytes_max).contains(&header.uncompressed_bytes) {
            return Err(format!(
                "a page of {} bytes in a column chunk of {uncompressed_bytes}",
                header.uncompressed_bytes
            ));
        }
        // Each takes a byte at least.
        let values_max = header.uncompressed_bytes.max(SMALL);
        if !(0..=values_max).contains(&header.dictionary_values) {
            return Err(format!(
                "a dictionary of {} values in {} bytes",
                header.dictionary_values, header.uncompressed_bytes
            ));
        }
        let size = usize::try_from(header.compressed_bytes).unwrap_or(usize::MAX);
        rest = page.get(size..).unwrap_or_default();
    }
    Ok(())
}

const BINARY: u8 = 8;
const STRUCT: u8 = 12;
/// Structs within others, at most.
const DEPTH_MAX: u8 = 8;

/// Reads a header; returns what is behind it.
fn page_header<'a>(bytes: &'a [u8], header: &mut Header) -> Option<&'a [u8]> {
    fields(
        bytes,
        0,
        0,
        &mut |depth, outer, field, value| match (depth, outer, field) {
            (0, _, 2) => header.uncompressed_bytes = value,
            (0, _, 3) => header.compressed_bytes = value,
            // The number of values of the dictionary page's own header.
            (1, 7, 1) => header.dictionary_values = value,
            _ => {}
        },
    )
}

/// Tells (depth, field around it, field, value) of all numbers of a struct.
type Tell<'t> = dyn FnMut(u8, i64, i64, i64) + 't;

fn fields<'a>(mut rest: &'a [u8], depth: u8, outer: i64, tell: &mut Tell<'_>) -> Option<&'a [u8]> {
    let mut field = 0_i64;
    loop {
        let (head, behind) = rest.split_first()?;
        rest = behind;
        if *head == 0 {
            return Some(rest);
        }
        let (step, kind) = (head >> 4, head & 0xf);
        if step == 0 {
            (field, rest) = zigzag(rest)?;
        } else {
            field = field.checked_add(step.into())?;
        }
        rest = match kind {
            4..=6 => {
                let (value, rest) = zigzag(rest)?;
                // As the decoder takes it.
                tell(depth, outer, field, i64::from(value as i32));
                rest
            }
            STRUCT if depth < DEPTH_MAX => fields(rest, depth + 1, field, tell)?,
            kind => skip(rest, kind)?,
        };
    }
}

/// Behind a value that is not looked at. There are no lists in page headers.
fn skip(rest: &[u8], kind: u8) -> Option<&[u8]> {
    match kind {
        1 | 2 => Some(rest),
        3 => rest.get(1..),
        7 => rest.get(8..),
        BINARY => {
            let (length, rest) = varint(rest)?;
            rest.get(usize::try_from(length).ok()?..)
        }
        _ => None,
    }
}

fn zigzag(bytes: &[u8]) -> Option<(i64, &[u8])> {
    let (value, rest) = varint(bytes)?;
    Some(((value >> 1) as i64 ^ -((value & 1) as i64), rest))
}

fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0_u64;
    for (at, byte) in bytes.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Some((value, bytes.get(at + 1..)?));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, RecordBatch, StringArray};
    use parquet::{
        arrow::ArrowWriter,
        file::{
            properties::WriterProperties,
            reader::{FileReader, SerializedFileReader},
        },
    };

    use super::*;

    /// The column chunk of a file, and its size when it is not compressed.
    fn chunk() -> (Vec<u8>, i64) {
        let texts = (0..5000).map(|row| format!("text {}", row % 100));
        let texts: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
        let batch = RecordBatch::try_from_iter([("t", texts)]).unwrap();
        let properties = WriterProperties::builder()
            .set_data_page_row_count_limit(1000)
            .set_write_batch_size(500)
            .build();
        let mut bytes = Vec::new();
        let mut writer =
            ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        let reader = SerializedFileReader::new(bytes::Bytes::from(bytes.clone())).unwrap();
        let column = reader.metadata().row_group(0).column(0).clone();
        let (start, length) = column.byte_range();
        let chunk = bytes[start as usize..(start + length) as usize].to_vec();
        (chunk, column.uncompressed_size())
    }

    #[test]
    fn headers_are_read_as_they_are_written() {
        let (chunk, size) = chunk();
        assert_eq!(check(&chunk, size), Ok(()));
        let mut first = Header::default();
        let rest = page_header(&chunk, &mut first).unwrap();
        assert_eq!(first.dictionary_values, 100);
        let mut second = Header::default();
        page_header(&rest[first.compressed_bytes as usize..], &mut second).unwrap();
        assert!(second.uncompressed_bytes > 0 && second.dictionary_values == 0);
    }

    /// Zigzag, as Thrift writes numbers.
    fn varint(number: i32) -> Vec<u8> {
        let mut rest = ((number << 1) ^ (number >> 31)) as u32;
        let mut bytes = Vec::new();
        while rest > 0x7f {
            bytes.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        bytes.push(rest as u8);
        bytes
    }

    /// The header of a dictionary page and so many bytes.
    fn page(uncompressed: i32, compressed: i32, values: i32) -> Vec<u8> {
        let mut bytes = vec![0x15, 4, 0x15];
        bytes.extend(varint(uncompressed));
        bytes.push(0x15);
        bytes.extend(varint(compressed));
        bytes.extend([0x4c, 0x15]);
        bytes.extend(varint(values));
        bytes.extend([0x15, 0, 0, 0]);
        bytes.extend(vec![7; usize::try_from(compressed).unwrap_or(0)]);
        bytes
    }

    #[test]
    fn pages_that_claim_too_much_are_refused() {
        let large = 40 << 20;
        for (size, page, fine) in [
            (1000, page(400, 20, 100), true),
            (large, page(large as i32, 20, large as i32), true),
            (1000, page(large as i32, 20, 100), false),
            (1000, page(-1, 20, 100), false),
            (large, page(1000, 20, large as i32), false),
            (large, page(1000, 20, i32::MAX - 1), false),
            (large, page(1000, 20, -5), false),
        ] {
            // The second page is looked at too.
            let chunk = [self::page(10, 3, 2), page].concat();
            assert_eq!(check(&chunk, size).is_ok(), fine, "{chunk:?}");
        }
    }

    #[test]
    fn what_is_no_header_is_refused() {
        assert_eq!(check(b"", 0), Ok(()));
        for bytes in [
            &b"PAR1"[..],
            &[0x15; 40],
            &[0x1c; 40],
            &[0xff; 40],
            &[0x15, 0x80],
        ] {
            assert!(check(bytes, 0).is_err(), "{bytes:?}");
        }
    }
}
