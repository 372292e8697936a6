#!/bin/sh
# Builds every module for this system, and those that users import for the
# systems that CI does not run on. Others have tests and examples, whose many
# dependencies would be compiled once more for each system.
set -eu
cd "$(dirname "$0")/.."

echo "build: this system"
scripts/each-module.sh go build -buildvcs=false -o /dev/null ./...
# The modules that users import.
export MODULES='. ./cmd/relock ./etcd ./goredis ./otel'
for os in windows darwin; do
	echo "build: $os"
	GOOS=$os scripts/each-module.sh go build -buildvcs=false -o /dev/null ./...
done
