#!/usr/bin/env bash
# A private MySQL server for tests, demo and benchmarks.
#
#   mysql.sh start NAME [PORT|auto] [server options…]   start (or start again); prints mysql://user:password@host:port
#   mysql.sh stop NAME | kill9 NAME | rm NAME           end politely | with SIGKILL | end and delete its data
#   mysql.sh sql NAME [client options…]                 the mysql client, as an administrator
#   mysql.sh env NAME                                   url= host= port= user= password= pid= data= (shell syntax)
#   mysql.sh tools                                      folder with mysql and mysqlbinlog
#
# Which server: the first of
#   1. HEADWATER_TEST_MYSQL=mysql://user:password@host:port/   a running one (never stopped or changed here)
#   2. Docker, where an engine answers                         docker/compose.yaml
#   3. mysqld 8 or newer on PATH                               own data folder
#   4. Debian's or Ubuntu's packages, unpacked into a private folder: the host is not touched
# HEADWATER_MYSQL=docker|local|packages takes one of them only.
#
# HEADWATER_CACHE (.cache in the tree)    unpacked packages and an initialised data folder to copy
# HEADWATER_RUN   ($TMPDIR/headwater-UID) data of the instances
# HEADWATER_OWNER=PID                     the instance is removed when that process has ended, however it ended
#
# Settings that differ from a server in production: sync_binlog=0, innodb_flush_log_at_trx_commit=2 and no
# doublewrite buffer. The data survives kill -9 of the server, not a crash of the machine.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
cache=$(realpath -m "${HEADWATER_CACHE:-$root/.cache}")
run=${HEADWATER_RUN:-${TMPDIR:-/tmp}/headwater-$(id -u)}/mysql
user=headwater password=headwater   # administrator of the servers started here

die() { echo "mysql.sh: $*" >&2; exit 1; }
usage() { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0" >&2; exit 2; }
[[ $# -gt 0 ]] || usage
command=$1 name=${2:-}
shift; [[ $# -eq 0 ]] || shift
[[ $command == tools || $name =~ ^[A-Za-z0-9_-]+$ ]] || usage
dir=$run/$name
# shellcheck source=instance.sh
source "$here/instance.sh"

# ---- which server

is_mysqld() { # a real MySQL of version 8 or newer, not MariaDB
  local version
  version=$("$1" --version 2>/dev/null) || return 1
  [[ $version != *MariaDB* && $version =~ Ver\ ([0-9]+)\. && ${BASH_REMATCH[1]} -ge 8 ]]
}

kind() {
  local want=${HEADWATER_MYSQL:-}
  if [[ -n ${HEADWATER_TEST_MYSQL:-} ]]; then echo given
  elif [[ $want == docker || -z $want ]] && docker compose version >/dev/null 2>&1 && docker info >/dev/null 2>&1; then echo docker
  elif [[ $want == local || -z $want ]] && command -v mysqld >/dev/null && is_mysqld mysqld && ! confined; then echo local
  elif [[ $want == packages || -z $want ]] && command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null; then echo packages
  else die "no MySQL here. Do one of: set HEADWATER_TEST_MYSQL=mysql://user:password@host:port/, start Docker," \
    "put mysqld 8 or 9 on PATH, or use Debian or Ubuntu, whose packages can be unpacked without root."; fi
}

confined() { # Ubuntu's AppArmor profile allows a server of the host no data folder but its own
  grep -qs '^/usr/sbin/mysqld (enforce)' /sys/kernel/security/apparmor/profiles
}

tools=$cache/mysql/tools
find_tools() { # sets $bin, the folder of mysqld and mysql, and $base, options that mysqld needs there
  base=()
  if [[ $(kind) != packages ]] && command -v mysql >/dev/null && ! mysql --version | grep -qi mariadb; then
    bin=$(dirname "$(command -v mysql)")
    return
  fi
  HEADWATER_CACHE=$cache "$here/unpack.sh" "$cache/mysql" mysql >&2
  bin=$tools
  base=(--basedir="$cache/mysql/usr" --plugin-dir="$cache/mysql/usr/lib/mysql/plugin"
    --lc-messages-dir="$cache/mysql/usr/share/mysql" --character-sets-dir="$cache/mysql/usr/share/mysql/charsets")
}

# ---- the server as a process of ours

seed() { # an initialised data folder, made once for each version (10 s) and copied for each instance
  local seed=$cache/mysql-seed version
  version=$("$bin/mysqld" --version)
  mkdir -p "$cache"
  (
    flock 8
    [[ $(cat "$seed/.done" 2>/dev/null) == "$version" ]] && exit
    rm -rf "$seed"
    mkdir -p "$seed"
    printf '%s\n' "SET sql_log_bin=0;" "CREATE USER '$user'@'%' IDENTIFIED BY '$password';" \
      "GRANT ALL ON *.* TO '$user'@'%' WITH GRANT OPTION;" >"$seed/users.sql"
    "$bin/mysqld" --no-defaults ${base[@]+"${base[@]}"} --user="$(id -un)" --datadir="$seed/data" --initialize-insecure \
      --innodb-redo-log-capacity=64M --init-file="$seed/users.sql" --log-error="$seed/log" || { tail -20 "$seed/log" >&2; exit 1; }
    rm -f "$seed"/data/auto.cnf "$seed"/data/binlog.*
    echo "$version" >"$seed/.done"
  ) 8>"$cache/mysql-seed.lock"
  cp -a --reflink=auto "$seed/data" "$dir/data"
}

launch() { # PORT OPTION…: the server in its own session, so that Ctrl-C of the caller does not reach it
  local port=$1
  shift
  setsid "$bin/mysqld" --no-defaults ${base[@]+"${base[@]}"} --user="$(id -un)" --datadir="$dir/data" \
    --port="$port" --bind-address=127.0.0.1 --socket="$dir/socket" --mysqlx=OFF --log-error="$dir/log" \
    --server-id=$((port + 1000)) --log-bin=binlog --gtid-mode=ON --enforce-gtid-consistency=ON \
    --sync-binlog=0 --innodb-flush-log-at-trx-commit=2 --innodb-doublewrite=OFF \
    --innodb-buffer-pool-size="${HEADWATER_MYSQL_POOL:-256M}" --innodb-redo-log-capacity=256M --performance-schema=OFF \
    --max-connections=500 --skip-name-resolve --local-infile=ON --secure-file-priv= "$@" \
    >>"$dir/log" 2>&1 </dev/null 8>&- &
  echo $! >"$dir/pid"
  for _ in $(seq 1200); do
    if "$bin/mysql" --no-defaults -uroot -S "$dir/socket" -e 'DO 1' >/dev/null 2>&1; then return 0; fi
    kill -0 "$(cat "$dir/pid")" 2>/dev/null || return 1
    sleep 0.05
  done
  return 1
}

start_process() { # PORT OPTION…
  local port=$1
  shift
  find_tools
  [[ -x $bin/mysqld ]] || bin=$(dirname "$(command -v mysqld)")
  mkdir -p "$dir"
  [[ -d $dir/data ]] || seed
  [[ $port != auto || ! -s $dir/port ]] || port=$(cat "$dir/port") # the same as before, so that jobs find it again
  for try in 1 2 3; do
    if [[ $port == auto ]]; then chosen=$(free_port); else chosen=$port; fi
    if launch "$chosen" "$@"; then
      echo "$chosen" >"$dir/port"
      watch_owner
      return
    fi
    [[ $port == auto ]] && grep -q 'Address already in use' "$dir/log" || break
  done
  tail -20 "$dir/log" >&2
  die "the server $name did not start (try $try); its log is $dir/log"
}

# ---- the server in Docker

compose() { HEADWATER_MYSQL_PORT=${port:-0} docker compose -p "headwater-$name" -f "$root/docker/compose.yaml" "$@"; }
start_docker() { # PORT OPTION…
  port=$1
  [[ $port != auto ]] || port=$(cat "$dir/port" 2>/dev/null || free_port)
  mkdir -p "$dir"
  echo "$port" >"$dir/port"
  HEADWATER_MYSQL_OPTIONS="${*:2}" compose up -d --wait mysql >&2
  watch_owner
}

# ---- commands

settings() { # sets host, port, user, password
  if [[ $(kind) == given ]]; then
    [[ $HEADWATER_TEST_MYSQL =~ ^mysql://([^:@/]+)(:([^@/]*))?@([^:/]+)(:([0-9]+))?/?$ ]] ||
      die "HEADWATER_TEST_MYSQL must look like mysql://user:password@host:port/"
    user=${BASH_REMATCH[1]} password=${BASH_REMATCH[3]} host=${BASH_REMATCH[4]} port=${BASH_REMATCH[6]:-3306}
    return
  fi
  host=127.0.0.1 port=$(cat "$dir/port" 2>/dev/null) || die "no server $name; start it first"
}

mode=$([[ -n ${HEADWATER_TEST_MYSQL:-} ]] && echo given || cat "$dir/kind" 2>/dev/null || kind)
case $command in
start)
  port=auto
  if [[ ${1:-} =~ ^(auto|[0-9]+)$ ]]; then port=$1; shift; fi
  if [[ $mode != given ]]; then mkdir -p "$dir"; echo "$mode" >"$dir/kind"; fi
  case $mode in
  given) ;;
  docker) start_docker "$port" "$@" ;;
  *) running || start_process "$port" "$@" ;;
  esac
  settings
  echo "mysql://$user:$password@$host:$port"
  ;;
stop | kill9 | rm)
  [[ $mode != given ]] || { [[ $command != kill9 ]] || die "a given server is not killed"; exit 0; }
  case $mode-$command in
  docker-stop) compose stop mysql >&2 ;;
  docker-kill9) compose kill -s KILL mysql >&2 ;;
  docker-rm) compose down -v >&2 ;;
  *-stop) end TERM ;;
  *) end KILL ;;
  esac
  [[ $command != rm ]] || rm -rf "$dir"
  ;;
sql)
  settings
  if [[ $mode == docker ]]; then
    compose exec -T -e MYSQL_PWD="$password" mysql mysql --no-defaults -u"$user" "$@"
  else
    find_tools
    MYSQL_PWD=$password exec "$bin/mysql" --no-defaults --default-character-set=utf8mb4 -h"$host" -P"$port" -u"$user" "$@"
  fi
  ;;
env)
  settings
  printf 'url=%q\nhost=%q\nport=%q\nuser=%q\npassword=%q\npid=%q\ndata=%q\n' "mysql://$user:$password@$host:$port" \
    "$host" "$port" "$user" "$password" "$(cat "$dir/pid" 2>/dev/null)" "$dir/data"
  ;;
tools)
  HEADWATER_MYSQL=${HEADWATER_MYSQL:-} find_tools
  echo "$bin"
  ;;
*) usage ;;
esac
