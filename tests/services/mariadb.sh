#!/usr/bin/env bash
# A private MariaDB server for tests.
#
#   mariadb.sh start NAME [server options…]      start (or start again, on the same port); prints mysql://user:password@host:port
#   mariadb.sh stop NAME | kill9 NAME | rm NAME  end politely | with SIGKILL | end and delete its data
#   mariadb.sh sql NAME [client options…]        the mariadb client, as an administrator
#
# Which server: mariadbd and mariadb-install-db on PATH, or else Debian's or Ubuntu's packages, unpacked into a private
# folder: the host is not touched. HEADWATER_MARIADB=local|packages takes one of them only.
#
# HEADWATER_CACHE (.cache in the tree), HEADWATER_RUN ($TMPDIR/headwater-UID), HEADWATER_OWNER=PID: as in mysql.sh.
#
# Settings that differ from a server in production: sync_binlog=0, innodb_flush_log_at_trx_commit=2 and no doublewrite
# buffer. The data survives kill -9 of the server, not a crash of the machine.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=$(realpath -m "${HEADWATER_CACHE:-$here/../../.cache}")
run=${HEADWATER_RUN:-${TMPDIR:-/tmp}/headwater-$(id -u)}/mariadb
user=headwater password=headwater   # administrator of the servers started here

die() { echo "mariadb.sh: $*" >&2; exit 1; }
usage() { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0" >&2; exit 2; }
[[ $# -gt 1 && $2 =~ ^[A-Za-z0-9_-]+$ ]] || usage
command=$1 name=$2
shift 2
dir=$run/$name
# shellcheck source=instance.sh
source "$here/instance.sh"

find_tools() { # sets $server and $client, $share (the scripts of the system tables), and $base, options needed there
  local want=${HEADWATER_MARIADB:-}
  base=()
  if [[ $want != packages ]] && command -v mariadbd >/dev/null && command -v mariadb >/dev/null; then
    server=$(command -v mariadbd) client=$(command -v mariadb)
    for share in "$(dirname "$server")"/../share/{mariadb,mysql}; do
      [[ ! -f $share/mariadb_system_tables.sql ]] || return 0
    done
    die "no mariadb_system_tables.sql beside $server"
  fi
  [[ $want != local ]] && command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null ||
    die "no MariaDB here: put mariadbd on PATH, or use Debian or Ubuntu, whose packages can be unpacked without root."
  HEADWATER_CACHE=$cache "$here/unpack.sh" "$cache/mariadb" mariadb >&2
  server=$cache/mariadb/tools/mariadbd client=$cache/mariadb/tools/mariadb share=$cache/mariadb/usr/share/mariadb
  [[ -d $share ]] || share=$cache/mariadb/usr/share/mysql
  base=(--basedir="$cache/mariadb/usr" --plugin-dir="$(find "$cache/mariadb/usr/lib" -type d -name plugin | head -1)"
    --lc-messages-dir="$share" --character-sets-dir="$share/charsets")
}

seed() { # an initialised data folder, made once for each version and copied for each instance
  local seed=$cache/mariadb-seed version
  version=$("$server" --version)
  mkdir -p "$cache"
  (
    flock 8
    [[ $(cat "$seed/.done" 2>/dev/null) != "$version" ]] || exit 0
    rm -rf "$seed"
    mkdir -p "$seed/data"
    {
      printf '%s\n' 'CREATE DATABASE mysql;' 'USE mysql;' "SET @auth_root_socket=NULL;"
      cat "$share/mariadb_system_tables.sql" "$share/mariadb_performance_tables.sql" "$share/mariadb_system_tables_data.sql"
      printf '%s\n' 'FLUSH PRIVILEGES;' "CREATE USER '$user'@'%' IDENTIFIED BY '$password';" \
        "GRANT ALL ON *.* TO '$user'@'%' WITH GRANT OPTION;"
    } >"$seed/system.sql"
    "$server" --no-defaults ${base[@]+"${base[@]}"} --user="$(id -un)" --datadir="$seed/data" --bootstrap \
      <"$seed/system.sql" >"$seed/log" 2>&1 || { tail -20 "$seed/log" >&2; exit 1; }
    echo "$version" >"$seed/.done"
  ) 8>"$cache/mariadb-seed.lock"
  cp -a --reflink=auto "$seed/data" "$dir/data"
}

client() { MYSQL_PWD=$password "$client" --no-defaults --default-character-set=utf8mb4 -u"$user" -S "$dir/socket" "$@"; }

launch() { # PORT OPTION…: the server in its own session, so that Ctrl-C of the caller does not reach it
  setsid "$server" --no-defaults ${base[@]+"${base[@]}"} --user="$(id -un)" --datadir="$dir/data" \
    --port="$1" --bind-address=127.0.0.1 --socket="$dir/socket" --pid-file="$dir/server.pid" --log-error="$dir/log" \
    --server-id=$(($1 + 1000)) --log-bin=binlog --binlog-format=ROW --binlog-row-image=FULL \
    --binlog-row-metadata=FULL --gtid-strict-mode=ON --log-slave-updates=ON \
    --sync-binlog=0 --innodb-flush-log-at-trx-commit=2 --innodb-doublewrite=OFF \
    --innodb-buffer-pool-size="${HEADWATER_MYSQL_POOL:-256M}" --max-connections=500 --skip-name-resolve "${@:2}" \
    >>"$dir/log" 2>&1 </dev/null 8>&- &
  echo $! >"$dir/pid"
  for _ in $(seq 1200); do
    ! client -e 'DO 1' >/dev/null 2>&1 || return 0
    running || return 1
    sleep 0.05
  done
  return 1
}

case $command in
start)
  find_tools
  mkdir -p "$dir"
  [[ -d $dir/data ]] || seed
  port=$(cat "$dir/port" 2>/dev/null || free_port) # the same as before, so that jobs find it again
  if ! running; then
    launch "$port" "$@" || { tail -20 "$dir/log" >&2; die "the server $name did not start; its log is $dir/log"; }
    echo "$port" >"$dir/port"
    watch_owner
  fi
  echo "mysql://$user:$password@127.0.0.1:$port"
  ;;
stop) end TERM ;;
kill9) end KILL ;;
rm)
  end KILL
  rm -rf "$dir"
  ;;
sql)
  find_tools
  client "$@"
  ;;
*) usage ;;
esac
