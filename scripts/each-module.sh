#!/bin/sh
# Runs a command in the folder of every module. A module where it fails does not
# stop the others, but fails the whole. One that needs a newer Go is left out.
# MODULES chooses some by their folders.
set -eu
cd "$(dirname "$0")/.."
go=$(go env GOVERSION)

# older reports whether this Go is older than the one in a go.mod.
older() {
	needed=go$(awk '$1 == "go" { print $2 }' "$1")
	[ "$needed" != "$go" ] && [ "$(printf '%s\n' "$needed" "$go" | sort -V | tail -n 1)" = "$needed" ]
}

# workspace_only reports whether a module needs the root, and does not replace
# it: go install refuses a replace.
workspace_only() { grep -q '^[[:space:]]*github.com/relock-go/relock v' "$1" && ! grep -q '^replace ' "$1"; }

# replaced prints GOFLAGS with which such a module finds the root.
copies=$(mktemp -d)
trap 'rm -rf "$copies"' EXIT
replaced() {
	cp "$1/go.mod" "$1/go.sum" "$copies"
	echo "replace github.com/relock-go/relock => $PWD" >>"$copies/go.mod"
	echo "$(go env GOFLAGS) -modfile=$copies/go.mod"
}

failed=
for dir in ${MODULES:-$(find . -name go.mod -not -path '*/testdata/*' -exec dirname {} \; | LC_ALL=C sort)}; do
	mod=$dir/go.mod
	if older "$mod"; then
		echo "left out: $dir needs $needed" >&2
		continue
	fi
	work=${GOWORK:-}
	grep -q "^[[:space:]]*$dir\$" go.work || work=off
	flags=${GOFLAGS:-}
	[ "$work" != off ] || ! workspace_only "$mod" || flags=$(replaced "$dir")
	(cd "$dir" && GOWORK=$work GOFLAGS=$flags "$@") || failed="$failed $dir"
done
if [ -n "$failed" ]; then
	echo "failed in:$failed: $*" >&2
	exit 1
fi
