#!/bin/sh
# Writes what go doc shows of each public package to docs/api. With -diff it
# prints what has changed since, and fails if anything has.
set -eu
cd "$(dirname "$0")/.."

new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
for package in . queue fence utils relocktest relocktest/conform etcd goredis; do
	file=$new/$(basename "$(cd "$package" && go list -f '{{.Name}}' .)").txt
	(cd "$package" && GOWORK=off go doc -all .) >"$file"
done
if [ "${1:-}" = -diff ]; then
	diff -ru docs/api "$new"
	exit
fi
rm -rf docs/api
mkdir -p docs/api
cp "$new"/* docs/api
