"""Reads Paimon tables with pypaimon (pure Python) or pypaimon-rust into canonical JSON lines, those of oracle/src/Row.java.

    read.py [--reader python|rust] [--hash] WAREHOUSE DB.TABLE…

For each table a line `# DB.TABLE COUNT HASH`, then (without --hash) its rows, sorted. HASH is the wrapping sum of the
FNV-1a hashes of the lines.
"""

import argparse
import base64
import glob
import json
import math
import os
import re
import sys
from decimal import Decimal

import numpy
import pyarrow

quote = json.JSONEncoder(ensure_ascii=False).encode


def newest_fields(warehouse, database, table):
    paths = glob.glob(os.path.join(warehouse, database + ".db", table, "schema", "schema-*"))
    with open(max(paths, key=lambda path: int(path.rsplit("-", 1)[1])), encoding="utf-8") as file:
        return [(field["name"], field["type"]) for field in json.load(file)["fields"]]


def number(text):
    """`12.5` or `1e-7` as its digits in the form `1.25e1`."""
    sign, digits, exponent = Decimal(text).as_tuple()
    digits = "".join(map(str, digits))
    exponent += len(digits) - 1
    digits = digits.rstrip("0") or "0"
    if digits == "0":
        exponent = 0
    return f"{'-' if sign else ''}{digits[0]}{'.' if len(digits) > 1 else ''}{digits[1:]}e{exponent}"


def floating(value, single):
    if math.isnan(value):
        return '"NaN"'
    if math.isinf(value):
        return '"Infinity"' if value > 0 else '"-Infinity"'
    return number(str(numpy.float32(value)) if single else repr(value))


def clock(value, digits):
    text = value.strftime("%H:%M:%S")
    return f"{text}.{value.microsecond:06d}"[: 9 + digits] if digits else text


def formatter(kind):
    """A function from a Python value to canonical text, for a type as schema files have it."""
    if isinstance(kind, dict):
        root = kind["type"].split(" ")[0]
        if root == "ARRAY":
            element = nullable(formatter(kind["element"]))
            return lambda value: "[" + ",".join(map(element, value)) + "]"
        if root == "MAP":
            key, item = nullable(formatter(kind["key"])), nullable(formatter(kind["value"]))
            return lambda value: "[" + ",".join(sorted(f"[{key(k)},{item(v)}]" for k, v in value)) + "]"
        if root == "ROW":
            fields = [(field["name"], nullable(formatter(field["type"]))) for field in kind["fields"]]
            return lambda value: "{" + ",".join(f"{quote(n)}:{f(value[n])}" for n, f in fields) + "}"
    match = re.match(r"([A-Z]+)(?:\((\d+)(?:, ?(\d+))?\))?( WITH LOCAL TIME ZONE)?", kind)
    root, first, scale, local = match[1], match[2], match[3], match[4]
    if root in ("TINYINT", "SMALLINT", "INT", "BIGINT"):
        return str
    if root == "BOOLEAN":
        return lambda value: "true" if value else "false"
    if root in ("FLOAT", "DOUBLE"):
        return lambda value: floating(value, root == "FLOAT")
    if root in ("CHAR", "VARCHAR", "STRING"):
        return quote
    if root == "DECIMAL":
        return lambda value: f'"{value:.{int(scale or 0)}f}"'
    if root in ("BINARY", "VARBINARY", "BYTES"):
        return lambda value: f'"{base64.b64encode(value).decode()}"'
    if root == "DATE":
        return lambda value: f'"{value.isoformat()}"'
    if root == "TIME":
        digits = min(3, int(first or 0))
        return lambda value: f'"{clock(value, digits)}"'
    if root == "TIMESTAMP":
        digits = int(first or 6)
        return lambda value: f'"{value.date().isoformat()} {clock(value, digits)}{"Z" if local else ""}"'
    raise ValueError(f"no text for type {kind}")


def nullable(form):
    return lambda value: "null" if value is None else form(value)


def values(column):
    """Python values; timestamps to the microsecond, in UTC."""
    if pyarrow.types.is_timestamp(column.type):
        column = column.cast(pyarrow.timestamp("us", column.type.tz), safe=False)
        if column.type.tz:
            column = column.cast(pyarrow.timestamp("us", "UTC")).cast(pyarrow.timestamp("us"))
    return column.to_pylist()


def lines(table, fields):
    columns = [(quote(name), nullable(formatter(kind)), values(table.column(name))) for name, kind in fields]
    heads = [("," if i else "{") + name + ":" for i, (name, _, _) in enumerate(columns)]
    texts = [[form(value) for value in items] for _, form, items in columns]
    return ["".join(head + text for head, text in zip(heads, row)) + "}" for row in zip(*texts)]


def read_python(warehouse, name):
    from pypaimon import CatalogFactory

    table = CatalogFactory.create({"warehouse": warehouse}).get_table(name)
    builder = table.new_read_builder()
    splits = builder.new_scan().plan().splits()
    return builder.new_read().to_arrow(splits)


def read_rust(warehouse, name):
    from pypaimon_rust.datafusion import PaimonCatalog

    table = PaimonCatalog({"warehouse": warehouse}).get_table(name)
    builder = table.new_read_builder()
    batches = builder.new_read().read(builder.new_scan().plan().splits())
    return pyarrow.Table.from_batches(batches) if batches else None


def fnv(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--reader", choices=["python", "rust"], default="python")
    parser.add_argument("--hash", action="store_true")
    parser.add_argument("warehouse")
    parser.add_argument("tables", nargs="+")
    args = parser.parse_args()
    read = read_python if args.reader == "python" else read_rust
    out = sys.stdout.buffer
    for name in args.tables:
        data = read(args.warehouse, name)
        rows = lines(data, newest_fields(args.warehouse, *name.split(".", 1))) if data is not None and data.num_rows else []
        rows = sorted(row.encode() for row in rows)
        total = sum(map(fnv, rows)) & 0xFFFFFFFFFFFFFFFF if args.hash else 0
        out.write(f"# {name} {len(rows)} {total:016x}\n".encode())
        if not args.hash:
            out.writelines(row + b"\n" for row in rows)


if __name__ == "__main__":
    main()
