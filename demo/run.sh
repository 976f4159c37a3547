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
  trap - EXIT INT TERM HUP
  [[ -z $job ]] || kill -KILL "$job" 2>/dev/null || true
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

say "3. A writer that goes on all the time, and the job for $seconds s:  headwater run demo/shop.yaml"
"$mysql" sql "$name" -e "CALL demo.trade($((rows / 10)), $((rows / 200)))" &
writer=$!
"$headwater" run "$here/shop.yaml" &
job=$!
for ((i = 0; i < seconds; i++)); do
  sleep 1
  kill -0 "$job" 2>/dev/null || { wait "$job" || status=$?; job=''; echo "the job ended by itself (exit ${status:-0})" >&2; exit 1; }
  kill -0 "$writer" 2>/dev/null || { echo "the writer ended by itself" >&2; exit 1; }
done

say "4. The writer stops, the job catches up"
"$mysql" sql "$name" -e "UPDATE demo.control SET stop = TRUE"
wait "$writer"
writer=''
changes=$("$mysql" sql "$name" -N -e "SELECT MAX(id) - $rows DIV 5 FROM shop.orders")
# The last change: once its position is in the lake, everything before it is there too.
last=$("$mysql" sql "$name" -N -e "UPDATE shop.wallets SET balance = balance + 0.01 WHERE customer = 1; SELECT REPLACE(@@gtid_executed, '\n', '')" | sed 's/\\n//g')
start=$(date +%s%N)
newest() { find "$DEMO_WAREHOUSE/shop.db/$1/snapshot" -name 'snapshot-*' 2>/dev/null | sort -V | tail -1; }
until grep -qsF "$last" "$(newest wallets)" /dev/null; do
  kill -0 "$job" 2>/dev/null || { echo "the job ended by itself" >&2; exit 1; }
  [[ $((($(date +%s%N) - start) / 1000000000)) -lt 300 ]] || { echo "not caught up after 5 minutes" >&2; exit 1; }
  sleep 0.1
done
echo "the last change was in the lake after $((($(date +%s%N) - start) / 1000000)) ms"
kill -TERM "$job"
wait "$job"
job=''

say "5. Every table, row by row:  headwater verify demo/shop.yaml"
equal=0
"$headwater" verify "$here/shop.yaml" 2>&1 | tee "$dir/verify.txt" || equal=$?

lag() { # median of commit time minus commit time at the source, over the commits of a table
  local file
  for file in "$DEMO_WAREHOUSE/shop.db/$1"/snapshot/snapshot-*; do
    [[ -f $file ]] || continue
    tr -d ' \n' <"$file" 2>/dev/null | sed -n 's/.*"timeMillis":\([0-9]*\).*"watermark":\([0-9]*\).*/\1 \2/p'
    echo
  done | awk 'NF == 2 && $2 > 0 { print $1 - $2 }' | sort -n | awk '{ v[NR] = $1 } END { if (NR) printf "%.1f s", v[int((NR + 1) / 2)] / 1000; else printf "-" }'
}
say "Result"
printf '%-14s %10s %10s %10s %8s  %s\n' table rows lag snapshots size equal
for table in "${tables[@]}"; do
  count=$("$mysql" sql "$name" -N -e "SELECT COUNT(*) FROM shop.$table")
  # A line of verify that names the table and a difference.
  if [[ $equal -eq 0 ]]; then answer=yes; elif grep -w "$table" "$dir/verify.txt" | grep -qiE 'differ|missing|NOT|no$'; then answer=NO; else answer='?'; fi
  printf '%-14s %10s %10s %10s %8s  %s\n' "$table" "$count" "$(lag "$table")" \
    "$(find "$DEMO_WAREHOUSE/shop.db/$table/snapshot" -name 'snapshot-*' | wc -l)" "$(du -sh "$DEMO_WAREHOUSE/shop.db/$table" | cut -f1)" "$answer"
done
echo "$changes orders came in while the job ran."

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
[[ $equal -eq 0 ]] || { echo; echo "NOT EQUAL: headwater verify ended with $equal" >&2; exit 1; }
