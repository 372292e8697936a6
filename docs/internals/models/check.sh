#!/bin/sh
# Runs the models of the wait queue, of a Cluster, of MultiLocks, of the task
# queue, of ForceUnlock and of mixed modes through spin: what is right must show
# no error, and each mutant must show one. As many runs side by side as there
# are processors. Needs spin, and tcc or gcc. Without them it does nothing,
# except under CI. Usage: check.sh [name...], to run only these.
set -eu

# Most programs run for less than a second: tcc saves two thirds of the time.
if command -v tcc >/dev/null; then
	compiler=tcc
else
	compiler='gcc -O0'
fi
if ! command -v spin >/dev/null || ! command -v "${compiler%% *}" >/dev/null; then
	echo "model: skipped, spin or a compiler is not there"
	[ -z "${CI:-}" ]
	exit
fi

# one NAME WANT MODEL SEARCH FLAG...: a run in a separate folder, as xargs
# starts it. It fails unless the model shows what is wanted.
one() {
	name=$1 want=$2 model=$3 search=$4
	shift 4
	mkdir "$RELOCK_MODELS/$name"
	cd "$RELOCK_MODELS/$name"
	cp "$here"/*.pml .
	np='' l=''
	[ "$search" = states ] || np=-DNP l=-l
	spin -a "$@" "$model" >out 2>&1 || cat out
	# shellcheck disable=SC2086 # $compiler: two words
	$compiler -w $np -DNOFAIR -DNOREDUCE -DMEMLIM=1000 -o pan pan.c
	start=$(date +%s)
	./pan $l -m100000 >out 2>&1 || true
	seconds=$(($(date +%s) - start))
	states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' out)
	got=unfinished
	if grep -q 'errors: 0$' out && ! grep -q 'max search depth\|out of memory\|Search not completed' out; then
		got=ok
	elif grep -q 'errors: 1$' out; then
		got=error
	fi
	found=$(sed -n 's/^pan:1: \(.*\) (at depth.*/\1/p' out)
	verdict=
	[ "$got" = "$want" ] || verdict=' <-- NOT AS IT SHOULD BE'
	printf '%-32s %-6s %9s states %3s s  %s%s\n' "$name" "$got" "${states:-?}" "$seconds" "$found" "$verdict"
	[ -z "$verdict" ]
}

here=$(cd "$(dirname "$0")" && pwd)
if [ "${1:-}" = --one ]; then
	shift
	one "$@"
	exit
fi
RELOCK_MODELS=$(mktemp -d)
export RELOCK_MODELS
trap 'rm -rf "$RELOCK_MODELS"' EXIT
only=" $* "

# run NAME WANT FLAG...: WANT is ok or error. Search is for cycles, of which
# there must be none, and assertions; or for states in which nobody can go on.
model=queue.pml search=cycles
run() {
	case $only in *" $1 "* | "  ") ;; *) return 0 ;; esac
	name=$1 want=$2
	shift 2
	# xargs takes a line that ends with a blank for one that goes on.
	echo "$name $want $model $search${*:+ $*}" >>"$RELOCK_MODELS/runs"
}

# granted NAME FLAG...: a run whose two waiters have nonces.
granted() {
	name=$1
	shift
	run "$name" ok "$m" -DNW=2 -DGRANT=3 "$@"
}

for mode in UNFAIR FAIR; do
	m=-D$mode
	run "$mode-cancel" ok "$m" -DNW=3 -DGIVEUP=1 -DPOLLS=1
	run "$mode-late" ok "$m" -DNW=2 -DGIVEUP=1 -DLATE=1 -DMSGTWICE=1 -DPOLLS=1
	run "$mode-lost" ok "$m" -DNW=2 -DTIMERS -DLATE=1 -DLOST=1 -DMSGLOST=1 -DGIVEUP=1
	run "$mode-crash" ok "$m" -DNW=2 -DTIMERS -DCRASH=1 -DMSGLOST=1 -DSUBLOST=1
	run "$mode-three-clients" ok "$m" -DNW=3 -DNC=3 -DTIMERS -DCRASH=1
	run "$mode-hang" ok "$m" -DNW=2 -DTIMERS -DHANG=1 -DPAUSE=1 -DSLOW=1 -DFLUSH=1
	run "$mode-subscribe-after" ok "$m" -DNW=2 -DM_SUBSCRIBE_AFTER
	granted "$mode-grant-late" -DGIVEUP=1 -DLATE=1 -DMSGTWICE=1 -DFORGE=1
	granted "$mode-grant-crossed" -DTIMERS -DUNWAIT=1 -DLATE=1 -DMSGTWICE=1 -DPOLLS=1
	granted "$mode-grant-lost" -DTIMERS -DUNWAIT=1 -DGIVEUP=1 -DLATE=1 -DLOST=1 -DMSGLOST=1
	granted "$mode-grant-crash" -DTIMERS -DCRASH=1 -DMSGLOST=1 -DSUBLOST=1 -DFORGE=1
	granted "$mode-grant-hang" -DTIMERS -DHANG=1 -DPAUSE=1 -DSLOW=1 -DFLUSH=1
	granted "$mode-grant-replaced" -DTIMERS -DSUBLOST=1 -DMSGTWICE=1 -DSLOW=1 -DFLUSH=1
	granted "$mode-grant-fails" -DTIMERS -DFAIL=1 -DTRY=1 -DFORGE=1
	run "$mode-grant-some" ok "$m" -DNW=3 -DGRANT=5 -DTIMERS -DSLOW=1 -DMSGTWICE=1
done
run FAIR-new-ticket ok -DFAIR -DNW=3 -DTIMERS -DPAUSE=1 -DSLOW=1 -DM_NEW_TICKET
run FAIR-claim-any ok -DFAIR -DNW=3 -DTIMERS -DSLOW=1 -DPAUSE=1 -DMSGTWICE=1 -DM_CLAIM_ANY
run UNFAIR-claim-keeps ok -DNW=3 -DGIVEUP=1 -DPOLLS=1 -DM_CLAIM_KEEPS
run UNFAIR-claim-keeps-late ok -DNW=2 -DTIMERS -DLATE=1 -DSLOW=1 -DGIVEUP=1 -DM_CLAIM_KEEPS
run FAIR-one-script ok -DFAIR -DNW=2 -DTIMERS -DLATE=1 -DGIVEUP=1 -DMSGLOST=1 -DONE_SCRIPT
run UNFAIR-one-script ok -DNW=2 -DTIMERS -DLATE=1 -DGIVEUP=1 -DMSGLOST=1 -DONE_SCRIPT

run no-poll error -DFAIR -DNW=2 -DTIMERS -DMSGLOST=1 -DM_NO_POLL
run poll-only-heartbeats error -DFAIR -DNW=2 -DTIMERS -DCRASH=1 -DM_POLL_ONLY_HEARTBEATS
run poll-takes error -DFAIR -DNW=3 -DTIMERS -DCRASH=1 -DPOLLS=1 -DM_POLL_TAKES
run poll-hides-hold error -DFAIR -DNW=2 -DTIMERS -DLATE=1 -DMSGLOST=1 -DTRY=1 -DM_POLL_HIDES_HOLD
run not-put-back error -DFAIR -DNW=2 -DTIMERS -DHANG=1 -DM_NOT_PUT_BACK
run counted-once error -DNW=2 -DTIMERS -DCRASH=1 -DSUBLOST=1 -DM_COUNTED_ONCE
run cancel-removes error -DFAIR -DNW=2 -DGIVEUP=1 -DM_CANCEL_REMOVES
run cancel-keeps-wakeup error -DNW=3 -DGIVEUP=1 -DM_CANCEL_KEEPS_WAKEUP
run cancel-once error -DFAIR -DNW=2 -DGIVEUP=1 -DLATE=1 -DM_CANCEL_ONCE
run release-only error -DFAIR -DNW=2 -DTIMERS -DLATE=1 -DM_RELEASE_ONLY
run unknown-ignored error -DFAIR -DNW=3 -DGIVEUP=1 -DPOLLS=1 -DM_UNKNOWN_IGNORED
run unknown-frees error -DFAIR -DNW=2 -DMSGTWICE=1 -DTRY=1 -DM_UNKNOWN_FREES
run reserved-for-ever error -DFAIR -DNW=2 -DTIMERS -DCRASH=1 -DM_RESERVED_FOR_EVER
run try-barges error -DFAIR -DNW=3 -DTIMERS -DCRASH=1 -DTRY=1 -DM_TRY_BARGES
run never-woken error -DFAIR -DNW=2 -DM_SUBSCRIBE_AFTER -DM_NO_POLL_AT_SUBSCRIBE

run grant-from-receipt error -DFAIR -DNW=2 -DGRANT=3 -DTIMERS -DTRY=1 -DMAYLOSE -DSLOW=1 -DM_FROM_RECEIPT
run grant-forgotten error -DNW=2 -DGRANT=3 -DTRY=1 -DMAYLOSE -DMSGTWICE=1 -DM_FORGOTTEN
run grant-forgotten-poll error -DNW=2 -DGRANT=3 -DTRY=1 -DMAYLOSE -DPOLLS=1 -DM_FORGOTTEN
run grant-forged error -DFAIR -DNW=2 -DGRANT=3 -DMAYLOSE -DFORGE=1 -DM_FORGED
run grant-woken error -DNW=2 -DGRANT=3 -DMAYLOSE -DTRY=2 -DM_WOKEN_IS_GRANTED
run grant-fails-after error -DNW=2 -DGRANT=3 -DTIMERS -DTRY=1 -DMAYLOSE -DFAIL=1 -DM_FAILS_AFTER_MESSAGE
run grant-names-hold error -DFAIR -DNW=2 -DGRANT=3 -DM_RELEASE_NAMES_HOLD
run grant-claim-lost-ignored error -DFAIR -DNW=2 -DGRANT=3 -DTIMERS -DFLUSH=1 -DTRY=1 -DM_CLAIM_LOST_IGNORED
run grant-cancel-once error -DFAIR -DNW=2 -DGRANT=3 -DTIMERS -DUNWAIT=1 -DLATE=1 -DPOLLS=1 -DM_RELEASE_ONLY
model=cluster.pml
for mode in UNFAIR FAIR; do
	m=-D$mode
	run "cluster-$mode-moves" ok "$m" -DMOVES=2 -DMSGTWICE=1
	run "cluster-$mode-late" ok "$m" -DLATE=1 -DLOST=1
	run "cluster-$mode-cut" ok "$m" -DCUT=1 -DLOST=1
done
run cluster-slow ok -DSLOW=1 -DMSGTWICE=1 -DEXCLUSION_ONLY
run cluster-no-poll-at-the-end error -DM_NO_POLL_AT_THE_END
run cluster-no-poll-at-confirmation error -DM_NO_POLL_AT_CONFIRMATION
run cluster-subscribes-once error -DM_SUBSCRIBES_ONCE
run cluster-enqueue-forgets error -DMOVES=2 -DCUT=1 -DLOST=1 -DM_ENQUEUE_FORGETS
run cluster-message-grants error -DOTHER -DSLOW=1 -DEXCLUSION_ONLY -DM_MESSAGE_GRANTS
run cluster-not-idempotent error -DLATE=1 -DM_NOT_IDEMPOTENT

model=multi.pml
run multi-cycles ok
run multi-single-cycles ok -DSINGLE
run multi-at-once-cycles ok -DATONCE -DROUNDS=1
search=states
run multi ok
run multi-single ok -DSINGLE
run multi-three ok -DNM=3 -DNP=0 -DROUNDS=1
run multi-two-nested ok -DNP=2 -DROUNDS=1
run multi-order-alone ok -DSINGLE -DM_NEVER_ENDS
run multi-at-once ok -DATONCE
run multi-at-once-single ok -DATONCE -DSINGLE -DROUNDS=1
run multi-at-once-tries ok -DATONCE -DNT=1 -DROUNDS=1
run multi-at-once-three ok -DATONCE -DNM=3 -DNP=0 -DROUNDS=1
run multi-waits-with-all error -DATONCE -DSINGLE -DROUNDS=1 -DM_WAITS_WITH_ALL
run multi-any-order error -DSINGLE -DM_NEVER_ENDS -DM_ANY_ORDER
run multi-never-ends error -DM_NEVER_ENDS
run multi-kept-is-held error -DM_KEPT_IS_HELD

model=tasks.pml search=cycles
run tasks-late ok -DLATE=1 -DSLATE=1
run tasks-lost ok -DWANT=2 -DLOST=1
run tasks-enqueue ok -DELATE=1 -DNACK=1
run tasks-leave ok -DLEAVE=1 -DLOST=1 -DNACK=1
run tasks-delay ok -DDELAY -DNACK=1 -DLATE=1
run tasks-ends ok -DTIMERS -DENDS=1
run tasks-crash ok -DTIMERS -DCRASH=1 -DMSGLOST=1
run tasks-by-id error -DTIMERS -DENDS=1 -DSLATE=1 -DM_BY_ID
run tasks-no-number error -DLATE=1 -DM_NO_NUMBER
run tasks-not-returned error -DLOST=1 -DM_NOT_RETURNED
run tasks-returns-any error -DTIMERS -DLOST=1 -DENDS=1 -DM_RETURNS_ANY
run tasks-undoes-answered error -DWANT=2 -DLATE=1 -DM_UNDOES_ANSWERED
run tasks-key-freed error -DNACK=1 -DM_KEY_FREED
run tasks-next-sleeps error -DLEAVE=1 -DM_NEXT_SLEEPS
run tasks-late-validity error -DTIMERS -DENDS=1 -DM_LATE_VALIDITY
run tasks-enqueue-again error -DELATE=1 -DM_ENQUEUE_AGAIN
run tasks-busy-idle error -DLEAVE=1 -DM_BUSY_IDLE
run tasks-leaves-silently error -DLEAVE=1 -DM_LEAVES_SILENTLY
run tasks-leaves-wake error -DLEAVE=1 -DM_LEAVES_WAKE

model=force.pml
run force-late ok -DLATE=1 -DLOST=1
run force-copies ok -DFLATE=1 -DLATE=1 -DLOST=1
run force-twice ok -DNF=2 -DFLATE=1 -DLOST=1
run force-hang ok -DHANG=1 -DRLATE=1 -DLOST=1
run force-crash ok -DNW=3 -DCRASH=1 -DMSGLOST=1
run force-stuck ok -DSTUCK=1 -DNF=2 -DFLATE=1 -DRLATE=1 -DMSGLOST=1
run force-fixed ok -DSTUCK=1 -DFIXED=1 -DNF=2 -DMSGLOST=1 -DUNMARK=1
run force-failover ok -DUNMARK=1 -DUNACK=1 -DFLATE=1 -DMSGLOST=1
run force-failover-hang ok -DUNACK=1 -DRLATE=1 -DHANG=1
run force-transfer ok -DTRANSFER=1 -DRLATE=1 -DLATE=1
run force-grant ok -DGRANT=3 -DLATE=1 -DMSGLOST=1
run force-grant-hang ok -DGRANT=3 -DHANG=1 -DFLATE=1
run force-renews error -DSTUCK=1 -DMSGLOST=1 -DM_RENEWS
run force-no-poll error -DSTUCK=1 -DFIXED=1 -DMSGLOST=1 -DM_NO_POLL
run force-ack-first error -DHANG=1 -DM_ACK_FIRST
run force-ack-any error -DNW=3 -DRLATE=1 -DM_ACK_ANY
run force-release-unmarked error -DM_RELEASE_UNMARKED
run force-cancel-unmarked error -DGIVEUP=1 -DLATE=1 -DM_CANCEL_UNMARKED
run force-transfer-ends error -DTRANSFER=1 -DM_TRANSFER_ENDS
run force-marks-any error -DFLATE=1 -DM_MARKS_ANY
run force-by-waiter error -DGRANT=3 -DHANG=1 -DMSGLOST=1 -DM_BY_WAITER
run force-frees-reservation error -DNW=3 -DGRANT=7 -DM_FREES_RESERVATION
run force-grants-marked error -DLOST=1 -DM_GRANTS_MARKED
run force-same-name error -DLOST=1 -DM_SAME_NAME
run force-poll-hides-mark error -DLATE=1 -DMSGLOST=1 -DM_POLL_HIDES_MARK
run force-once error -DSTUCK=1 -DUNMARK=1 -DM_ONCE
run force-without-ack error -DNOW

model=modes.pml
run modes-fair-unfair ok -DFAIRS=5 -DCRASH=1 -DMSGLOST=1 -DTRY=2
run modes-unfair-fair ok -DFAIRS=2 -DCRASH=1 -DMSGLOST=1 -DTRY=2
run modes-late ok -DFAIRS=5 -DLATE=1 -DCRASH=1 -DTRY=1
run modes-late-lost ok -DFAIRS=6 -DLATE=1 -DMSGLOST=1 -DTRY=1
run modes-conflict error -DFAIRS=5 -DM_CONFLICT
run modes-head-ignored error -DFAIRS=5 -DCRASH=1 -DM_HEAD_IGNORED
run modes-own-mode-first error -DFAIRS=5 -DM_OWN_MODE_FIRST
run modes-key-mode error -DFAIRS=6 -DCRASH=1 -DM_KEY_MODE
if [ ! -f "$RELOCK_MODELS/runs" ]; then
	echo "model: no run is named$only" >&2
	exit 2
fi
xargs -P "$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)" -L 1 "$here/check.sh" --one <"$RELOCK_MODELS/runs"
