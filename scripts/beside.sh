#!/bin/sh
# Makes targets side by side. Prints what each has printed when it has ended,
# and fails if one of them does. For targets that measure no time.
set -eu
printed=$(mktemp -d)
trap 'rm -rf "$printed"' EXIT
for target in "$@"; do
	(make --no-print-directory "$target" >"$printed/$target" 2>&1 && touch "$printed/$target.done") &
done
wait
failed=
for target in "$@"; do
	cat "$printed/$target"
	[ -e "$printed/$target.done" ] || failed="$failed $target"
done
[ -z "$failed" ] || {
	echo "failed:$failed" >&2
	exit 1
}
