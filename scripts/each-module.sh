#!/bin/sh
# Runs a command in the folder of every module. A module where it fails does not
# stop the others, but fails the whole. One that needs a newer Go is left out.
set -eu
cd "$(dirname "$0")/.."
go=$(go env GOVERSION)

# older reports whether this Go is older than the one in a go.mod.
older() {
	needed=go$(awk '$1 == "go" { print $2 }' "$1")
	[ "$needed" != "$go" ] && [ "$(printf '%s\n' "$needed" "$go" | sort -V | tail -n 1)" = "$needed" ]
}

failed=
for mod in $(find . -name go.mod -not -path '*/testdata/*' | LC_ALL=C sort); do
	dir=$(dirname "$mod")
	if older "$mod"; then
		echo "left out: $dir needs $needed" >&2
		continue
	fi
	work=${GOWORK:-}
	grep -q "^[[:space:]]*$dir\$" go.work || work=off
	(cd "$dir" && GOWORK=$work "$@") || failed="$failed $dir"
done
if [ -n "$failed" ]; then
	echo "failed in:$failed: $*" >&2
	exit 1
fi
