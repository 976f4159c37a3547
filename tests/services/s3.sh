#!/usr/bin/env bash
# A private S3 server for tests: Ceph's gateway, with one monitor and one storage daemon below it.
#
#   s3.sh start NAME [PORT|auto]       start (or start again); prints http://key:secret@host:port, with a bucket "headwater"
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
bucket=headwater key=headwater secret=headwater-secret
fsid=5eadf00d-0000-4000-8000-000000000001

die() { echo "s3.sh: $*" >&2; exit 1; }
usage() { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0" >&2; exit 2; }
[[ $# -gt 1 ]] || usage
command=$1 name=$2 port=${3:-auto}
[[ $name =~ ^[A-Za-z0-9_-]+$ ]] || usage
dir=$run/$name
# shellcheck source=instance.sh
source "$here/instance.sh" # running and end are other ones here: several processes
make_bucket() { # URL
  local host=${1#*@} keys=${1#*://}
  command -v curl >/dev/null || "$here/install.sh" curl
  # Older versions of curl need to be told the hash of an empty body.
  curl -sf -o /dev/null --max-time 30 --aws-sigv4 aws:amz:us-east-1:s3 --user "${keys%@*}" -X PUT \
    -H x-amz-content-sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 "${1%%://*}://$host/$bucket" ||
    die "cannot make the bucket $bucket on $host"
}
if [[ -n ${HEADWATER_TEST_S3:-} ]]; then
  case $command in
  start) make_bucket "${HEADWATER_TEST_S3%/}" && echo "${HEADWATER_TEST_S3%/}" ;;
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
debug rgw = 0/0
debug rocksdb = 0/0
debug osd = 0/0
debug bluestore = 0/0
debug mon = 0/0
rgw frontends = beast endpoint=127.0.0.1:$2 tcp_nodelay=1
rgw thread pool size = 64
CONF
}

daemon() { # FOLDER PROGRAM OPTION…: in its own session, so that Ctrl-C of the caller does not reach it
  local folder=$1 program=$2
  shift 2
  setsid "$tools/$program" -c "$folder/ceph.conf" "$@" -f >>"$folder/$program.out" 2>&1 </dev/null 7>&- 8>&- &
  echo $! >"$folder/$program.pid"
  disown
}

end() { # FOLDER PROGRAM [SIGNAL]
  local pid
  pid=$(cat "$1/$2.pid" 2>/dev/null) || return 0
  kill "-${3:-TERM}" "$pid" 2>/dev/null || true
  for _ in $(seq 300); do
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.05
  done
  kill -9 "$pid" 2>/dev/null || true
  rm -f "$1/$2.pid"
}
end_all() { # FOLDER [SIGNAL]: the gateway keeps nothing and is slow to end
  end "$1" radosgw KILL
  end "$1" ceph-osd "${2:-TERM}"
  end "$1" ceph-mon "${2:-TERM}"
}

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

seed() { # a new cluster, made once for each version (20 s) and copied for each instance (its files are sparse)
  local seed=$cache/ceph-seed port
  mkdir -p "$cache"
  (
    flock 8
    [[ $(cat "$seed/.done" 2>/dev/null) == "$(version)" ]] && exit
    rm -rf "$seed"
    mkdir -p "$seed"
    port=$(free_ports)
    echo "a new Ceph cluster in $seed (once)" >&2
    if ! create "$seed" "$port" >"$seed/log" 2>&1; then
      end_all "$seed"
      tail -20 "$seed/log" >&2
      exit 1
    fi
    end_all "$seed"
    rm -rf "$seed"/*.log "$seed"/*.out
    version >"$seed/.done"
  ) 8>"$cache/ceph-seed.lock"
  cp -a --sparse=always "$seed" "$dir"
}
version() { "$tools/ceph-osd" --version; sed -n '/^configure/,/^}/p;/^create/,/^}/p' "$here/s3.sh" | cksum; }

running() { kill -0 "$(cat "$dir/radosgw.pid" 2>/dev/null)" 2>/dev/null; }
gateway() { daemon "$dir" radosgw -n client.admin; answers "$dir" "$port" || { tail -20 "$dir"/radosgw.out >&2; die "the server $name did not start"; }; }

case $command in
start)
  "$here/unpack.sh" "$cache/ceph" ceph >&2
  if ! running; then
    mkdir -p "$run"
    [[ -d $dir ]] || seed
    end_all "$dir"
    [[ $port != auto || ! -s $dir/port ]] || port=$(cat "$dir/port") # the same as before, so that jobs find it again
    [[ $port != auto ]] || port=$(free_ports)
    echo "$port" >"$dir/port"
    configure "$dir" "$port"
    # The monitor keeps its own address.
    "$tools/monmaptool" --create --clobber --addv a "$(addresses "$port")" --fsid "$fsid" "$dir/monmap" >/dev/null 2>&1
    inject() { "$tools/ceph-mon" -c "$dir/ceph.conf" -i a --inject-monmap "$dir/monmap" >>"$dir/ceph-mon.out" 2>&1; }
    inject || inject || inject # rarely it crashes as it ends
    daemon "$dir" ceph-mon -i a
    daemon "$dir" ceph-osd -i 0
    gateway
    watch_owner
  fi
  url=http://$key:$secret@127.0.0.1:$(cat "$dir/port")
  make_bucket "$url"
  echo "$url"
  ;;
stop) end_all "$dir" ;;
pause) end "$dir" radosgw KILL ;;
resume) port=$(cat "$dir/port") && gateway ;;
rm)
  end_all "$dir" KILL
  rm -rf "$dir"
  ;;
*) usage ;;
esac
