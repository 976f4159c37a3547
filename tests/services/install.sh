#!/usr/bin/env bash
# install.sh PACKAGE…: install packages with apt when we may, else say what to install.
set -euo pipefail
if [[ $(id -u) -ne 0 ]] || ! command -v apt-get >/dev/null; then
  echo "Missing on this machine. Install: $*    (on Debian or Ubuntu: sudo apt-get install $*)" >&2
  exit 1
fi
echo "installing $*" >&2
export DEBIAN_FRONTEND=noninteractive
apt-get -qq install -y --no-install-recommends "$@" >/dev/null 2>&1 </dev/null && exit 0
apt-get -qq update
apt-get -qq install -y --no-install-recommends "$@" >/dev/null </dev/null
