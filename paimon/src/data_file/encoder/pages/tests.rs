use arrow_array::{
    Array, ArrayRef, BooleanArray, Int8Array, Int32Array, Int64Array, ListArray, RecordBatch,
    StringArray, TimestampNanosecondArray, types::Int32Type,
};
use parquet::{
    arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder, RowSelection},
    basic::{Encoding, ZstdLevel},
    column::page::Page,
    file::{
        metadata::PageIndexPolicy,
        reader::{FileReader, SerializedFileReader},
        serialized_reader::ReadOptionsBuilder,
    },
};

use super::{
    super::{Encoder, FileShape},
    *,
};
use crate::fixture::fixture;

const COLUMNS: [(&str, &str); 8] = [
    ("id", "INT NOT NULL"),
    ("digits", "STRING NOT NULL"),
    ("word", "STRING"),
    ("nothing", "STRING"),
    ("flag", "BOOLEAN"),
    ("at", "TIMESTAMP(9)"),
    ("items", "ARRAY<INT>"),
    ("sentence", "STRING"),
];

fn shape() -> Arc<FileShape> {
    let fixture = fixture(&COLUMNS, &["id"], &[], &[]);
    Arc::new(FileShape::new(fixture.table.schema(), &[0]).unwrap())
}

/// Rows with a key, a number and a kind before the table's columns.
fn rows(from: i32, count: i32) -> Vec<ArrayRef> {
    let all = || from..from + count;
    let random = |row: i32| (i64::from(row) + 1).wrapping_mul(6_364_136_223_846_793_005) as u64;
    let digits = |row| (0..8).map(move |at| format!("{:011}", random(row * 8 + at) >> 28));
    let digits = all().map(|row| digits(row).collect::<Vec<_>>().join("-"));
    let word = |row: i32| (row % 3 != 0).then(|| ["red", "green", "blue"][row as usize % 7 % 3]);
    let sentence = |row: i32| {
        let words = [
            "the", "order", "was", "shipped", "again", "without", "notice",
        ];
        let words = (0..9).map(|at| words[(random(row * 9 + at) >> 40) as usize % 7]);
        words.collect::<Vec<_>>().join(" ")
    };
    let item = |row: i32| (row % 5 != 1).then(move || (0..row % 4).map(move |at| Some(row ^ at)));
    let ids: ArrayRef = Arc::new(Int32Array::from_iter_values(all()));
    vec![
        ids.clone(),
        Arc::new(Int64Array::from_iter_values(all().map(i64::from))),
        Arc::new(Int8Array::from_iter_values(all().map(|_| 0))),
        ids,
        Arc::new(StringArray::from_iter_values(digits)),
        Arc::new(all().map(word).collect::<StringArray>()),
        Arc::new(all().map(|_| None::<&str>).collect::<StringArray>()),
        Arc::new(
            all()
                .map(|row| (row % 4 != 0).then_some(row % 3 == 0))
                .collect::<BooleanArray>(),
        ),
        Arc::new(
            all()
                .map(|row| (row % 6 != 0).then_some(i64::from(row) * 1_000_000_007))
                .collect::<TimestampNanosecondArray>(),
        ),
        Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(
            all().map(item),
        )),
        Arc::new(
            all()
                .map(|row| Some(sentence(row)))
                .collect::<StringArray>(),
        ),
    ]
}

fn zstd(level: i32) -> Compression {
    Compression::ZSTD(ZstdLevel::try_new(level).unwrap())
}

fn written(shape: &Arc<FileShape>, compression: Compression, groups: &[Vec<ArrayRef>]) -> Bytes {
    let mut encoder = Encoder::new(shape.clone(), compression, &groups[0]).unwrap();
    for group in groups {
        for at in (0..group[0].len()).step_by(4096) {
            let slice = |column: &ArrayRef| column.slice(at, 4096.min(column.len() - at));
            let batch: Vec<ArrayRef> = group.iter().map(slice).collect();
            encoder.write(&batch).unwrap();
        }
        let expected = encoder.file_bytes();
        encoder.end_row_group().unwrap();
        let is = encoder.file_bytes();
        assert!(expected * 10 >= is * 9, "{expected} for {is}");
    }
    encoder.finish().unwrap();
    encoder.take().concat().into()
}

fn read(file: &Bytes, selection: Option<RowSelection>) -> Vec<RecordBatch> {
    let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Required);
    let mut reader =
        ParquetRecordBatchReaderBuilder::try_new_with_options(file.clone(), options).unwrap();
    if let Some(selection) = selection {
        reader = reader.with_row_selection(selection);
    }
    let reader = reader.with_batch_size(1 << 20).build().unwrap();
    reader.map(Result::unwrap).collect()
}

fn same(batches: &[RecordBatch], rows: &[ArrayRef]) {
    let schema = batches[0].schema();
    let batch = arrow_select::concat::concat_batches(&schema, batches).unwrap();
    for (at, (is, expected)) in batch.columns().iter().zip(rows).enumerate() {
        assert_eq!(is.len(), expected.len());
        for row in 0..is.len() {
            assert_eq!(is.is_null(row), expected.is_null(row), "{at}: {row}");
        }
        match is.data_type() {
            arrow_schema::DataType::List(_) => {
                let list = |array: &ArrayRef, row| -> ArrayRef {
                    array
                        .as_any()
                        .downcast_ref::<ListArray>()
                        .unwrap()
                        .value(row)
                };
                for row in (0..is.len()).filter(|row| is.is_valid(*row)) {
                    assert_eq!(&list(is, row), &list(expected, row), "{row}");
                }
            }
            arrow_schema::DataType::Timestamp(..) => {
                let ticks = |array: &ArrayRef| -> Vec<Option<i64>> {
                    let array = array.as_any().downcast_ref::<TimestampNanosecondArray>();
                    array.unwrap().iter().collect()
                };
                assert_eq!(ticks(is), ticks(expected));
            }
            _ => assert_eq!(is, expected, "{at}"),
        }
    }
}

/// What the file says of its pages is what they are.
fn check_metadata(file: &Bytes) {
    let options = ReadOptionsBuilder::new().with_page_index();
    let reader = SerializedFileReader::new_with_options(file.clone(), options.build()).unwrap();
    let metadata = reader.metadata();
    let mut end = 4;
    for (group, row_group) in metadata.row_groups().iter().enumerate() {
        let index = metadata.page_index_for_row_group(group);
        assert_eq!(
            row_group.compressed_size(),
            row_group
                .columns()
                .iter()
                .map(|it| it.compressed_size())
                .sum::<i64>()
        );
        assert_eq!(
            row_group.total_byte_size(),
            row_group
                .columns()
                .iter()
                .map(|it| it.uncompressed_size())
                .sum::<i64>()
        );
        for (at, column) in row_group.columns().iter().enumerate() {
            assert!(matches!(column.compression(), Compression::ZSTD(_)));
            let (start, length) = column.byte_range();
            assert_eq!(start, end, "columns stand behind each other");
            end = start + length;
            let first = column.dictionary_page_offset();
            let pages = reader.get_row_group(group).unwrap();
            let pages = pages.get_column_page_reader(at).unwrap();
            let pages: Vec<Page> = pages.map(Result::unwrap).collect();
            assert_eq!(first.is_some(), pages[0].is_dictionary_page());
            let data = pages.iter().filter(|page| page.is_data_page());
            let values: u32 = data.clone().map(Page::num_values).sum();
            assert_eq!(i64::from(values), column.num_values());
            let bytes: usize = pages.iter().map(|page| page.buffer().len()).sum();
            let headers = column.uncompressed_size() - bytes as i64;
            assert!(
                (1..=64 * pages.len() as i64).contains(&headers),
                "{headers}"
            );
            let locations = index.offset_index(at).unwrap().page_locations();
            assert_eq!(locations.len(), data.count());
            assert_eq!(locations[0].offset, column.data_page_offset());
            for pair in locations.windows(2) {
                let next = pair[0].offset + i64::from(pair[0].compressed_page_size);
                assert_eq!(next, pair[1].offset);
            }
            let last = locations.last().unwrap();
            assert_eq!(
                last.offset + i64::from(last.compressed_page_size),
                end as i64
            );
        }
    }
}

#[test]
fn pages_of_all_kinds_are_read_as_they_were_written() {
    let shape = shape();
    // The second group is a column's habit, the last has small pages only.
    let groups = [rows(0, 50_000), rows(50_000, 30_000), rows(80_000, 10)];
    let file = written(&shape, zstd(1), &groups);
    check_metadata(&file);
    let expected = rows(0, 80_010);
    same(&read(&file, None), &expected);
    // Single rows, by the places of their pages.
    for row in [0, 19_999, 20_000, 49_999, 50_000, 79_999, 80_009] {
        let selection =
            RowSelection::from_consecutive_ranges(std::iter::once(row..row + 1), 80_010);
        let expected: Vec<_> = expected.iter().map(|column| column.slice(row, 1)).collect();
        same(&read(&file, Some(selection)), &expected);
    }
    let reader = SerializedFileReader::new(file).unwrap();
    let has_dictionary = |at: usize| {
        let columns = reader.metadata().row_group(0).columns();
        columns[at].dictionary_page_offset().is_some()
    };
    assert!(has_dictionary(5) && !has_dictionary(4));
}

#[test]
fn a_dictionary_that_grows_too_large_is_given_up_within_a_column() {
    let fixture = fixture(
        &COLUMNS,
        &["id"],
        &[],
        &[("parquet.enable.dictionary", "true")],
    );
    let shape = Arc::new(FileShape::new(fixture.table.schema(), &[0]).unwrap());
    let rows = rows(0, 60_000);
    let file = written(&shape, zstd(1), std::slice::from_ref(&rows));
    check_metadata(&file);
    same(&read(&file, None), &rows);
    let reader = SerializedFileReader::new(file).unwrap();
    let pages = reader.get_row_group(0).unwrap();
    let pages = pages.get_column_page_reader(4).unwrap();
    let mut encodings: Vec<Encoding> = pages
        .map(Result::unwrap)
        .filter(Page::is_data_page)
        .map(|page| page.encoding())
        .collect();
    encodings.dedup();
    assert_eq!(encodings, [Encoding::RLE_DICTIONARY, Encoding::PLAIN]);
}

#[test]
fn ours_is_no_larger_than_what_the_crate_makes_of_the_same_level() {
    let shape = shape();
    let rows = rows(0, 60_000);
    let ours = written(&shape, zstd(1), std::slice::from_ref(&rows));
    let higher = written(&shape, zstd(2), std::slice::from_ref(&rows));
    let plain = written(
        &shape,
        Compression::UNCOMPRESSED,
        std::slice::from_ref(&rows),
    );
    same(&read(&higher, None), &rows);
    same(&read(&plain, None), &rows);
    check_metadata(&higher);
    assert!(ours.len() < plain.len() * 6 / 10, "{}", ours.len());
    assert!(ours.len() < higher.len() * 11 / 10, "{}", ours.len());
}

#[test]
fn a_header_gets_another_size_and_keeps_the_rest() {
    // Type 0, 300 bytes, 300 compressed, then the header of a data page.
    let rest = [0x2C, 0x15, 0x02, 0x00, 0x00];
    let mut header = vec![NEXT_I32, 0, NEXT_I32, 0xD8, 0x04, NEXT_I32, 0xD8, 0x04];
    header.extend(rest);
    let parsed = Header::parse(&header).unwrap();
    assert_eq!(parsed.page_type, DATA_PAGE);
    let (page, length) = parsed.page(&[7; 63]).unwrap();
    assert_eq!(page[..length][..7], [0x15, 0, 0x15, 0xD8, 0x04, 0x15, 126]);
    assert_eq!(page[7..length], rest);
    assert_eq!(page[length..], [7; 63]);
    let (page, _) = parsed.page(&[7; 64]).unwrap();
    assert_eq!(page[5..8], [0x15, 0x80, 0x01]);
    for cut in 0..8 {
        assert!(Header::parse(&header[..cut]).is_none(), "{cut}");
    }
    assert!(Header::parse(&[0x15, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x15]).is_none());
    assert!(Header::parse(&[0x25, 0, 0x15, 0, 0x15, 0]).is_none());
}

#[test]
fn pages_of_version_2_are_refused() {
    let header = [NEXT_I32, 6, NEXT_I32, 2, NEXT_I32, 2, 0];
    let added = Chunk::default().add(&header, &[1], &Habit::default());
    assert!(added.unwrap_err().to_string().contains("another kind"));
}
