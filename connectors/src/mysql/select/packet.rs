//! Rows as they stand in packets → columns.

use mysql_async::Column;

use super::{SelectBuilder, SelectPlan, located, push};
use crate::{
    error::{Error, Result},
    mysql::{
        buffer::{ColumnBuffer, Fault},
        charset::Charset,
        codec::{self, Codec},
        decimal,
        temporal::Moment,
        wire::{Cell, Damaged, Wire, fixed, read_bytes, read_date},
    },
    schema::TableName,
};

/// How the rows of one statement are read: made from the columns that its result begins with.
#[derive(Debug)]
pub(in crate::mysql) struct PacketPlan {
    /// One for each column of the table.
    steps: Vec<Step>,
    /// One for each column of the statement, which may have more behind them.
    wires: Vec<Wire>,
    table: TableName,
}

/// What is done with a value, type and codec looked at once. Values of the commonest columns take
/// the short way, all others become a [`Cell`] first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    I32,
    I64,
    F32,
    F64,
    Utf8,
    Decimal(u8),
    Date,
    Moment,
    Any(Wire),
}

impl Step {
    fn new(codec: &Codec, wire: Wire) -> Self {
        match (codec, wire) {
            (Codec::Int { .. }, Wire::I32) => Self::I32,
            (Codec::Int { .. }, Wire::I64) => Self::I64,
            (Codec::Float, Wire::F32) => Self::F32,
            (Codec::Double, Wire::F64) => Self::F64,
            (Codec::Text(Charset::Utf8), Wire::Bytes) => Self::Utf8,
            (
                Codec::Decimal {
                    scale, text: false, ..
                },
                Wire::Bytes,
            ) => Self::Decimal(*scale),
            (Codec::Date, Wire::Date) => Self::Date,
            (Codec::DateTime { .. } | Codec::Timestamp { .. }, Wire::Date) => Self::Moment,
            _ => Self::Any(wire),
        }
    }

    /// Appends the value that `rest` starts with.
    #[inline]
    fn push<'a>(
        self,
        codec: impl FnOnce() -> Option<&'a Codec>,
        rest: &mut &[u8],
        buffer: &mut ColumnBuffer,
    ) -> Result<(), Trouble> {
        match self {
            Self::I32 => buffer.push_int(i64::from(i32::from_le_bytes(fixed(rest)?)))?,
            Self::I64 => buffer.push_int(i64::from_le_bytes(fixed(rest)?))?,
            Self::F32 => buffer.push_float(f32::from_le_bytes(fixed(rest)?))?,
            Self::F64 => buffer.push_double(f64::from_le_bytes(fixed(rest)?))?,
            Self::Utf8 => {
                let text = read_bytes(rest)?;
                if !is_ascii(text) {
                    return Ok(codec::push_text(&Charset::Utf8, text, buffer)?);
                }
                buffer.push_bytes(text)?;
            }
            Self::Decimal(scale) => {
                let unscaled = decimal::parse_unscaled(read_bytes(rest)?, scale)?;
                buffer.push_decimal(unscaled)?;
            }
            Self::Date => {
                let (year, month, day) = match **rest {
                    [4, y, z, month, day, ref tail @ ..] => {
                        *rest = tail;
                        (u16::from_le_bytes([y, z]), month, day)
                    }
                    _ => {
                        let (year, month, day, ..) = read_date(rest)?;
                        (year, month, day)
                    }
                };
                buffer.push_date(year.into(), month.into(), day.into())?;
            }
            Self::Moment => {
                let (year, month, day, hour, minute, second, micros) = read_date(rest)?;
                let moment = Moment {
                    year: year.into(),
                    month: month.into(),
                    day: day.into(),
                    hour: hour.into(),
                    minute: minute.into(),
                    second: second.into(),
                    micros,
                };
                codec::push_moment(&moment, buffer)?;
            }
            Self::Any(wire) => {
                let codec = codec().ok_or(Damaged)?;
                push(codec, wire.read(rest)?, buffer)?;
            }
        }
        Ok(())
    }
}

/// Whether a text is ASCII, by as few steps as there are: most are, and short.
#[inline]
fn is_ascii(text: &[u8]) -> bool {
    const HIGH: u128 = 0x8080_8080_8080_8080_8080_8080_8080_8080;
    let ends = if let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) {
        let (chunks, _) = text.as_chunks::<16>();
        let all = chunks
            .iter()
            .fold(0, |all, chunk| all | u128::from_ne_bytes(*chunk));
        all | u128::from_ne_bytes(*first) | u128::from_ne_bytes(*last)
    } else if let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) {
        u128::from(u64::from_ne_bytes(*first) | u64::from_ne_bytes(*last))
    } else if let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) {
        u128::from(u32::from_ne_bytes(*first) | u32::from_ne_bytes(*last))
    } else {
        text.iter().fold(0, |all, byte| all | u128::from(*byte))
    };
    ends & HIGH == 0
}

/// Why a value is not appended.
enum Trouble {
    Damaged,
    Fault(Box<Fault>),
}

impl From<Damaged> for Trouble {
    fn from(_: Damaged) -> Self {
        Self::Damaged
    }
}

impl From<Box<Fault>> for Trouble {
    fn from(fault: Box<Fault>) -> Self {
        Self::Fault(fault)
    }
}

/// The NULL bits of a row and its values, behind a first byte of 0.
#[inline]
fn split(packet: &[u8], columns: usize) -> Result<(&[u8], &[u8]), Damaged> {
    match packet.split_first() {
        // Two bits are left free.
        Some((0, rest)) => rest.split_at_checked((columns + 9) / 8).ok_or(Damaged),
        _ => Err(Damaged),
    }
}

#[inline]
fn is_null(nulls: &[u8], column: usize) -> bool {
    let bit = column + 2;
    nulls
        .get(bit / 8)
        .is_some_and(|byte| byte >> (bit % 8) & 1 == 1)
}

impl SelectPlan {
    /// How rows with these columns are read: those of [`Self::columns_sql`], and maybe others
    /// behind them.
    ///
    /// # Errors
    /// Definite when there are too few columns, or a type that no row may have.
    pub(in crate::mysql) fn for_packets(&self, columns: &[Column]) -> Result<PacketPlan> {
        let table = &self.inner.table;
        let wires = columns.iter().map(|column| {
            Wire::of(column).ok_or_else(|| {
                let kind = column.column_type();
                Error::definite(format!("the server sends a column of type {kind:?}"))
                    .table(&table.name)
                    .column(column.name_str())
            })
        });
        let wires = wires.collect::<Result<Vec<_>>>()?;
        let codecs = &self.inner.codecs;
        if wires.len() < codecs.len() {
            return Err(Error::definite(format!(
                "a row has {} columns instead of {}",
                wires.len(),
                codecs.len()
            ))
            .table(&table.name));
        }
        Ok(PacketPlan {
            steps: codecs
                .iter()
                .zip(&wires)
                .map(|(codec, wire)| Step::new(codec, *wire))
                .collect(),
            wires,
            table: table.name.clone(),
        })
    }
}

impl PacketPlan {
    /// Number of columns.
    pub(in crate::mysql) fn columns(&self) -> usize {
        self.wires.len()
    }

    /// All values of a row.
    ///
    /// # Errors
    /// Transient when the row is damaged.
    pub(in crate::mysql) fn cells<'a>(&self, packet: &'a [u8]) -> Result<Vec<Cell<'a>>> {
        let cells = || {
            let (nulls, mut rest) = split(packet, self.wires.len())?;
            let wires = self.wires.iter().enumerate();
            wires
                .map(|(at, wire)| match is_null(nulls, at) {
                    true => Ok(Cell::Null),
                    false => wire.read(&mut rest),
                })
                .collect::<Result<Vec<_>, Damaged>>()
        };
        cells().map_err(|Damaged| self.damaged())
    }

    #[cold]
    fn damaged(&self) -> Error {
        Error::transient("a row came damaged from the server").table(&self.table)
    }
}

impl SelectBuilder {
    /// Appends the row of a packet, as [`Self::push`] does.
    ///
    /// # Errors
    /// Definite when a value cannot be carried exactly, and names table and column; transient when
    /// the row is damaged.
    pub(in crate::mysql) fn push_packet(&mut self, plan: &PacketPlan, packet: &[u8]) -> Result<()> {
        if self.rows == 0 {
            self.buffers.iter_mut().for_each(ColumnBuffer::prepare);
        }
        let Ok((nulls, mut rest)) = split(packet, plan.wires.len()) else {
            return Err(plan.damaged());
        };
        let any_null = nulls.iter().any(|byte| *byte != 0);
        let codecs = &self.inner.codecs;
        for (at, (step, buffer)) in plan.steps.iter().zip(&mut self.buffers).enumerate() {
            let pushed = match any_null && is_null(nulls, at) {
                true => buffer.push_null().map_err(Trouble::from),
                false => step.push(|| codecs.get(at), &mut rest, buffer),
            };
            if let Err(trouble) = pushed {
                return Err(self.troubled(plan, at, trouble));
            }
        }
        for (at, wire) in plan.wires.iter().enumerate().skip(plan.steps.len()) {
            if !is_null(nulls, at) && wire.read(&mut rest).is_err() {
                return Err(self.troubled(plan, at, Trouble::Damaged));
            }
        }
        if !rest.is_empty() {
            return Err(self.troubled(plan, 0, Trouble::Damaged));
        }
        self.rows += 1;
        Ok(())
    }

    #[cold]
    fn troubled(&mut self, plan: &PacketPlan, column: usize, trouble: Trouble) -> Error {
        self.cut_back();
        match trouble {
            Trouble::Damaged => plan.damaged(),
            Trouble::Fault(fault) => located(&self.inner.table, column, *fault),
        }
    }
}

#[cfg(test)]
mod tests;
