#!/usr/bin/env bash
# read.sh: read.py in its own Python environment, kept in HEADWATER_CACHE (.cache in the tree). `read.sh build` only
# makes the environment. Needs Python 3.9 or newer with venv; installs it when it may (root, apt).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
venv=$(realpath -m "${HEADWATER_CACHE:-$here/../../.cache}")/pypaimon
sum=$(cksum <"$here/requirements.txt")
current() { [[ $(cat "$venv/done" 2>/dev/null) == "$sum" ]]; }
if ! current; then
  mkdir -p "$(dirname "$venv")"
  exec 9>"$venv.lock"
  flock 9
  if ! current; then
    rm -rf "$venv"
    python3 -m venv "$venv" >/dev/null 2>&1 || {
      rm -rf "$venv"
      "$here/../services/install.sh" python3 python3-venv
      python3 -m venv "$venv"
    }
    "$venv/bin/pip" install -q --disable-pip-version-check -r "$here/requirements.txt" >&2
    echo "$sum" >"$venv/done"
  fi
  exec 9>&-
fi
[[ ${1:-} != build ]] || exit 0
exec "$venv/bin/python" "$here/read.py" "$@"
