# What the scripts of this folder share that start private servers; to be sourced. $here is this folder, $dir the
# instance's and $name its name; a server of one process has its id in $dir/pid.

free_port() {
  local port
  while :; do
    port=$((20000 + RANDOM % 12000))
    (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null || { echo "$port"; return; }
  done
}

watch_owner() { # removes the instance when the owner has gone
  [[ -n ${HEADWATER_OWNER:-} && ! -e $dir/owner ]] || return 0
  echo "$HEADWATER_OWNER" >"$dir/owner"
  HEADWATER_OWNER='' setsid bash -c 'while kill -0 "$1" 2>/dev/null; do [[ -e $4/owner ]] || exit; sleep 1; done
    [[ ! -e $4/owner ]] || "$2" rm "$3"' - "$HEADWATER_OWNER" "$here/$(basename "$0")" "$name" "$dir" >/dev/null 2>&1 </dev/null &
}

running() { [[ -s $dir/pid ]] && kill -0 "$(cat "$dir/pid")" 2>/dev/null; }
end() { # SIGNAL
  running || return 0
  local pid
  pid=$(cat "$dir/pid")
  kill "-$1" "$pid"
  while kill -0 "$pid" 2>/dev/null; do sleep 0.05; done
}
