#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Gets the library of DuckDB, which reads Parquet files and SQL queries: libduckdb.so in data/duckdb, or in the folder
# given. It comes from the npm package @duckdb/node-bindings-linux-x64 (or -arm64), whose checksum npm verifies.
set -euo pipefail
version=1.5.6-r.1
case "${1:-}" in
  -*) echo "usage: tools/get_duckdb.sh [FOLDER]    (default data/duckdb of this source tree)"; [ "$1" = --help ]; exit ;;
  '') cd "$(dirname "$0")/.."; folder=data/duckdb ;;
  *) folder=$1 ;;
esac

if [ "$(cat "$folder/VERSION" 2>/dev/null)" = "$version" ] && [ -s "$folder/libduckdb.so" ]; then
  echo "get_duckdb: $folder/libduckdb.so is version $version"
  exit 0
fi
case "$(uname -m)" in
  x86_64) package=@duckdb/node-bindings-linux-x64 ;;
  aarch64) package=@duckdb/node-bindings-linux-arm64 ;;
  *) echo "get_duckdb: expected x86_64 or aarch64, found $(uname -m): build DuckDB from source" >&2; exit 1 ;;
esac
command -v npm >/dev/null || {
  echo "get_duckdb: npm is not installed. Install it (Debian package npm), or get libduckdb.so of DuckDB 1.5 or" >&2
  echo "get_duckdb: later yourself and name it with --duckdb=FILE." >&2
  exit 1
}
mkdir -p "$folder"
work=$(mktemp -d "$folder/fetch-XXXXXX")
trap 'rm -rf "$work"' EXIT
(cd "$work" && npm pack --silent "$package@$version" >/dev/null) || {
  echo "get_duckdb: npm could not fetch the package $package, version $version" >&2; exit 1; }
tar -xzf "$work"/*.tgz -C "$work"
[ -s "$work/package/libduckdb.so" ] || { echo "get_duckdb: the package has no libduckdb.so" >&2; exit 1; }
mv "$work/package/libduckdb.so" "$folder/libduckdb.so"
echo "$version" >"$folder/VERSION"
echo "get_duckdb: $folder/libduckdb.so is version $version"
