#!/usr/bin/env bash
# Java Paimon (the official jars) as reader, writer and checker of our tables.
#
#   oracle.sh read   WAREHOUSE DB.TABLE [--snapshot N | --tag T] [--where C=V]   canonical lines (see Row.java), sorted
#   oracle.sh hash   WAREHOUSE DB.TABLE [as read]            {"count":…,"hash":…}
#   oracle.sh diff   WAREHOUSE DB.TABLE [as read] < canonical lines        exit 1 and the rows if they differ
#   oracle.sh fsck   WAREHOUSE DB.TABLE [--snapshot N | --all]             exit 1 and the problems if there are any
#   oracle.sh stream WAREHOUSE DB.TABLE [--from N] [--to N]  {"kind":…,"snapshot":…,"row":…} as a streaming reader sees it
#   oracle.sh info   WAREHOUSE DB.TABLE                     the schema, then every snapshot
#   oracle.sh files  WAREHOUSE DB.TABLE [--snapshot N] [--meta]            the live data files
#   oracle.sh create WAREHOUSE DB.TABLE < {"columns":[["id","BIGINT NOT NULL"]],"primaryKeys":["id"],"partitionKeys":[],"options":{}}
#   oracle.sh alter  WAREHOUSE DB.TABLE add NAME TYPE [first | after NAME] | drop NAME | rename NAME NEW | type NAME TYPE
#                    | null NAME true|false | comment NAME TEXT | move NAME first|last|after NAME | set KEY VALUE | unset KEY
#                    (nested columns as a.b), or several as JSON arrays of these words, one a line of the input
#   oracle.sh write  WAREHOUSE DB.TABLE [--write-only] [--commit-user U] [--identifier N] [--overwrite P=V | --overwrite '*']
#                    < rows, or {"kind":"-D","row":{…}}
#   oracle.sh compact WAREHOUSE DB.TABLE [--full] [--commit-user U] [--identifier N]
#   oracle.sh expire WAREHOUSE DB.TABLE [--retain N]        leaves the newest N snapshots
#   oracle.sh tag    WAREHOUSE DB.TABLE create NAME [--snapshot N] | delete NAME | list
#   oracle.sh rollback WAREHOUSE DB.TABLE N|TAG
#   oracle.sh truncate | drop WAREHOUSE DB.TABLE            all rows | the table
#   oracle.sh orphan WAREHOUSE DB.TABLE [--older-than-s N] [--delete]      files that nothing refers to
#   oracle.sh bench  WAREHOUSE DB.TABLE --rows N --every M --order random|ascending    writes N rows, a commit for M
#   oracle.sh vectors < {"types":["INT"],"values":[1],"buckets":[4]}       bytes of the BinaryRow, hash, bucket
#   oracle.sh serve PORT         the same verbs by HTTP (Oracle.java); 0 chooses a port; prints it; ends with its input
#   oracle.sh build              only compile
#
# --opt KEY=VALUE is a table option for this call. --conf KEY=VALUE is one of the store, for WAREHOUSE s3://… (s3.endpoint,
# s3.access-key, …; not for serve and create). ORACLE_TRACE=1 prints stack traces. Exit codes: 0, 1 found
# something, 2 failed. Needs a JDK of at least 11 and Maven; installs them when it may (root, apt). The build is kept
# in HEADWATER_CACHE (.cache in the tree).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$(realpath -m "${HEADWATER_CACHE:-$here/../../.cache}")/oracle
[[ $# -gt 0 ]] || { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0" >&2; exit 2; }

profile=()
if [[ " $* " == *" s3://"* ]]; then # the jar for S3 is large
  build+=-s3
  profile=(-Ps3)
fi
sum=$(cat "$here/pom.xml" "$here"/src/*.java | cksum)
compile() {
  if ! command -v javac >/dev/null || ! command -v mvn >/dev/null || ! command -v jar >/dev/null; then
    "$here/../services/install.sh" default-jdk-headless maven
  fi
  mkdir -p "$build"
  if ! cmp -s "$here/pom.xml" "$build/pom.xml"; then
    rm -rf "$build/lib"
    mvn -q -B "${profile[@]}" -f "$here/pom.xml" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$build/lib" >&2
    cp "$here/pom.xml" "$build/pom.xml"
  fi
  rm -rf "$build/classes" "$build/classes.jsa"
  javac -nowarn -Xlint:none -proc:none -d "$build/classes" -cp "$build/lib/*" "$here"/src/*.java 2> >(grep -v 'warning\|class file for\|^Note' >&2)
  jar cf "$build/lib/oracle.jar" -C "$build/classes" .
  # A shared archive of classes halves the start of a JVM.
  echo '{"types":["INT"],"values":[1]}' |
    java -XX:ArchiveClassesAtExit="$build/classes.jsa" -cp "$build/lib/*" Oracle vectors >/dev/null 2>&1 || true
  echo "$sum" >"$build/done"
}
if [[ $(cat "$build/done" 2>/dev/null) != "$sum" ]]; then
  mkdir -p "$build"
  exec 9>"$build/lock"
  flock 9
  [[ $(cat "$build/done" 2>/dev/null) == "$sum" ]] || compile
  exec 9>&-
fi
[[ $1 != build ]] || exit 0
exec java -XX:SharedArchiveFile="$build/classes.jsa" -Xshare:auto -Xlog:disable -Xlog:all=off -XX:+UseSerialGC -Xmx1g \
  -cp "$build/lib/*" Oracle "$@"
