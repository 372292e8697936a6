#!/bin/sh
# Runs the comparison with other libraries, which is not in the workspace.
set -eu
cd "$(dirname "$0")/.."

case $(go env GOVERSION) in
go1.25*) echo "bench: the newest redsync needs Go 1.26" ;;
*) GOWORK=off exec go run -C bench . "$@" ;;
esac
