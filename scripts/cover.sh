#!/bin/sh
# Prints what part of the engine's statements, those of the root package and of
# internal, its tests run, and fails below COVERAGE percent. It runs them unless
# nothing has changed since it did.
set -eu
cd "$(dirname "$0")/.."

if [ ! -f coverage.out ] || [ -n "$(find ./*.go go.mod lua internal proof/matrix -type f -newer coverage.out)" ]; then
	scripts/test.sh cover
fi
go tool cover -func=coverage.out | awk -v least="${COVERAGE:-85}" '
	/^total:/ {
		seen = 1
		percent = $NF + 0
		printf "coverage of the engine by its tests: %.1f%%, at least %s%% is wanted\n", percent, least
	}
	END { exit !(seen && percent >= least) }'
