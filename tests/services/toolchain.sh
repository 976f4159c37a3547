#!/usr/bin/env bash
# What a build needs: cargo of the version in rust-toolchain.toml, and a C compiler. Installs the compiler when it may.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
command -v cc >/dev/null || "$here/install.sh" gcc libc6-dev
export PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin
if ! command -v cargo >/dev/null; then
  cat >&2 <<'TEXT'
No cargo on this machine. Get Rust by rustup, either
  from the system (Ubuntu 24.04, Debian 13 or newer):  sudo apt-get install rustup
  or from its own site:                                curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh
and run this again: rustup fetches the right version by itself.
TEXT
  exit 1
fi
want=$(sed -n 's/^channel = "\(.*\)"/\1/p' "$here/../../rust-toolchain.toml")
cd "$here/../.."
if ! have=$(cargo --version 2>&1); then
  command -v rustup >/dev/null || { echo "$have" >&2; exit 1; }
  rustup toolchain install "$want" --profile minimal --component rustfmt --component clippy
fi
have=$(cargo --version | cut -d' ' -f2)
[[ $(printf '%s\n' "$want" "$have" | sort -V | head -1) == "$want" ]] ||
  { echo "cargo is $have; this project needs $want. With rustup: rustup toolchain install $want" >&2; exit 1; }
