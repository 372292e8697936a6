#!/bin/sh
# Tests what users import, as they see it, without the race detector. "all" runs
# the tests of every module, with it. "cover" runs the tests of the engine only
# and leaves its coverage in coverage.out. "long [regexp [flag...]]" runs the
# heavy tests only and at full length, with "." those of goredis and etcd too.
# "alone" runs the tests that need no server, for systems that have none.
# "server [regexp]" runs the tests of the root package and the conformance
# suite, to try another server.
set -eu
cd "$(dirname "$0")/.."

race=
# The tests of etcd build this program, without the race detector, and start it.
etcd_server=./etcd/test/internal/serve
# Compilers would take the processors from tests of time, so they come first.
# shellcheck disable=SC2086 # one word for each package
compile() {
	packages=$1
	shift
	go list "$@" $race -test -export $packages >/dev/null
}

if [ $# = 0 ]; then
	# Storms, series of failovers, matrices of faults, and the suite over
	# Clusters and Sentinels belong to "all". Two groups run one after the
	# other, so that no suite takes the processors from all others.
	locks='. ./queue ./relocktest/... ./fence ./utils ./relockweb'
	compile "$locks ./examples/... ./examples/heavy/competition ./goredis ./otel ./etcd ./etcd/test $etcd_server"
	# shellcheck disable=SC2086 # one word for each package
	go test -shuffle=on -p 3 -skip 'ConformanceOver(Cluster|Sentinel)|^TestFaultsOf' $locks
	go test -shuffle=on -skip 'Storm|Many(Cycles|Cancels)' ./etcd/test & # it usually waits
	failed=
	go test -shuffle=on -p 4 -skip 'Conformance|HandOffs' ./goredis ./otel ./etcd \
		./examples/... ./examples/heavy/competition || failed=1
	wait $! && [ -z "$failed" ]
	exit
fi

# Without CI, a test that lacks its server is skipped. An example cannot be, so
# packages that have nothing else are missing. Four more are of Linux: suspends,
# the state of sockets, the servers of tests, and lateness of timers.
if [ "${1:-}" = alone ]; then
	unset CI RELOCK_TEST_REDIS
	alone=$(go list . ./queue ./relocktest/... ./relockweb ./internal/... | grep -Ev '/internal/(suspend|redis/conns|test/(redistest|testkit))$')
	# shellcheck disable=SC2086 # one word for each package
	exec go test -shuffle=on -run '^Test' $alone
fi

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
	go test -C cmd/relock $race -timeout 30m -v -run "$run" "$@" ./internal/cli -long
	[ "$run" = . ] || exit 0
	RELOCK_CELLS=all go test -C goredis $race -timeout 30m -v -run HandOffsWhileMasters .
	RELOCK_ETCD_CYCLES=${RELOCK_ETCD_CYCLES:-20000} exec go test -C etcd/test $race -timeout 30m -v -run 'Storm|Many(Cycles|Cancels)' .
fi

# Most tests wait most of the time: more run side by side than there are
# processors, as many as leave tests of time alone.
cores=$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)
side_by_side() { echo $((cores * $1)); }

if [ "${1:-}" = server ]; then
	exec go test $race -shuffle=on -p 1 -parallel "$(side_by_side 3)" -run "${2:-.}" . ./relocktest/conform
fi

if [ "${1:-}" = cover ]; then
	rm -f coverage.out
	engine=$(go list . ./internal/... | grep -v /internal/test/ | paste -sd, -)
	# shellcheck disable=SC2046 # one word for each package
	RELOCK_CELLS=all go test $race -shuffle=on -p 2 -parallel "$(side_by_side 3)" -coverpkg="$engine" -coverprofile=coverage.out $(go list . ./lua ./internal/... ./proof/matrix | grep -v /internal/test/) || {
		rm -f coverage.out
		exit 1
	}
	exit
fi

# Without coverage, which takes a quarter more time with the race detector, and
# with a third of the cells of each large matrix. Beside others, tests of time
# fail where the machine is busy: the packages with many such tests run a few
# together, and those that usually wait side by side. The longest goes first.
root=$(go list .)
kinds=$(go list ./internal/kinds/...)
timed="$root $kinds $root/internal/acquire $root/internal/waitqueue $root/internal/redis/conns"
timed="$timed $root/proof/matrix $root/internal/lease $root/examples/flashsale"
modules=$(go list -m -f '{{.Dir}}/...')
# shellcheck disable=SC2086 # one word for each module
others=$(go list $modules | LC_ALL=C sort -u)
# The longest of the others go first.
longest="$root/relocktest/conform $root/goredis $root/queue $root/lua $root/internal/redis/sentinel $root/internal/redis/cluster $root/internal/redis/routes"
longest="$longest $root/proof/containers $root/relockweb/browser $root/internal/test/redistest"
for package in $timed $longest "$root/etcd/test" "$root/proof"; do
	others=$(echo "$others" | grep -vx "$package")
done
newest=1
case $(go env GOVERSION) in
go1.25*)
	newest=
	echo "left out: bench, whose redsync needs Go 1.26, goredis with the newest go-redis, and otel with the newest OpenTelemetry"
	;;
esac

compile "$modules"
go list -export "$etcd_server" >/dev/null
(
	export GOWORK=off
	compile . -C goredis
	compile . -C otel
	[ -z "$newest" ] || {
		compile . -C goredis -modfile=newest.mod
		compile . -C otel -modfile=newest.mod
		compile ./... -C bench
	}
)

# shellcheck disable=SC2086 # one word for each package
go test $race -shuffle=on -p 3 -parallel "$(side_by_side 2)" $timed
# etcd's clients and servers use both processors, and its requests have limits:
# beside others, they are not answered in time.
go test $race -shuffle=on "$root/etcd/test"
# These usually wait. goredis runs once more with the oldest go-redis that it
# supports, and with the newest, without the suite and the storms. The workspace
# has one in between. The same is true of otel and OpenTelemetry.
# shellcheck disable=SC2086 # no word for the race detector, or one
in_version() { GOWORK=off go test -C "$@" $race -shuffle=on -parallel "$(side_by_side 3)" -skip 'Conformance|HandOffs' .; }
apart() {
	in_version goredis
	in_version otel
	[ -z "$newest" ] || {
		in_version goredis -modfile=newest.mod
		in_version otel -modfile=newest.mod
		# shellcheck disable=SC2086
		GOWORK=off go test -C bench $race -shuffle=on ./...
	}
}
apart &
beside=$!
failed=
# shellcheck disable=SC2086 # one word for each package
go test $race -shuffle=on -p 3 $longest $others || failed=1
wait "$beside" && [ -z "$failed" ] || exit 1
# It measures, so it runs alone, and without what "make test-heavy" runs at full
# length.
go test $race -shuffle=on -parallel "$(side_by_side 4)" -skip "${HEAVY:-}" "$root/proof"
