#!/bin/sh
# Looks for mistakes in every module. With -fix it first mends those that tools
# can mend: format, go.mod, docs/internals/api, and what golangci-lint offers.
# The version of golangci-lint is pinned, as a newer one finds other things.
# shellcheck disable=SC2086 # $diff, $fix and $workspace: some words, or none
set -eu
cd "$(dirname "$0")/.."
root=$PWD
golangci=2.15.0
diff=-diff
fix=
if [ "${1:-}" = -fix ]; then
	diff=
	fix=--fix
	gofmt -w .
fi

unformatted=$(gofmt -l .)
if [ -n "$unformatted" ]; then
	echo "not formatted, run gofmt -w on:" >&2
	echo "$unformatted" >&2
	exit 1
fi

echo "lint: go mod tidy"
GOWORK=off scripts/each-module.sh go mod tidy $diff
case $(go env GOVERSION) in
go1.25*) ;; # too old for the newest go-redis and OpenTelemetry
*)
	for dir in goredis otel; do
		GOWORK=off go mod tidy -C "$dir" -modfile=newest.mod $diff
	done
	;;
esac

# Without the workspace, as users see a module.
echo "lint: go vet"
GOWORK=off scripts/each-module.sh go vet ./...

echo "lint: public API"
scripts/api.sh $diff

echo "lint: golangci-lint $golangci"
installed=$(golangci-lint version --short 2>/dev/null || true)
if [ "${installed#v}" = "$golangci" ]; then
	set -- golangci-lint
else
	set -- go run "github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v$golangci"
fi
# The modules of the workspace together, which takes a fifth less: what they
# share is read once.
workspace=$(awk '$1 ~ /^\./ { print $1 "/..." }' go.work)
"$@" run --config "$root/.golangci.yml" $fix $workspace
outside=$(find . -name go.mod -not -path '*/testdata/*' -exec dirname {} \; | while read -r dir; do
	grep -q "^[[:space:]]*$dir\$" go.work || echo "$dir"
done)
MODULES=$outside scripts/each-module.sh "$@" run --config "$root/.golangci.yml" $fix ./...

if command -v shellcheck >/dev/null; then
	echo "lint: shellcheck"
	shellcheck scripts/*.sh docs/internals/models/*.sh .ci/run
fi
