#!/usr/bin/env bash
# `make demo`: a MySQL database under load arrives in Paimon tables, and every row is compared.
#   DEMO_SECONDS (60)      how long the job runs beside the writer
#   DEMO_ROWS (1000000)    rows of the database in all
#   DEMO_DIR               target/demo; the warehouse stays there afterwards
# Everything that is started here ends with it, also on Ctrl-C.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/.." && pwd)
headwater=$(realpath "${HEADWATER:-$root/target/ci/headwater}")
seconds=${DEMO_SECONDS:-60} rows=${DEMO_ROWS:-1000000}
dir=${DEMO_DIR:-$root/target/demo}
[[ $rows =~ ^[0-9]+$ && $rows -ge 10000 && $rows -le 5000000 ]] || { echo "DEMO_ROWS: 10000 to 5000000" >&2; exit 2; }
mysql=$root/tests/services/mysql.sh
unset HEADWATER_TEST_MYSQL # always a private server: the demo writes into nobody's
name=demo-$$
job='' writer=''

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
finish() {
  local status=$?
  trap - EXIT
  trap '' INT TERM HUP # cleaning up is not interrupted
  [[ $status -lt 128 ]] || printf '\nstopped: ending what the demo has started\n'
  if [[ -n $job ]]; then
    # Ctrl-C has reached the job too: it may clear its lines from the terminal.
    for _ in {1..20}; do [[ $status -eq 130 ]] && kill -0 "$job" 2>/dev/null && sleep 0.1 || break; done
    kill -KILL "$job" 2>/dev/null || true
  fi
  [[ -z $writer ]] || kill "$writer" 2>/dev/null || true
  "$mysql" rm "$name" 2>/dev/null || true
  wait 2>/dev/null || true
  exit "$status"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

rm -rf "$dir"
mkdir -p "$dir"
export DEMO_WAREHOUSE=$dir/warehouse DEMO_PASSWORD=demo-password
tables=(categories products stock customers addresses orders order_items payments reviews wallets savings)

say "1. A private MySQL"
HEADWATER_OWNER=$$ HEADWATER_MYSQL_POOL=512M "$mysql" start "$name" auto >/dev/null
eval "$("$mysql" env "$name")"
export DEMO_HOST=$host DEMO_PORT=$port
echo "on $host:$port"

say "2. A shop of about $rows rows"
SECONDS=0
{ echo "SET @rows = $rows;"; cat "$here/shop.sql" "$here/writer.sql"; } | "$mysql" sql "$name"
echo "filled in $SECONDS s: ${#tables[@]} tables"

say "3. The job, for $seconds s beside a writer that never rests:  headwater run demo/shop.yaml"
"$mysql" sql "$name" -e "CALL demo.trade($((rows / 10)), $((rows / 200)))" &
writer=$!
"$headwater" run "$here/shop.yaml" &
job=$!
job_runs() {
  kill -0 "$job" 2>/dev/null && return
  local status=0
  wait "$job" || status=$?
  job=''
  echo "the job ended by itself, with exit code $status" >&2
  exit 1
}
for ((i = 0; i < seconds; i++)); do
  sleep 1
  job_runs
  kill -0 "$writer" 2>/dev/null || { echo "the writer ended by itself" >&2; exit 1; }
done
"$mysql" sql "$name" -e "UPDATE demo.control SET stop = TRUE"
wait "$writer"
writer=''
# The last change: once its position is in the lake, everything before it is there too.
last=$("$mysql" sql "$name" -N -e "UPDATE shop.wallets SET balance = balance + 0.01 WHERE customer = 1; SELECT REPLACE(@@gtid_executed, '\n', '')" | sed 's/\\n//g')
start=$(date +%s%N)
elapsed() { echo $((($(date +%s%N) - start) / 1000000)); }
newest() { find "$DEMO_WAREHOUSE/shop.db/$1/snapshot" -name 'snapshot-*' 2>/dev/null | sort -V | tail -1; }
until grep -qsF "$last" "$(newest wallets)" /dev/null; do
  job_runs
  [[ $(elapsed) -lt 300000 ]] || { echo "not caught up after 5 minutes" >&2; exit 1; }
  sleep 0.1
done
caught_up=$(elapsed)
kill -TERM "$job"
wait "$job"
job=''
new=$("$mysql" sql "$name" -N -e "SELECT MAX(id) - $rows DIV 5 FROM shop.orders")
echo "The writer has stopped after $new new orders and as many payments and money transfers; its last change was in the lake after $caught_up ms."

say "4. Every table against the source, row by row:  headwater verify demo/shop.yaml"
equal=0
"$headwater" verify "$here/shop.yaml" --json --log-level warn >"$dir/verify.json" || equal=$?
[[ $equal -le 1 ]] || { echo "headwater verify ended with $equal" >&2; exit 1; }

found() { # KEY of TABLE in the report, which has one field a line
  sed -n "/\"source\": \"shop\.$1\"/,/\"verdict\"/s/^ *\"$2\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}$/\1/p" "$dir/verify.json"
}
lag() { # from the newest change in a snapshot until the snapshot was there: the median of the table's snapshots
  local file
  for file in "$DEMO_WAREHOUSE/shop.db/$1"/snapshot/snapshot-*; do
    [[ -f $file ]] || continue
    tr -d ' \n' <"$file" 2>/dev/null | sed -n 's/.*"timeMillis":\([0-9]*\).*"watermark":\([0-9]*\).*/\1 \2/p'
    echo
  done | awk 'NF == 2 && $2 > 0 { print $1 - $2 }' | sort -n | awk '{ v[NR] = $1 } END { if (NR) printf "%d ms", v[int((NR + 1) / 2)]; else printf "-" }'
}
printf '%-12s %11s %11s %9s %10s %7s  %s\n' table 'source rows' 'lake rows' lag snapshots size equal
for table in "${tables[@]}"; do
  answer=$(found "$table" verdict)
  [[ $answer == equal ]] && answer=yes || answer="NO: ${answer:-not compared}"
  printf '%-12s %11s %11s %9s %10s %7s  %s\n' "$table" "$(found "$table" source_rows)" "$(found "$table" lake_rows)" "$(lag "$table")" \
    "$(find "$DEMO_WAREHOUSE/shop.db/$table/snapshot" -name 'snapshot-*' | wc -l)" "$(du -sh "$DEMO_WAREHOUSE/shop.db/$table" | cut -f1)" "$answer"
done
echo "lag: from the newest change in a snapshot until the snapshot is there (median). Snapshots come every 2 s here, so"
echo "that a change waits up to 2 s more."
if [[ $equal -ne 0 ]]; then
  printf '\nNOT EQUAL\n'
  "$headwater" verify "$here/shop.yaml" --log-level warn || true
  exit 1
fi

cat <<TEXT

The tables stay in $DEMO_WAREHOUSE. Look at them with

Spark
  spark-sql --packages org.apache.paimon:paimon-spark-3.5_2.12:1.4.2 \\
    --conf spark.sql.catalog.paimon=org.apache.paimon.spark.SparkCatalog \\
    --conf spark.sql.catalog.paimon.warehouse=file:$DEMO_WAREHOUSE \\
    -e 'SELECT state, COUNT(*), SUM(total) FROM paimon.shop.orders GROUP BY state'

pypaimon (pip install pypaimon==2.1.0)
  from pypaimon import CatalogFactory
  builder = CatalogFactory.create({'warehouse': '$DEMO_WAREHOUSE'}).get_table('shop.orders').new_read_builder()
  read, splits = builder.new_read(), builder.new_scan().plan().splits()
  print(read.to_pandas(splits).groupby('state')['total'].sum())

DuckDB (pip install duckdb, in the same Python session)
  print(read.to_duckdb(splits, 'orders').sql('SELECT state, COUNT(*), SUM(total) FROM orders GROUP BY state'))
TEXT
