//! Columns under construction: plain vectors that become Arrow arrays without a copy, and that can
//! be cut back to an earlier row when an event turns out to be damaged.

use std::{borrow::Cow, sync::Arc};

use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array,
    Int8Array, Int16Array, Int32Array, Int64Array, ListArray, StringArray, Time32MillisecondArray,
    TimestampMicrosecondArray, TimestampMillisecondArray,
};
use arrow_buffer::{
    BooleanBufferBuilder, Buffer, NullBuffer, NullBufferBuilder, OffsetBuffer, ScalarBuffer,
};
use arrow_schema::{DataType as ArrowType, Field, TimeUnit};

use super::temporal;
use crate::schema::DataType;

/// What is wrong with a value; the caller adds table and column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) message: Cow<'static, str>,
    pub(crate) advice: Option<&'static str>,
}

/// Result of handling one value. Boxed, so that the good path stays in registers.
pub(crate) type Handled<T = ()> = Result<T, Box<Fault>>;

/// What is said of a NULL where there can be none: of the server's own rows, that the column is
/// another one now.
pub(crate) const NULL_IN_NOT_NULL: &str = "NULL in a column that is NOT NULL";

/// A fault without advice.
#[cold]
pub(crate) fn fault(message: impl Into<Cow<'static, str>>) -> Box<Fault> {
    Box::new(Fault {
        message: message.into(),
        advice: None,
    })
}

/// A fault and what to do about it.
#[cold]
pub(crate) fn advised(message: impl Into<Cow<'static, str>>, advice: &'static str) -> Box<Fault> {
    Box::new(Fault {
        message: message.into(),
        advice: Some(advice),
    })
}

#[cold]
fn misfit() -> Box<Fault> {
    fault("the value does not fit the column's type in the lake")
}

/// Rows and bytes that room is made for ahead, at most.
const ROWS_AHEAD: usize = 1 << 16;
const BYTES_AHEAD: usize = 8 << 20;

#[derive(Debug)]
enum Values {
    Bool(BooleanBufferBuilder),
    I8(Vec<i8>),
    I16(Vec<i16>),
    I32(Vec<i32>),
    I64(Vec<i64>),
    I128(Vec<i128>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    Bytes(Bytes),
    TextLists { lists: Vec<i32>, items: Bytes },
    FloatLists { lists: Vec<i32>, items: Vec<f32> },
}

/// Values of any length, back to back, with the end of each.
#[derive(Debug)]
struct Bytes {
    ends: Vec<i32>,
    data: Vec<u8>,
}

impl Bytes {
    fn new() -> Self {
        Self {
            ends: vec![0],
            data: Vec::new(),
        }
    }

    /// Marks the end of the value that `data` now ends with.
    fn close(&mut self) -> Handled {
        match i32::try_from(self.data.len()) {
            Ok(end) => {
                self.ends.push(end);
                Ok(())
            }
            Err(_) => Err(fault("a batch of more than 2 GiB in one column")),
        }
    }

    fn last_end(&self) -> usize {
        self.ends.last().map_or(0, |end| *end as usize)
    }

    fn truncate(&mut self, values: usize) {
        self.ends.truncate(values + 1);
        self.data.truncate(self.last_end());
    }

    fn take(&mut self) -> (OffsetBuffer<i32>, Vec<u8>) {
        let taken = std::mem::replace(self, Self::new());
        (
            OffsetBuffer::new(ScalarBuffer::from(taken.ends)),
            taken.data,
        )
    }
}

/// One column under construction.
#[derive(Debug)]
pub(crate) struct ColumnBuffer {
    arrow: ArrowType,
    scale: u32,
    nullable: bool,
    /// Values of a key must stay one-to-one: nothing is replaced in it.
    key: bool,
    nulls: NullBufferBuilder,
    values: Values,
    rows: usize,
    /// Dates that are none, given as NULL or as the epoch.
    zero_dates: u64,
    /// Rows and bytes of the last batch, for [`Self::prepare`].
    last: (usize, usize),
}

impl ColumnBuffer {
    pub(crate) fn new(lake: &DataType, nullable: bool, key: bool) -> Self {
        let values = match lake {
            DataType::Boolean => Values::Bool(BooleanBufferBuilder::new(0)),
            DataType::TinyInt => Values::I8(Vec::new()),
            DataType::SmallInt => Values::I16(Vec::new()),
            DataType::Int | DataType::Date | DataType::Time(_) => Values::I32(Vec::new()),
            DataType::BigInt | DataType::Timestamp(_) | DataType::TimestampLtz(_) => {
                Values::I64(Vec::new())
            }
            DataType::Decimal(..) => Values::I128(Vec::new()),
            DataType::Float => Values::F32(Vec::new()),
            DataType::Double => Values::F64(Vec::new()),
            DataType::Char(_)
            | DataType::VarChar(_)
            | DataType::String
            | DataType::Binary(_)
            | DataType::VarBinary(_)
            | DataType::Bytes => Values::Bytes(Bytes::new()),
            DataType::Array(item) if **item == DataType::Float => Values::FloatLists {
                lists: vec![0],
                items: Vec::new(),
            },
            DataType::Array(_) => Values::TextLists {
                lists: vec![0],
                items: Bytes::new(),
            },
        };
        Self {
            arrow: lake.arrow(),
            scale: match lake {
                DataType::Decimal(_, scale) => u32::from(*scale),
                _ => 0,
            },
            nullable,
            key,
            nulls: NullBufferBuilder::new(0),
            values,
            rows: 0,
            zero_dates: 0,
            last: (0, 0),
        }
    }

    pub(crate) fn is_key(&self) -> bool {
        self.key
    }

    /// Dates that are none, since they were last taken.
    pub(crate) fn zero_dates(&self) -> u64 {
        self.zero_dates
    }

    /// Takes their number.
    pub(crate) fn take_zero_dates(&mut self) -> u64 {
        std::mem::take(&mut self.zero_dates)
    }

    fn done(&mut self) -> Handled {
        self.nulls.append_non_null();
        self.rows += 1;
        Ok(())
    }

    pub(crate) fn push_null(&mut self) -> Handled {
        if !self.nullable {
            return Err(fault(NULL_IN_NOT_NULL));
        }
        match &mut self.values {
            Values::Bool(values) => values.append(false),
            Values::I8(values) => values.push(0),
            Values::I16(values) => values.push(0),
            Values::I32(values) => values.push(0),
            Values::I64(values) => values.push(0),
            Values::I128(values) => values.push(0),
            Values::F32(values) => values.push(0.0),
            Values::F64(values) => values.push(0.0),
            Values::Bytes(values) => values.close()?,
            Values::TextLists { lists, .. } | Values::FloatLists { lists, .. } => {
                let end = lists.last().copied().unwrap_or(0);
                lists.push(end);
            }
        }
        self.nulls.append_null();
        self.rows += 1;
        Ok(())
    }

    #[inline]
    pub(crate) fn push_int(&mut self, value: i64) -> Handled {
        match &mut self.values {
            Values::Bool(values) => values.append(value != 0),
            Values::I8(values) => values.push(i8::try_from(value).map_err(|_| misfit())?),
            Values::I16(values) => values.push(i16::try_from(value).map_err(|_| misfit())?),
            Values::I32(values) => values.push(i32::try_from(value).map_err(|_| misfit())?),
            Values::I64(values) => values.push(value),
            Values::I128(values) if self.scale == 0 => values.push(i128::from(value)),
            _ => return Err(misfit()),
        }
        self.done()
    }

    #[inline]
    pub(crate) fn push_uint(&mut self, value: u64) -> Handled {
        match (&mut self.values, i64::try_from(value)) {
            (_, Ok(value)) => return self.push_int(value),
            (Values::Bool(values), _) => values.append(true),
            (Values::I128(values), _) if self.scale == 0 => values.push(i128::from(value)),
            _ => return Err(misfit()),
        }
        self.done()
    }

    #[inline]
    pub(crate) fn push_float(&mut self, value: f32) -> Handled {
        match &mut self.values {
            Values::F32(values) => values.push(value),
            Values::F64(values) => values.push(f64::from(value)),
            _ => return Err(misfit()),
        }
        self.done()
    }

    #[inline]
    pub(crate) fn push_double(&mut self, value: f64) -> Handled {
        match &mut self.values {
            Values::F64(values) => values.push(value),
            _ => return Err(misfit()),
        }
        self.done()
    }

    /// A decimal at the column's own scale.
    #[inline]
    pub(crate) fn push_decimal(&mut self, unscaled: i128) -> Handled {
        match &mut self.values {
            Values::I128(values) => values.push(unscaled),
            _ => return Err(misfit()),
        }
        self.done()
    }

    /// A value of any length, written by `write`, which may leave bytes behind when it fails.
    #[inline]
    pub(crate) fn push_with(&mut self, write: impl FnOnce(&mut Vec<u8>) -> Handled) -> Handled {
        let Values::Bytes(values) = &mut self.values else {
            return Err(misfit());
        };
        write(&mut values.data)?;
        values.close()?;
        self.done()
    }

    #[inline]
    pub(crate) fn push_bytes(&mut self, bytes: &[u8]) -> Handled {
        self.push_with(|out| {
            out.extend_from_slice(bytes);
            Ok(())
        })
    }

    /// Labels hold no commas, so that the text is one-to-one but for an empty label.
    fn push_joined(&mut self, labels: &[Box<str>], bits: u64) -> Handled {
        if labels.iter().any(|label| label.is_empty()) {
            return Err(fault("a SET with an empty label cannot be a key"));
        }
        self.push_with(|out| {
            let set = labels
                .iter()
                .enumerate()
                .filter(|(at, _)| bits >> at & 1 == 1);
            for (number, (_, label)) in set.enumerate() {
                if number > 0 {
                    out.push(b',');
                }
                out.extend_from_slice(label.as_bytes());
            }
            Ok(())
        })
    }

    /// A list of the labels whose bits are set; in a key column the server's text, with commas.
    pub(crate) fn push_labels(&mut self, labels: &[Box<str>], bits: u64) -> Handled {
        if labels.len() < 64 && bits >> labels.len() != 0 {
            return Err(fault(format!("SET value {bits} has bits without a label")));
        }
        if matches!(self.values, Values::Bytes(_)) {
            return self.push_joined(labels, bits);
        }
        let Values::TextLists { lists, items } = &mut self.values else {
            return Err(misfit());
        };
        for (at, label) in labels.iter().enumerate() {
            if bits >> at & 1 == 1 {
                items.data.extend_from_slice(label.as_bytes());
                items.close()?;
            }
        }
        let end = i32::try_from(items.ends.len() - 1).map_err(|_| misfit())?;
        lists.push(end);
        self.done()
    }

    /// A list of little-endian binary32 numbers.
    pub(crate) fn push_floats(&mut self, bytes: &[u8]) -> Handled {
        let Values::FloatLists { lists, items } = &mut self.values else {
            return Err(misfit());
        };
        let (numbers, rest) = bytes.as_chunks::<4>();
        if !rest.is_empty() {
            return Err(fault("a vector whose length is not a multiple of 4"));
        }
        items.extend(numbers.iter().map(|number| f32::from_le_bytes(*number)));
        let end = i32::try_from(items.len()).map_err(|_| misfit())?;
        lists.push(end);
        self.done()
    }

    /// A date; one that is none becomes NULL or the epoch.
    #[inline]
    pub(crate) fn push_date(&mut self, year: u32, month: u32, day: u32) -> Handled {
        match temporal::days(year, month, day) {
            Some(days) => self.push_int(i64::from(days)),
            None => self.push_zero_date(),
        }
    }

    /// A date that is none: all zero, with zero parts, or not in the calendar.
    #[cold]
    pub(crate) fn push_zero_date(&mut self) -> Handled {
        if self.key {
            return Err(advised(
                "a zero date in a key column",
                "Give the row a real date, or leave the table out",
            ));
        }
        self.zero_dates += 1;
        if self.nullable {
            self.push_null()
        } else {
            self.push_int(0)
        }
    }

    /// Microseconds since the epoch, kept in the column's own unit.
    #[inline]
    pub(crate) fn push_timestamp(&mut self, micros: i64) -> Handled {
        match self.arrow {
            ArrowType::Timestamp(TimeUnit::Millisecond, _) => {
                self.push_int(micros.div_euclid(1000))
            }
            ArrowType::Timestamp(TimeUnit::Microsecond, _) => self.push_int(micros),
            _ => Err(misfit()),
        }
    }

    /// Cuts back to the first `rows` rows.
    pub(crate) fn truncate(&mut self, rows: usize) {
        self.nulls.truncate(rows);
        self.rows = rows.min(self.rows);
        match &mut self.values {
            Values::Bool(values) => values.truncate(rows),
            Values::I8(values) => values.truncate(rows),
            Values::I16(values) => values.truncate(rows),
            Values::I32(values) => values.truncate(rows),
            Values::I64(values) => values.truncate(rows),
            Values::I128(values) => values.truncate(rows),
            Values::F32(values) => values.truncate(rows),
            Values::F64(values) => values.truncate(rows),
            Values::Bytes(values) => values.truncate(rows),
            Values::TextLists { lists, items } => {
                lists.truncate(rows + 1);
                items.truncate(lists.last().map_or(0, |end| *end as usize));
            }
            Values::FloatLists { lists, items } => {
                lists.truncate(rows + 1);
                items.truncate(lists.last().map_or(0, |end| *end as usize));
            }
        }
    }

    /// Bytes of memory that the values take.
    pub(crate) fn bytes(&self) -> usize {
        let rows = self.rows;
        match &self.values {
            Values::Bool(_) => rows / 8,
            Values::I8(_) => rows,
            Values::I16(_) => rows * 2,
            Values::I32(_) | Values::F32(_) => rows * 4,
            Values::I64(_) | Values::F64(_) => rows * 8,
            Values::I128(_) => rows * 16,
            Values::Bytes(values) => rows * 4 + values.data.len(),
            Values::TextLists { items, .. } => rows * 4 + items.ends.len() * 4 + items.data.len(),
            Values::FloatLists { items, .. } => rows * 4 + items.len() * 4,
        }
    }

    /// Makes room for as much as the last batch had. Called before the first row of a batch, so
    /// that a buffer without rows takes no memory.
    pub(crate) fn prepare(&mut self) {
        let (rows, bytes) = self.last;
        match &mut self.values {
            Values::Bool(values) => values.reserve(rows),
            Values::I8(values) => values.reserve(rows),
            Values::I16(values) => values.reserve(rows),
            Values::I32(values) => values.reserve(rows),
            Values::I64(values) => values.reserve(rows),
            Values::I128(values) => values.reserve(rows),
            Values::F32(values) => values.reserve(rows),
            Values::F64(values) => values.reserve(rows),
            Values::Bytes(values) => {
                values.ends.reserve(rows);
                values.data.reserve(bytes);
            }
            Values::TextLists { lists, .. } | Values::FloatLists { lists, .. } => {
                lists.reserve(rows);
            }
        }
    }

    /// The array of everything pushed; the buffer is empty again.
    pub(crate) fn take(&mut self) -> Result<ArrayRef, arrow_schema::ArrowError> {
        let bytes = match &self.values {
            Values::Bytes(values) => values.data.len(),
            _ => 0,
        };
        // One huge batch must not make every later one as large.
        // A little more than before: batches differ, and a vector that is too small doubles.
        let ahead = |last: usize, most: usize| (last + last / 32 + 64).min(most);
        self.last = (ahead(self.rows, ROWS_AHEAD), ahead(bytes, BYTES_AHEAD));
        self.rows = 0;
        let nulls = self.nulls.finish();
        Ok(match &mut self.values {
            Values::Bool(values) => {
                let values = std::mem::replace(values, BooleanBufferBuilder::new(0));
                Arc::new(BooleanArray::new(values.build(), nulls))
            }
            Values::I8(values) => Arc::new(Int8Array::try_new(swap(values), nulls)?),
            Values::I16(values) => Arc::new(Int16Array::try_new(swap(values), nulls)?),
            Values::I32(values) => take_i32(&self.arrow, swap(values), nulls)?,
            Values::I64(values) => take_i64(&self.arrow, swap(values), nulls)?,
            Values::I128(values) => Arc::new(
                Decimal128Array::try_new(swap(values), nulls)?.with_data_type(self.arrow.clone()),
            ),
            Values::F32(values) => Arc::new(Float32Array::try_new(swap(values), nulls)?),
            Values::F64(values) => Arc::new(Float64Array::try_new(swap(values), nulls)?),
            Values::Bytes(values) => {
                let (offsets, data) = values.take();
                let data = Buffer::from_vec(data);
                match self.arrow {
                    ArrowType::Utf8 => Arc::new(StringArray::try_new(offsets, data, nulls)?),
                    _ => Arc::new(BinaryArray::try_new(offsets, data, nulls)?),
                }
            }
            Values::TextLists { lists, items } => {
                let (offsets, data) = items.take();
                let items = StringArray::try_new(offsets, Buffer::from_vec(data), None)?;
                take_list(lists, Arc::new(items), nulls)?
            }
            Values::FloatLists { lists, items } => {
                let items = Float32Array::try_new(swap(items), None)?;
                take_list(lists, Arc::new(items), nulls)?
            }
        })
    }
}

/// The vector's values as a buffer; the vector is empty again.
fn swap<T: arrow_buffer::ArrowNativeType>(values: &mut Vec<T>) -> ScalarBuffer<T> {
    ScalarBuffer::from(std::mem::take(values))
}

fn take_i32(
    arrow: &ArrowType,
    values: ScalarBuffer<i32>,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, arrow_schema::ArrowError> {
    Ok(match arrow {
        ArrowType::Date32 => Arc::new(Date32Array::try_new(values, nulls)?),
        ArrowType::Time32(_) => Arc::new(Time32MillisecondArray::try_new(values, nulls)?),
        _ => Arc::new(Int32Array::try_new(values, nulls)?),
    })
}

fn take_i64(
    arrow: &ArrowType,
    values: ScalarBuffer<i64>,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, arrow_schema::ArrowError> {
    Ok(match arrow {
        ArrowType::Timestamp(TimeUnit::Millisecond, zone) => Arc::new(
            TimestampMillisecondArray::try_new(values, nulls)?.with_timezone_opt(zone.clone()),
        ),
        ArrowType::Timestamp(_, zone) => Arc::new(
            TimestampMicrosecondArray::try_new(values, nulls)?.with_timezone_opt(zone.clone()),
        ),
        _ => Arc::new(Int64Array::try_new(values, nulls)?),
    })
}

fn take_list(
    lists: &mut Vec<i32>,
    items: ArrayRef,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, arrow_schema::ArrowError> {
    let lists = std::mem::replace(lists, vec![0]);
    let field = Arc::new(Field::new("element", items.data_type().clone(), true));
    let offsets = OffsetBuffer::new(ScalarBuffer::from(lists));
    Ok(Arc::new(ListArray::try_new(field, offsets, items, nulls)?))
}
