#!/usr/bin/env bash
# debezium.sh PROPERTIES RECORDS [keep]: Capture.java. debezium.sh build: only compile.
# Needs a JDK of at least 17 and Maven; installs them when it may. The build is kept in HEADWATER_CACHE (.cache in the tree).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$(realpath -m "${HEADWATER_CACHE:-$here/../../../.cache}")/debezium
sum=$(cat "$here/pom.xml" "$here/Capture.java" | cksum)
if [[ $(cat "$build/done" 2>/dev/null) != "$sum" ]]; then
  if ! command -v javac >/dev/null || ! command -v mvn >/dev/null; then
    "$here/../../services/install.sh" default-jdk-headless maven
  fi
  rm -rf "$build"
  mkdir -p "$build/classes"
  mvn -q -B -f "$here/pom.xml" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$build/lib" >&2
  javac -nowarn -proc:none -d "$build/classes" -cp "$build/lib/*" "$here/Capture.java" 2> >(grep -v 'warning\|class file for\|^Note' >&2)
  echo "$sum" >"$build/done"
fi
[[ $1 != build ]] || exit 0
exec java -Xmx1g -Dorg.slf4j.simpleLogger.defaultLogLevel="${DEBEZIUM_LOG:-warn}" -cp "$build/lib/*:$build/classes" Capture "$@"
