#!/usr/bin/env bash
# run.sh [ARGUMENT of cargo test…]: all tests of all packages, against servers that end with it.
#
# The end-to-end tests (this folder) start their own server. The source's tests (connectors/tests) get theirs here:
# one that they share, one without GTIDs, and one that they kill, start again and whose logs they purge. With
# HEADWATER_TEST_MYSQL the first is that server; the tests of the others are left out. Tests on S3 share one server,
# and so do those on MariaDB.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mysql=$PWD/tests/services/mysql.sh mariadb=$PWD/tests/services/mariadb.sh s3=$PWD/tests/services/s3.sh name=test-$$
started=$SECONDS
# Always the whole workspace: the dependencies' features, and with them what is built, are the same in every step.
test=("${CARGO:-cargo}" test --profile "${PROFILE:-ci}" --locked --workspace "$@")
"${test[@]}" --no-run

servers=()
trap 'for server in "${servers[@]}"; do "$mysql" rm "$server" || true; done; "$mariadb" rm "$name" || true; "$s3" rm "$name" || true' EXIT
trap 'exit 130' INT TERM HUP
server() { # NAME OPTION…: sets $url
  servers+=("$1")
  url=$(HEADWATER_OWNER=$$ HEADWATER_MYSQL_POOL=96M "$mysql" start "$1" auto "${@:2}")/
}
if HEADWATER_TEST_S3=$(HEADWATER_OWNER=$$ "$s3" start "$name"); then
  export HEADWATER_TEST_S3
else
  echo "== left out: tests on S3, since no server could be started"
fi
failed=()
step() { # WHAT COMMAND…
  echo "== $1"
  "${@:2}" || failed+=("$1")
}

if [[ -n ${HEADWATER_TEST_MYSQL:-} ]]; then
  step "all tests" "${test[@]}" --no-fail-fast
  echo "== left out, since HEADWATER_TEST_MYSQL gives the server: tests that restart or reconfigure one"
else
  server "$name"
  HEADWATER_TEST_MYSQL_SOURCE=$url step "all tests" "${test[@]}" --no-fail-fast
  server "$name-files" --gtid-mode=OFF
  export HEADWATER_TEST_MYSQL_NO_GTID=$url
  server "$name-private"
  export HEADWATER_TEST_MYSQL_PRIVATE=$url
  export HEADWATER_TEST_MYSQL_RESTART="restart() { '$mysql' \"\$1\" '$name-private'; }; restart"
  skip=()
  if HEADWATER_TEST_MARIADB=$(HEADWATER_OWNER=$$ HEADWATER_MYSQL_POOL=96M "$mariadb" start "$name"); then
    export HEADWATER_TEST_MARIADB
  else
    echo "== left out: the test on MariaDB, since no server could be started"
    skip=(--skip mariadb)
  fi
  step "tests that have a server to themselves" "${test[@]}" --test mysql_source -- --ignored --test-threads=1 \
    ${skip[@]+"${skip[@]}"}
fi

if [[ $# -eq 0 ]]; then
  BENCH_PROFILE=${PROFILE:-ci} step "instructions of the hot kernels" python3 tests/bench/instructions.py
fi

minutes=$(((SECONDS - started + 59) / 60))
if [[ ${#failed[@]} -gt 0 ]]; then
  printf '== FAILED after %s min:%s\n' "$minutes" "$(printf ' %s;' "${failed[@]}")"
  exit 1
fi
echo "== all tests passed, $minutes min"
