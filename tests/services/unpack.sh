#!/usr/bin/env bash
# unpack.sh DEST mysql|mariadb|ceph: a server and its tools from the packages of Debian or Ubuntu, with every library they need
# (the C library too), unpacked into DEST without root and without touching the host. DEST/tools/PROGRAM starts one.
# Debian stable has no MySQL: there the packages come from sid. Ubuntu's come from its configured sources.
set -euo pipefail
dest=$1 what=$2 apt=$1.apt
case $what in
mysql) programs=(mysqld mysql mysqlbinlog) families=(mysql-server-core mysql-client-core) own='mysql-(server|client)-core' ;;
mariadb) programs=(mariadbd mariadb) families=(mariadb-server-core mariadb-client-core)
  own='mariadb-(server|client)-core' ;;
ceph) programs=(monmaptool osdmaptool ceph-mon ceph-osd radosgw radosgw-admin) families=(ceph-mon ceph-osd radosgw)
  own='(ceph-(mon|osd|base|common)|radosgw)=' ;;
*) exit 2 ;;
esac
die() { echo "unpack.sh: $*" >&2; exit 1; }

[[ ! -f $dest/.done ]] || exit 0
mkdir -p "$(dirname "$dest")"
exec 9>"$dest.lock"
flock 9
[[ ! -f $dest/.done ]] || exit 0
mkdir -p "$apt"/{lists/partial,archives/partial,none}
echo "$what: unpacking packages into $dest (once)"

# apt with its own state: nothing counts as installed, so it works out the whole closure.
. /etc/os-release
case " ${ID:-} ${ID_LIKE:-} " in
*' ubuntu '*) sources=/etc/apt/sources.list parts=/etc/apt/sources.list.d ;;
*' debian '*)
  mirror=$(sed -n 's/^URIs: *\([^ ]*debian\)\/\{0,1\} *$/\1/p; s/^deb .*\(https\{0,1\}:[^ ]*debian\)\/\{0,1\} .*/\1/p' \
    /etc/apt/sources.list.d/*.sources /etc/apt/sources.list.d/*.list /etc/apt/sources.list 2>/dev/null | head -1 || true)
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] ${mirror:-http://deb.debian.org/debian} sid main" >"$apt/sources.list"
  sources=$apt/sources.list parts=$apt/none
  ;;
*) die "${ID:-this system} is neither Debian nor Ubuntu: its packages of $what cannot be unpacked" ;;
esac
: >"$apt/status"
cat >"$apt/apt.conf" <<CONF
Dir::Etc::sourcelist "$sources"; Dir::Etc::sourceparts "$parts"; Dir::Etc::preferencesparts "$apt/none";
Dir::State "$apt"; Dir::State::lists "$apt/lists"; Dir::State::status "$apt/status";
Dir::Cache "$apt"; Dir::Cache::archives "$apt/archives";
APT::Install-Recommends "0"; Acquire::Languages "none"; Acquire::Retries "3"; APT::Sandbox::User "root";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
CONF
export APT_CONFIG=$apt/apt.conf LC_ALL=C
apt-get -qq update || die "the package lists cannot be fetched"
newest() { apt-cache pkgnames "$1" | grep -E "^$1(-[0-9.]+)?$" | sort -V | tail -1; }
asked=()
for family in "${families[@]}"; do
  package=$(newest "$family")
  [[ -n $package ]] || die "the package sources have no $family"
  asked+=("$package")
done

# Of the closure only libraries and what was asked for: the rest serves installation scripts.
mapfile -t wanted < <(apt-get install -s "${asked[@]}" | sed -n 's/^Inst \([^ ]*\) (\([^ ]*\) .*/\1=\2/p' |
  grep -E "^(lib|$own)" | grep -vE '^lib(perl|pam|systemd-shared|[a-z-]*-perl=)')
[[ ${#wanted[@]} -gt 5 ]] || die "apt cannot work out what ${asked[*]} needs"
(cd "$apt/archives" && apt-get -qq download "${wanted[@]}") || die "the packages cannot be fetched"
rm -rf "$dest.new"
mkdir -p "$dest.new/tools"
for deb in "$apt"/archives/*.deb; do dpkg-deb -x "$deb" "$dest.new"; done
rm -rf "$dest.new"/usr/share/{doc,man,locale,lintian,bug} "$apt"

# A program starts through its own loader, told where its libraries are.
loader=$(cd "$dest.new" && find . \( -name 'ld-linux-*.so.*' -o -name 'ld64.so.*' \) | sort | tail -1)
libraries=$(cd "$dest.new" && find . -name '*.so*' -path '*/lib/*' ! -path '*/plugin/*' ! -path '*/gconv/*' -printf '%h\n' | sort -u)
for program in "${programs[@]}"; do
  file=$(cd "$dest.new" && find ./usr/bin ./usr/sbin -name "$program" -type f | head -1)
  [[ -n $file ]] || die "$program is not in the packages"
  {
    echo '#!/bin/sh'
    echo 'top=$(cd "$(dirname "$0")/.." && pwd)'
    printf 'exec "$top/%s" --library-path "%s" "$top/%s" "$@"\n' "$loader" \
      "$(printf '%s\n' "$libraries" | sed 's#^#$top/#' | paste -sd:)" "$file"
  } >"$dest.new/tools/$program"
  chmod +x "$dest.new/tools/$program"
done
rm -rf "$dest"
mv "$dest.new" "$dest"
"$dest/tools/${programs[0]}" --version >/dev/null 2>&1 || "$dest/tools/${programs[0]}" --help >/dev/null || die "the unpacked programs do not run"
touch "$dest/.done"
