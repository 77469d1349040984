#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the packages that Millrace needs to build and test on Debian 12: as root, or through sudo.
# Quick and silent if everything is installed. Intel MKL is optional: without it the native kernels are used.
#
#   tools/setup.sh                install missing packages
#   tools/setup.sh --without-mkl  the same, without MKL (a download of 280 MB)
#   tools/setup.sh --with-clang   also clang and clang-tidy, for the presets clang, library and fuzz
#   tools/setup.sh --with-cluster also OpenMPI and sshd, for the tests of millrace-launch; not sshd where systemd would start it
#   tools/setup.sh --with-browser also Chromium, for the tests of the report page
#   tools/setup.sh --with-python  also what the Python package is built and tested with
#   tools/setup.sh --with-package also the packages to make a .deb with cpack, and to try it with tools/packaging/try_deb.sh
set -euo pipefail

required=(
  g++ cmake ninja-build pkg-config git python3 python3-numpy clang-format
  zlib1g-dev libzstd-dev libsimdjson-dev libcurl4-openssl-dev libgflags-dev libthrift-dev thrift-compiler libboost-dev libssl-dev openssl
  libdnnl-dev libjpeg-dev libpng-dev libjpeg-turbo-progs
  libgtest-dev libbenchmark-dev protobuf-compiler libprotobuf-dev curl
)
with_mkl=1
for arg in "$@"; do
  case "$arg" in
    --without-mkl) with_mkl=0 ;;
    --with-cluster)
      required+=(openmpi-bin)
      [ -d /run/systemd/system ] || required+=(openssh-server) ;;
    --with-clang) required+=(clang clang-tidy libclang-rt-14-dev libomp-dev) ;;
    --with-browser) required+=(chromium chromium-driver) ;;
    --with-python)
      required+=(pybind11-dev python3-dev python3-scipy python3-sklearn python3-pandas python3-pip python3-venv) ;;
    --with-package) required+=(dpkg-dev file debootstrap) ;;
    -h|--help) sed -n '3,12s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "setup: unknown option '$arg' (see --help)" >&2; exit 2 ;;
  esac
done

say() { printf 'setup: %s\n' "$*" >&2; }
installed() { dpkg-query -W -f='${db:Status-Status}\n' "$1" 2>/dev/null | grep -qx installed; }
missing_of() { local p; for p in "$@"; do installed "$p" || printf '%s\n' "$p"; done; }

command -v dpkg-query >/dev/null || {
  say "this is not a Debian system; install these yourself: ${required[*]}"; exit 1; }

mapfile -t missing < <(missing_of "${required[@]}")
[ "$(dpkg --print-architecture)" = amd64 ] || with_mkl=0
if [ "$with_mkl" = 1 ] && installed libmkl-dev; then with_mkl=0; fi
if [ ${#missing[@]} -eq 0 ] && [ "$with_mkl" = 0 ]; then exit 0; fi

as_root=()
if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null || {
    say "needs root or sudo to install: ${missing[*]}"; [ ${#missing[@]} -eq 0 ] || exit 1; exit 0; }
  as_root=(sudo)
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y \
    -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 "$@" >"$log" 2>&1
}

# Adds the non-free section to the entries that already give Debian's main section of this release.
enable_non_free() {
  local release file
  release=$(. /etc/os-release && echo "${VERSION_CODENAME:-bookworm}")
  for file in /etc/apt/sources.list.d/*.sources; do
    [ -e "$file" ] || continue
    "${as_root[@]}" env RELEASE="$release" perl -0pi -e '
      my $r = $ENV{RELEASE};
      $_ = join "\n\n", map {
        if (/^Suites:.*\b\Q$r\E/m && /^Components:.*\bmain\b/m && !/^Components:.*\bnon-free\b(?!-)/m) {
          s/^(Components:.*)$/$1 non-free/m;
        }
        $_;
      } split /\n{2,}/, $_;' "$file"
  done
  file=/etc/apt/sources.list
  if [ -e "$file" ]; then
    "${as_root[@]}" env RELEASE="$release" perl -pi -e '
      my $r = $ENV{RELEASE};
      s/$/ non-free/ if /^deb\s.*\s\Q$r\E\S*\s.*\bmain\b/ && !/\bnon-free\b(?!-)/;' "$file"
  fi
}

if [ ${#missing[@]} -gt 0 ]; then
  say "installing ${missing[*]}"
  apt update || { cat "$log" >&2; say "apt-get update failed"; exit 1; }
  apt install --no-install-recommends "${missing[@]}" || {
    cat "$log" >&2; say "could not install the packages above"; exit 1; }
fi

if [ "$with_mkl" = 1 ]; then
  say "installing libmkl-dev (280 MB, from the non-free section)"
  if ! { enable_non_free && apt update && apt install --no-install-recommends libmkl-dev; }; then
    say "libmkl-dev could not be installed: the build uses only the native kernels"
  fi
fi
