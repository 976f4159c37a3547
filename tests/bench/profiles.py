#!/usr/bin/env python3
"""Where the CPU time goes, by part of the program.

  BENCH_PERF=1 run.py snapshots   also samples every run of the program with perf, into target/bench/perf/NAME-NUMBER.data
  profiles.py FILE…               prints the share of each part, and the heaviest functions

A sample is of the function that runs, whoever called it: a function that was inlined counts for the one that it is in. The
`ci` profile keeps the names of functions, `release` does not.
"""

import atexit
import collections
import itertools
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from process import Process

FOLDER = Path(__file__).resolve().parents[2] / "target" / "bench" / "perf"
NUMBERS = itertools.count(1)
# The first that fits, in this order.
PARTS = [
    ("kernel: network", r"^\[k\] .*(tcp|sock|skb|inet|ip_|net_|loopback|recv|send|xmit|dev_|napi|csum|copy_(to|from)_iter|_copy_to_iter|rep_movs|copy_user)"),
    ("kernel: files", r"^\[k\] .*(ext4|xfs|btrfs|overlay|vfs|jbd2|blk|writeback|find_get_block|recently_deleted|brelse|getblk|journal|bio_|iowrite|filemap|iomap|copy_folio|dentry|path_|inode|fsync|d_|lookup)"),
    ("kernel: memory", r"^\[k\] .*(page|fault|mmap|munmap|madvise|clear_|folio|alloc|free|zap|mem_cgroup|charge)"),
    ("kernel: the rest", r"^\[k\]"),
    # What has no name in a program with names is the assembly of zstd's Huffman decoder.
    ("zstd", r"^\[\.\] 0x[0-9a-f]+$|ZSTD|HUF_|FSE_|HIST_|XXH|zstd"),
    ("copying and comparing bytes", r"memcpy|memmove|memset|memcmp|bcmp"),
    ("allocator", r"\bmi_|_mi_|mimalloc|__rust_(alloc|dealloc|realloc)|\bmalloc\b|\bfree\b|cfree|raw_vec"),
    ("client library (mysql_async, mysql_common)", r"mysql_async|mysql_common"),
    ("rows of the source to columns", r"headwater_connectors.*(rows|buffer|select|codec|decimal|temporal|json|charset|value)|simdutf8|from_utf8"),
    ("the rest of the connector", r"headwater_connectors"),
    ("Parquet", r"parquet"),
    ("lake: sort, merge and hash", r"headwater_paimon.*(flush|sort|merge|bucket|placement|binary_row|bulk)|arrow_row|arrow_ord|slice::sort|core::slice::sort"),
    ("lake: statistics and encoding", r"headwater_paimon.*(stats|encoder|data_file)"),
    ("lake: manifests, snapshots, commits", r"avro|serde|json|headwater_paimon.*(commit|manifest|snapshot|schema)"),
    ("the rest of the lake", r"headwater_paimon"),
    ("columns in general (arrow)", r"arrow"),
    ("checksums", r"crc32|crc_"),
    ("client library (mysql_async, mysql_common)", r"crossbeam_queue|bytes::bytes_mut"),
    ("runtime", r"tokio|futures|object_store|std::sys|pthread|syscall|epoll|clock_gettime|parking_lot"),
]


def start(command, log, name):
    """Starts a process, sampled to its end where BENCH_PERF is set."""
    if not os.environ.get("BENCH_PERF"):
        return Process(command, log)
    FOLDER.mkdir(parents=True, exist_ok=True)
    # It waits for the sampler before it becomes the program: nothing of it is missed, and signals find it.
    process = Process(["sh", "-c", 'kill -STOP $$; exec "$@"', "sh", *command], log)
    file = FOLDER / f"{name}-{next(NUMBERS)}.data"
    sample = ["perf", "record", "-q", "-e", "cpu-clock", "-F", "997", "-p", str(process.child.pid), "-o", file]
    sampler = subprocess.Popen(sample, stdin=subprocess.DEVNULL)
    atexit.register(sampler.wait)
    time.sleep(1.5)
    process.child.send_signal(signal.SIGCONT)
    return process


def part_of(symbol):
    return next((part for part, pattern in PARTS if re.search(pattern, symbol)), "others")


def show(file):
    command = ["perf", "report", "--stdio", "-g", "none", "--percent-limit", "0", "-F", "overhead,sym", "-i", file]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    found = [re.match(r"\s*([\d.]+)%\s+(.*\S)", line) for line in lines]
    symbols = [(float(match[1]), match[2]) for match in found if match]
    shares = collections.Counter()
    for share, symbol in symbols:
        shares[part_of(symbol)] += share
    print(f"{file}:\n\n| part | share |\n|---|---:|")
    for part, share in shares.most_common():
        print(f"| {part} | {share:.1f} % |")
    print()
    for share, symbol in symbols[:40]:
        print(f"  {share:5.1f} %  {part_of(symbol)[:28]:28}  {symbol[:150]}")
    print()


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    for name in sys.argv[1:]:
        show(name)
