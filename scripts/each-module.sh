#!/bin/sh
# Runs a command in the folder of every module. A module where it fails does not
# stop the others, but fails the whole.
set -eu
cd "$(dirname "$0")/.."

failed=
for mod in $(find . -name go.mod -not -path '*/testdata/*' | LC_ALL=C sort); do
	dir=$(dirname "$mod")
	(cd "$dir" && "$@") || failed="$failed $dir"
done
if [ -n "$failed" ]; then
	echo "failed in:$failed: $*" >&2
	exit 1
fi
