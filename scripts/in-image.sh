#!/bin/sh
# Runs a command in a container of an image that has a redis-server, such as
# redis:8, with this folder and this Go, on Linux. There is no C compiler, so
# tests run without the race detector, and those that need one are skipped.
set -eu
cd "$(dirname "$0")/.."
image=$1
shift
root=$(go env GOROOT)
modules=$(go env GOMODCACHE)
cache=$(go env GOCACHE)
mkdir -p "$modules" "$cache"
exec docker run --rm --init --entrypoint /bin/sh --workdir "$PWD" \
	--volume /etc/ssl/certs:/etc/ssl/certs:ro --volume "$PWD:$PWD" --volume "$root:$root:ro" --volume "$modules:$modules" --volume "$cache:$cache" \
	--env "PATH=$root/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" \
	--env "GOMODCACHE=$modules" --env "GOCACHE=$cache" --env "GOPROXY=$(go env GOPROXY)" --env GOFLAGS=-buildvcs=false \
	--env CGO_ENABLED=0 --env HOME=/tmp \
	"$image" -c 'redis-server --version && exec "$@"' sh "$@"
