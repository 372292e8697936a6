#!/bin/sh
# Runs a command for which redis-server is another program on PATH, such as
# valkey-server.
set -eu
server=$1
shift
path=$(command -v "$server") || {
	echo "$server is not installed. On Debian 12 it is in bookworm-backports: apt-get install $server" >&2
	exit 1
}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM HUP
ln -s "$path" "$dir/redis-server"
PATH=$dir:$PATH
export PATH
echo "with-server: $(redis-server --version)"
"$@"
