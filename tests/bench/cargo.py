"""What is measured, built by cargo.

Environment:
  BENCH_PROFILE   cargo profile it is built with (ci)
"""

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Profiles whose folder has another name.
FOLDERS = {"dev": "debug", "test": "debug", "bench": "release"}


def build(*what):
    """Builds what these words of cargo's say; gives the folder with the programs, examples/ in it."""
    profile = os.environ.get("BENCH_PROFILE", "ci")
    if subprocess.run(["cargo", "build", "--profile", profile, "--locked", *what], cwd=ROOT).returncode:
        raise SystemExit(f"bench: cargo build {' '.join(what)} failed; cargo says why above")
    return ROOT / os.environ.get("CARGO_TARGET_DIR", "target") / FOLDERS.get(profile, profile)
