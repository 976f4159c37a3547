//! Spatial values → the text that Flink CDC gives: GeoJSON members and the SRID.
//!
//! Format: SRID in four bytes, then well-known binary. Source: MySQL manual, "Internal Geometry
//! Storage Format". Coordinates stay in storage order.

use std::io::Write;

use super::buffer::{Handled, fault};

/// Nesting of collections that is followed.
const DEPTH_MAX: u32 = 100;

struct Reader<'a> {
    rest: &'a [u8],
    little_endian: bool,
}

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Handled<[u8; N]> {
        match self.rest.split_first_chunk::<N>() {
            Some((head, tail)) => {
                self.rest = tail;
                Ok(*head)
            }
            None => Err(fault("a geometry ends early")),
        }
    }

    fn u32(&mut self) -> Handled<u32> {
        let bytes = self.array()?;
        Ok(if self.little_endian {
            u32::from_le_bytes(bytes)
        } else {
            u32::from_be_bytes(bytes)
        })
    }

    fn f64(&mut self) -> Handled<f64> {
        let bytes = self.array()?;
        Ok(if self.little_endian {
            f64::from_le_bytes(bytes)
        } else {
            f64::from_be_bytes(bytes)
        })
    }

    /// Reads byte order and type of a geometry.
    fn head(&mut self) -> Handled<u32> {
        self.little_endian = match self.array()? {
            [0] => false,
            [1] => true,
            _ => return Err(fault("a geometry of unknown byte order")),
        };
        self.u32()
    }
}

/// Appends the text of a stored geometry: `{"coordinates":[1,2],"type":"Point","srid":0}`,
/// collections with `"geometries"`.
pub(crate) fn write(bytes: &[u8], out: &mut Vec<u8>) -> Handled {
    let mut reader = Reader {
        rest: bytes,
        little_endian: true,
    };
    let srid = reader.u32()?;
    let kind = reader.head()?;
    out.push(b'{');
    let name = write_members(&mut reader, kind, 0, out)?;
    // Writing to a vector cannot fail.
    let _ = write!(out, ",\"type\":\"{name}\",\"srid\":{srid}}}");
    if reader.rest.is_empty() {
        Ok(())
    } else {
        Err(fault("bytes behind a geometry"))
    }
}

/// Writes `"coordinates":…` or `"geometries":…` and gives the type's name.
fn write_members(
    reader: &mut Reader<'_>,
    kind: u32,
    depth: u32,
    out: &mut Vec<u8>,
) -> Handled<&'static str> {
    if depth > DEPTH_MAX {
        return Err(fault("a geometry is nested too deeply"));
    }
    if kind == 7 {
        out.extend_from_slice(b"\"geometries\":[");
        for at in 0..reader.u32()? {
            separate(at, out);
            let kind = reader.head()?;
            out.push(b'{');
            let name = write_members(reader, kind, depth + 1, out)?;
            let _ = write!(out, ",\"type\":\"{name}\"}}");
        }
        out.push(b']');
        return Ok("GeometryCollection");
    }
    out.extend_from_slice(b"\"coordinates\":");
    Ok(match kind {
        1 => {
            write_point(reader, out)?;
            "Point"
        }
        2 => {
            write_list(reader, out, write_point)?;
            "LineString"
        }
        3 => {
            write_polygon(reader, out)?;
            "Polygon"
        }
        4 => {
            write_parts(reader, out, 1, write_point)?;
            "MultiPoint"
        }
        5 => {
            write_parts(reader, out, 2, |reader, out| {
                write_list(reader, out, write_point)
            })?;
            "MultiLineString"
        }
        6 => {
            write_parts(reader, out, 3, write_polygon)?;
            "MultiPolygon"
        }
        _ => return Err(fault(format!("geometry type {kind} is not known"))),
    })
}

fn separate(at: u32, out: &mut Vec<u8>) {
    if at > 0 {
        out.push(b',');
    }
}

fn write_point(reader: &mut Reader<'_>, out: &mut Vec<u8>) -> Handled {
    let (x, y) = (reader.f64()?, reader.f64()?);
    let _ = write!(out, "[{x},{y}]");
    Ok(())
}

fn write_polygon(reader: &mut Reader<'_>, out: &mut Vec<u8>) -> Handled {
    write_list(reader, out, |reader, out| {
        write_list(reader, out, write_point)
    })
}

/// Writes a counted list.
fn write_list(
    reader: &mut Reader<'_>,
    out: &mut Vec<u8>,
    item: fn(&mut Reader<'_>, &mut Vec<u8>) -> Handled,
) -> Handled {
    out.push(b'[');
    for at in 0..reader.u32()? {
        separate(at, out);
        item(reader, out)?;
    }
    out.push(b']');
    Ok(())
}

/// Writes a counted list of whole geometries of one type.
fn write_parts(
    reader: &mut Reader<'_>,
    out: &mut Vec<u8>,
    kind: u32,
    item: fn(&mut Reader<'_>, &mut Vec<u8>) -> Handled,
) -> Handled {
    out.push(b'[');
    for at in 0..reader.u32()? {
        separate(at, out);
        if reader.head()? != kind {
            return Err(fault("a geometry holds a part of another type"));
        }
        item(reader, out)?;
    }
    out.push(b']');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(x: f64, y: f64) -> Vec<u8> {
        let mut bytes = vec![1, 1, 0, 0, 0];
        bytes.extend(x.to_le_bytes());
        bytes.extend(y.to_le_bytes());
        bytes
    }

    fn text(bytes: &[u8]) -> Handled<String> {
        let mut out = Vec::new();
        write(bytes, &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn point_and_collection_keep_type_coordinates_and_srid() {
        let stored = [&4326_u32.to_le_bytes()[..], &point(1.0, 2.5)].concat();
        let right = r#"{"coordinates":[1,2.5],"type":"Point","srid":4326}"#;
        assert_eq!(text(&stored).unwrap(), right);
        let head = [0, 0, 0, 0, 1, 7, 0, 0, 0, 1, 0, 0, 0];
        let stored = [&head[..], &point(-1.0, 0.0)].concat();
        let right = r#"{"geometries":[{"coordinates":[-1,0],"type":"Point"}],"type":"GeometryCollection","srid":0}"#;
        assert_eq!(text(&stored).unwrap(), right);
    }

    #[test]
    fn every_cut_is_refused() {
        let stored = [&0_u32.to_le_bytes()[..], &point(1.0, 2.0)].concat();
        for length in 0..stored.len() {
            assert!(text(&stored[..length]).is_err());
        }
        assert!(text(&[&stored[..], &[0]].concat()).is_err());
        let huge = [0, 0, 0, 0, 1, 2, 0, 0, 0, 255, 255, 255, 255];
        assert!(text(&huge).is_err());
    }
}
