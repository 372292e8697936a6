#!/bin/sh
# Runs a command where the tests find a Redis: the server that RELOCK_TEST_REDIS
# names, a redis-server on PATH, one that is installed now (Debian and Ubuntu,
# as root), or a container that ends with the command.
set -eu
image=${RELOCK_REDIS_IMAGE:-redis:7}

has_redis() { [ -n "${RELOCK_TEST_REDIS:-}" ] || command -v redis-server >/dev/null; }

# may_install reports whether packages can be installed, and sets as_root. sudo
# is for machines of CI only: on others it is not ours to install something
# unasked.
as_root=
may_install() {
	command -v apt-get >/dev/null || return 1
	[ "$(id -u)" -ne 0 ] || return 0
	[ -n "${CI:-}" ] && sudo -n true 2>/dev/null && as_root=sudo
}

# install_redis says why it failed only if there is no redis-server afterwards:
# the package also starts a server on the usual port, which may be taken, and
# which no test uses.
install_redis() {
	echo "installing redis-server"
	log=$(mktemp)
	$as_root apt-get update >"$log" 2>&1 || true
	$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends redis-server >>"$log" 2>&1 || true
	has_redis || tail -n 20 "$log" >&2
	rm -f "$log"
	has_redis
}

# start_container runs a server on a free port and sets RELOCK_TEST_REDIS.
start_container() {
	command -v docker >/dev/null && docker info >/dev/null 2>&1 || return 1
	echo "starting a container of $image"
	container=$(docker run --detach --rm --publish 127.0.0.1::6379 "$image" --save "" --protected-mode no) || return 1
	trap 'docker rm --force --volumes "$container" >/dev/null 2>&1 || true' EXIT
	trap 'exit 130' INT TERM HUP
	RELOCK_TEST_REDIS=$(docker port "$container" 6379/tcp | head -n 1)
	export RELOCK_TEST_REDIS
	for _ in $(seq 50); do
		if docker logs "$container" 2>&1 | grep -q 'Ready to accept connections'; then
			return 0
		fi
		sleep 0.2
	done
	docker logs "$container" >&2
	return 1
}

if has_redis || { may_install && install_redis; }; then
	exec "$@"
fi
if ! start_container; then
	echo "the tests need the package redis-server (or Docker); install it, or name a server: RELOCK_TEST_REDIS=host:port" >&2
	exit 1
fi
"$@"
