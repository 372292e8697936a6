#!/bin/sh
# Writes the declarations that go doc shows of each public package to
# docs/internals/api, without their comments. With -diff it prints what has
# changed since, and fails if anything has.
set -eu
cd "$(dirname "$0")/.."

# Comments are four spaces in, or in a block of constants or fields. The comment
# of the package comes before the first heading.
declarations() {
	awk '/^(CONSTANTS|VARIABLES|FUNCTIONS|TYPES)$/ { began = 1; next }
		began && !/^(    |[[:space:]]*\/\/|[[:space:]]*$)/' | sed -E 's,[[:space:]]+// .*,,' | joined
}

# joined puts a signature of several lines on one.
joined() {
	awk '/^func .*\($/ { open = $0; next }
		open != "" && /^\)/ { sub(/,[[:space:]]*$/, "", open); print open $0; open = ""; next }
		open != "" { sub(/^[[:space:]]+/, ""); open = open (open ~ /\($/ ? "" : " ") $0; next }
		{ print }'
}

new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
for package in . queue fence utils relocktest relocktest/conform etcd goredis otel relockweb; do
	file=$new/$(basename "$(cd "$package" && go list -f '{{.Name}}' .)").txt
	(cd "$package" && GOWORK=off go doc -all .) | declarations >"$file"
done
if [ "${1:-}" = -diff ]; then
	diff -ru docs/internals/api "$new"
	exit
fi
rm -rf docs/internals/api
mkdir -p docs/internals/api
cp "$new"/* docs/internals/api
