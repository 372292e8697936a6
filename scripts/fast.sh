#!/bin/sh
# The loop of daily work, under a minute with warm caches: build and vet
# everything, lint the packages that changed since RELOCK_BASE (default HEAD),
# and run the tests that need no server. bench is not in the workspace.
set -eu
cd "$(dirname "$0")/.."

everything=$(go list -m -f '{{.Dir}}/...')
echo "fast: build and vet"
# shellcheck disable=SC2086 # one word for each module
go vet $everything
case $(go env GOVERSION) in
go1.25*) bench=skip ;; # its peers need Go 1.26
*) bench=run && GOWORK=off go vet -C bench ./... ;;
esac

changed=$({ git diff --name-only --diff-filter=d "${RELOCK_BASE:-HEAD}"; git ls-files --others --exclude-standard; } | grep '\.go$' || true)
folders=$(for file in $changed; do dirname "$file"; done | LC_ALL=C sort -u | sed 's|^|./|')
if [ -n "$folders" ] && command -v golangci-lint >/dev/null; then
	echo "fast: lint"
	[ "$bench" = skip ] || ! echo "$folders" | grep -qx ./bench || (cd bench && GOWORK=off golangci-lint run --config ../.golangci.yml)
	inside=$(echo "$folders" | grep -vx ./bench || true)
	# shellcheck disable=SC2086 # one word for each folder
	[ -z "$inside" ] || golangci-lint run $inside
elif [ -n "$folders" ]; then
	echo "fast: only gofmt, golangci-lint is not on PATH"
	# shellcheck disable=SC2086
	unformatted=$(gofmt -l $folders)
	[ -z "$unformatted" ] || { echo "not formatted: $unformatted" >&2; exit 1; }
fi

echo "fast: tests that need no server"
go test ./internal/suspend ./internal/goroutines ./utils \
	./proof/mutants ./proof/luacover ./proof/structure ./proof/internal/testbinary
go test -run 'Test(Free|Block|NoBlock)' ./internal/test/redistest
[ "$bench" = skip ] || GOWORK=off go test -C bench -skip Excludes .
go test -run 'Counted|ByTheMonotonicClock|ErrorLines' ./internal/redis/...
go test ./internal/background
go test -run 'Guarantees|MapNames|Mistakes|Classify|Retryable' -skip RedLock .
