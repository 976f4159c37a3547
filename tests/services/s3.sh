#!/usr/bin/env bash
# A private S3 server for tests: Ceph's gateway, with one monitor and one storage daemon below it.
#
#   s3.sh start NAME [PORT|auto]       start (or start again); prints http://key:secret@host:port
#   s3.sh stop NAME | rm NAME          end | end and delete its data
#   s3.sh pause NAME | resume NAME     the gateway refuses connections | answers again
#
# Which server: HEADWATER_TEST_S3=http://key:secret@host:port, a running one (never stopped or changed here), else the
# packages of Debian or Ubuntu, unpacked into a private folder: the host is not touched.
# It must honour `If-None-Match: *`; Ceph, MinIO and AWS do.
#
# HEADWATER_CACHE (.cache in the tree)    unpacked packages and the data of a new server to copy
# HEADWATER_RUN   ($TMPDIR/headwater-UID) data of the instances
# HEADWATER_OWNER=PID                     the instance is removed when that process has ended, however it ended
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
cache=$(realpath -m "${HEADWATER_CACHE:-$root/.cache}")
run=${HEADWATER_RUN:-${TMPDIR:-/tmp}/headwater-$(id -u)}/s3
key=headwater secret=headwater-secret
fsid=5eadf00d-0000-4000-8000-000000000001

die() { echo "s3.sh: $*" >&2; exit 1; }
usage() { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0" >&2; exit 2; }
[[ $# -gt 1 ]] || usage
command=$1 name=$2 port=${3:-auto}
[[ $name =~ ^[A-Za-z0-9_-]+$ ]] || usage
dir=$run/$name
if [[ -n ${HEADWATER_TEST_S3:-} ]]; then
  case $command in
  start) echo "${HEADWATER_TEST_S3%/}" ;;
  stop | rm) ;;
  *) die "a given server is not paused" ;;
  esac
  exit 0
fi
tools=$cache/ceph/tools

free_ports() { # the first of three that nobody listens on
  local port
  while :; do
    port=$((20000 + RANDOM % 12000))
    if ! (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null && ! (: <"/dev/tcp/127.0.0.1/$((port + 1))") 2>/dev/null &&
      ! (: <"/dev/tcp/127.0.0.1/$((port + 2))") 2>/dev/null; then
      echo "$port"
      return
    fi
  done
}

addresses() { echo "[v2:127.0.0.1:$(($1 + 1)),v1:127.0.0.1:$(($1 + 2))]"; }

configure() { # FOLDER PORT: no authentication between the daemons: they listen on this machine
  # only. Encryption cannot come first without it.
  local lib
  lib=$(dirname "$(find "$cache/ceph/usr/lib" -type d -name rados-classes | head -1)")
  cat >"$1/ceph.conf" <<CONF
[global]
fsid = $fsid
mon host = $(addresses "$2")
mon data = $1/mon
osd data = $1/osd
rgw data = $1
run dir = $1
crash dir = $1/crash
keyring = $1/keyring
admin socket =
log file = $1/\$name.log
public addr = 127.0.0.1
cluster addr = 127.0.0.1
auth cluster required = none
auth service required = none
auth client required = none
ms mon client mode = crc secure
ms mon service mode = crc secure
ms mon cluster mode = crc secure
ms client mode = crc secure
ms service mode = crc secure
ms cluster mode = crc secure
plugin dir = $lib/ceph
erasure code dir = $lib/ceph/erasure-code
osd class dir = $lib/rados-classes
mon allow pool size one = true
mon max pg per osd = 2000
mon data avail crit = 1
mon osd initial require min compat client = luminous
osd objectstore = bluestore
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 1
osd pool default pg autoscale mode = off
osd mclock skip benchmark = true
osd max object name len = 1024
bluestore block size = 21474836480
bluestore cache autotune = false
bluestore cache size = 134217728
rgw rados pool pg num min = 1
rgw enable apis = s3
rgw frontends = beast endpoint=127.0.0.1:$2 tcp_nodelay=1
rgw thread pool size = 64
CONF
}

daemon() { # FOLDER PROGRAM OPTION…: in its own session, so that Ctrl-C of the caller does not reach it
  local folder=$1 program=$2
  shift 2
  setsid "$tools/$program" -c "$folder/ceph.conf" "$@" -f >>"$folder/$program.out" 2>&1 </dev/null 7>&- 8>&- &
  echo $! >"$folder/$program.pid"
}

end() { # FOLDER PROGRAM
  local pid
  pid=$(cat "$1/$2.pid" 2>/dev/null) || return 0
  kill "$pid" 2>/dev/null || true
  for _ in $(seq 100); do
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.05
  done
  kill -9 "$pid" 2>/dev/null || true
  rm -f "$1/$2.pid"
}
end_all() { for program in radosgw ceph-osd ceph-mon; do end "$1" "$program"; done; }

answers() { # FOLDER PORT
  for _ in $(seq 1200); do
    if (exec 3<>"/dev/tcp/127.0.0.1/$2" && printf 'GET / HTTP/1.0\r\n\r\n' >&3 && head -1 <&3 | grep -q 200) 2>/dev/null; then return 0; fi
    kill -0 "$(cat "$1/radosgw.pid")" 2>/dev/null || return 1
    sleep 0.05
  done
  return 1
}

create() { # FOLDER PORT: a new cluster, up to the first answer of the gateway
  local folder=$1 port=$2
  mkdir -p "$folder"/{mon,osd,crash}
  configure "$folder" "$port"
  : >"$folder/keyring"
  "$tools/monmaptool" --create --addv a "$(addresses "$port")" --fsid "$fsid" "$folder/monmap"
  "$tools/osdmaptool" --createsimple 1 --clobber "$folder/osdmap"
  "$tools/ceph-mon" -c "$folder/ceph.conf" -i a --mkfs --monmap "$folder/monmap" --osdmap "$folder/osdmap"
  daemon "$folder" ceph-mon -i a
  "$tools/ceph-osd" -c "$folder/ceph.conf" -i 0 --mkfs --osd-uuid "$fsid"
  daemon "$folder" ceph-osd -i 0
  timeout 120 "$tools/radosgw-admin" -c "$folder/ceph.conf" user create --uid=test --display-name=test \
    --access-key="$key" --secret-key="$secret"
  daemon "$folder" radosgw -n client.admin
  answers "$folder" "$port"
}
