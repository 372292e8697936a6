#!/bin/sh
# Tests every module. "cover" runs the tests of the engine only and leaves its
# coverage in coverage.out. "long [regexp [flag...]]" runs the heavy tests only
# and at full length, with "." those of etcd too.
set -eu
cd "$(dirname "$0")/.."

race=
if [ "$(go env CGO_ENABLED)" = 1 ] && command -v "$(go env CC)" >/dev/null; then
	race=-race
fi

# A program under the race detector sleeps for a second before it ends, and so
# does each process that the tests start.
export GORACE="atexit_sleep_ms=0 ${GORACE:-}"

if [ "${1:-}" = long ]; then
	run=${2:-.}
	shift "$(($# < 2 ? $# : 2))"
	go test -C proof $race -timeout 30m -v -run "$run" "$@" . -long
	[ "$run" = . ] || exit 0
	RELOCK_ETCD_CYCLES=${RELOCK_ETCD_CYCLES:-20000} exec go test -C etcd/test $race -timeout 30m -v -run 'Storm|Many(Cycles|Cancels)' .
fi

# Most tests wait most of the time: more run side by side than there are
# processors, as many as leave tests of time alone.
cores=$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)
side_by_side() { echo $((cores * $1)); }

if [ "${1:-}" = cover ]; then
	rm -f coverage.out
	engine=$(go list . ./internal/... | grep -Ev '/(competition|containertest|faults|locktest|ports|redistest|scripttest|testkit)$' | paste -sd, -)
	# shellcheck disable=SC2046 # one word for each package
	RELOCK_CELLS=all go test $race -shuffle=on -p 2 -parallel "$(side_by_side 3)" -coverpkg="$engine" -coverprofile=coverage.out $(go list . ./lua ./internal/... ./proof/matrix | grep -Ev '/(competition|containertest|faults|ports|redistest)$') || {
		rm -f coverage.out
		exit 1
	}
	exit
fi

# Without coverage, which takes a quarter more time with the race detector, and
# with a third of the cells of each large matrix. Beside others, tests of time
# fail where the machine is busy: the packages with many such tests run a few
# together, and those that usually wait side by side.
root=$(go list .)
timed="$root $root/internal/driver $root/internal/waitqueue $root/internal/lease $root/internal/acquire $root/proof/matrix"
modules=$(go list -m -f '{{.Dir}}/...')
# shellcheck disable=SC2086 # one word for each module
others=$(go list $modules | LC_ALL=C sort -u)
for package in $timed $root/etcd/test $root/proof; do
	others=$(echo "$others" | grep -vx "$package")
done
# shellcheck disable=SC2086 # one word for each package
go test $race -shuffle=on -p 3 -parallel "$(side_by_side 3)" $timed
# shellcheck disable=SC2086 # one word for each package
go test $race -shuffle=on -p 4 $others
go test $race -shuffle=on -parallel "$(side_by_side 2)" "$root/etcd/test"
# goredis with the oldest go-redis that it supports, and with the newest. The
# workspace has one in between.
GOWORK=off go test -C goredis $race -shuffle=on -parallel "$(side_by_side 3)" -skip Conformance .
case $(go env GOVERSION) in
go1.25*) echo "goredis: the newest go-redis needs Go 1.26" ;;
*) GOWORK=off go test -C goredis -modfile=newest.mod $race -shuffle=on -parallel "$(side_by_side 3)" -skip Conformance . ;;
esac
# Without what "make test-heavy" runs at full length.
go test $race -shuffle=on -parallel "$(side_by_side 2)" -skip "${HEAVY:-}" "$root/proof"
