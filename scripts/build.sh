#!/bin/sh
# Builds every module for this system and for those that CI does not run on.
set -eu
cd "$(dirname "$0")/.."

echo "build: this system"
scripts/each-module.sh go build -buildvcs=false -o /dev/null ./...
for os in windows darwin; do
	echo "build: $os"
	GOOS=$os scripts/each-module.sh go build -buildvcs=false -o /dev/null ./...
done
