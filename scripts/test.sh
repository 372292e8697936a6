#!/bin/sh
# Tests every module. "cover" tests the root package only and leaves its
# coverage in coverage.out. "long [regexp [flag...]]" runs the heavy tests only
# and at full length, with "." those of etcd too.
set -eu
cd "$(dirname "$0")/.."

race=
if [ "$(go env CGO_ENABLED)" = 1 ] && command -v "$(go env CC)" >/dev/null; then
	race=-race
fi

if [ "${1:-}" = long ]; then
	run=${2:-.}
	shift "$(($# < 2 ? $# : 2))"
	go test -C proof $race -timeout 30m -v -run "$run" "$@" . -long
	[ "$run" = . ] || exit 0
	RELOCK_ETCD_CYCLES=${RELOCK_ETCD_CYCLES:-20000} exec go test -C etcd/test $race -timeout 30m -v -run 'Storm|Many(Cycles|Cancels)' .
fi

# Most tests wait most of the time.
parallel=$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)
[ "$parallel" -ge 8 ] || parallel=8

if [ "${1:-}" = cover ]; then
	rm -f coverage.out
	go test $race -shuffle=on -parallel "$parallel" -coverprofile=coverage.out . || {
		rm -f coverage.out
		exit 1
	}
	exit
fi

# Without coverage, which takes a quarter more time with the race detector.
go test $race -shuffle=on -parallel "$parallel" .

# Beside others, tests of time pass what a busy machine passes: two packages of
# many such tests run one after the other, and the packages that mostly wait
# side by side.
root=$(go list .)
busy="$root/etcd/test $root/proof"
modules=$(go list -m -f '{{.Dir}}/...')
# shellcheck disable=SC2086 # one word for each module
others=$(go list $modules | LC_ALL=C sort -u)
for package in $root $busy; do
	others=$(echo "$others" | grep -vx "$package")
done
# shellcheck disable=SC2086 # one word for each package
go test $race -shuffle=on -p 4 $others
# shellcheck disable=SC2086
go test $race -shuffle=on -p 1 $busy
