#!/bin/sh
# Tests every module. With the argument "root" it tests the root package alone, with "long" the heavy tests alone and at full length.
# The root package leaves its coverage in coverage.out.
set -eu
cd "$(dirname "$0")/.."

race=
if [ "$(go env CGO_ENABLED)" = 1 ] && command -v "$(go env CC)" >/dev/null; then
	race=-race
fi

if [ "${1:-}" = long ]; then
	cd proof
	exec go test $race -timeout 30m -v -run "${2:-.}" . -long
fi

# Most tests of the root package wait for most of the time.
parallel=$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)
[ "$parallel" -ge 8 ] || parallel=8

rm -f coverage.out
go test $race -shuffle=on -parallel "$parallel" -coverprofile=coverage.out . || {
	rm -f coverage.out
	exit 1
}
if [ "${1:-}" = root ]; then
	exit
fi
others=$(go list ./... | grep -vx "$(go list .)")
# shellcheck disable=SC2086 # one word for each package
go test $race -shuffle=on $others
find . -mindepth 2 -name go.mod -not -path '*/testdata/*' | LC_ALL=C sort | while read -r mod; do
	(cd "$(dirname "$mod")" && go test $race -shuffle=on ./... </dev/null)
done
