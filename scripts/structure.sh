#!/bin/sh
# Prints the figures of the structure: files in the root, who knows redigo,
# lines of code without blanks, comments and imports, how long functions are,
# and how the files of each package hang together.
set -eu
cd "$(dirname "$0")/.."

# The engine is all below internal but the tests, and what serves the tools:
# the command, the page and relocktest.
engine=$(go list -f '{{.Dir}}' ./internal/... | sed "s|^$(pwd -P)/||" | grep -vE '^internal/(test|display|doctor|taskdouble)(/|$)')
files=$(ls ./*.go)
for package in $engine; do
	files="$files $(ls "$package"/*.go)"
done
files=$(echo "$files lua/embed.go" | tr ' ' '\n' | grep -v '_test\.go$')

echo "non-test files in the root: $(find . -maxdepth 1 -name '*.go' ! -name '*_test.go' | wc -l)"
# shellcheck disable=SC2086 # one word for each file
echo "files that import redigo, outside internal/redis: $(grep -l '"github.com/gomodule/redigo' $files | grep -vc '^internal/redis/')"
# shellcheck disable=SC2086
awk '
	FNR == 1 { imports = 0 }
	/^import \($/ { imports = 1 }
	!imports && !/^[ \t]*(\/\/.*)?$/ { lines++ }
	imports && /^\)$/ { imports = 0 }
	END { print "lines of code: " lines }
' $files
# shellcheck disable=SC2086
awk '
	/^func / { start = FNR }
	start && (/^}/ || (FNR == start && /}$/)) { print FNR - start + 1; start = 0 }
' $files | sort -n | awk '
	{ length_of[NR] = $1 }
	END { printf "%d functions, median %d, p90 %d, longest %d lines\n", NR, length_of[int(NR / 2) + 1], length_of[int(NR * 0.9) + 1], length_of[NR] }
'
# shellcheck disable=SC2086
go run -C proof ./structure $engine queue . etcd
