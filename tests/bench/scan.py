"""Reads a table with pypaimon-rust: scan.py WAREHOUSE DATABASE.TABLE. Prints rows, a sum and seconds of the reading."""

import json
import sys
import time

import pyarrow.compute
from pypaimon_rust.datafusion import PaimonCatalog

began = time.monotonic()
table = PaimonCatalog({"warehouse": sys.argv[1]}).get_table(sys.argv[2])
builder = table.new_read_builder()
rows = total = 0
for batch in builder.new_read().read(builder.new_scan().plan().splits()):
    rows += batch.num_rows
    total += pyarrow.compute.sum(batch.column(1)).as_py()  # of numbers below 2^48, so that no batch overflows
total = (total + 2**63) % 2**64 - 2**63  # as the sum of 64-bit numbers wraps
print(json.dumps({"rows": rows, "sum": total, "seconds": round(time.monotonic() - began, 3)}))
