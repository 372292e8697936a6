#!/bin/sh
# Releases a clone and uses it as a user does, from empty folders: `go get` of
# the root and of each module for users, a program, and `go install` of the
# command. A file proxy that is made of the tags of the clone serves relock.
set -eu
cd "$(dirname "$0")/.."
if ! git rev-parse -q --verify HEAD >/dev/null 2>&1; then
	echo "left out: a release, without a git repository"
	exit
fi
tmp=$(mktemp -d)
cleanup() {
	chmod -R u+w "$tmp" # the cache of modules is read-only
	rm -rf "$tmp"
}
trap cleanup EXIT
root=github.com/relock-go/relock
modules='cmd/relock etcd goredis otel'

# The version that CHANGELOG.md has on top is released, dated and with all that
# is committed.
export GIT_AUTHOR_NAME=release GIT_AUTHOR_EMAIL=release@localhost GIT_COMMITTER_NAME=release GIT_COMMITTER_EMAIL=release@localhost
clone=$tmp/clone
git clone -q . "$clone"
version=v$(sed -En 's/^## \[([0-9].*)\] - .*/\1/p' CHANGELOG.md | head -n 1)
(
	cd "$clone"
	sed -i.old -E "s/^(## \[${version#v}\] - ).*/\12000-01-02/" CHANGELOG.md && rm CHANGELOG.md.old
	for module in $modules; do
		go mod edit -C "$module" -require="$root@$version"
	done
	git diff --quiet || git commit -qam "release $version"
	refuses() {
		reason=$1
		shift
		! CHECK=true scripts/release.sh "$@" 2>"$tmp/refused" || {
			echo "release.sh $* releases what it should refuse" >&2
			exit 1
		}
		grep -q "$reason" "$tmp/refused" || { cat "$tmp/refused" >&2; exit 1; }
	}
	refuses 'no version' "${version#v}"
	refuses 'has no line' v99.0.0
	touch left && refuses 'not everything is committed' "$version" && rm left
	CHECK=true scripts/release.sh "$version" >/dev/null
	refuses 'exists' "$version"
)

# With GOSUMDB off, as the sum database does not know a release that is none.
export GOWORK=off GOSUMDB=off GOFLAGS=-modcacherw
cache=$(go env GOMODCACHE)/cache/download
proxy=$(go env GOPROXY)
all=$root@$version
for module in $modules; do
	all="$all $root/$module@$version"
done
mkdir "$tmp/none"
# shellcheck disable=SC2086 # one word for each module
(
	cd "$tmp/none"
	GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0="url.file://$clone.insteadOf" GIT_CONFIG_VALUE_0="https://$root" \
		GOMODCACHE=$tmp/released GOPRIVATE=$root go mod download $all
)

export GOMODCACHE="$tmp/modules" GOPROXY="file://$tmp/released/cache/download,file://$cache,$proxy"
for module in '' $modules; do
	path=$root${module:+/$module}
	mkdir "$tmp/user"
	(
		cd "$tmp/user"
		go mod init user 2>/dev/null
		go get "$path@$version" >"$tmp/log" 2>&1 || { cat "$tmp/log" >&2; exit 1; }
		[ "$(go list -m -f '{{.Version}}' $root)" = "$version" ]
		go list -deps "$path" >/dev/null
	)
	rm -r "$tmp/user"
done

mkdir "$tmp/user"
cd "$tmp/user"
cat >main.go <<'GO'
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/relock-go/relock"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	client, err := relock.NewClient("tcp", "127.0.0.1:1", "")
	if err == nil {
		err = relock.NewRedisLock("orders/42", client).TryLock(ctx)
	}
	fmt.Println(err)
}
GO
go mod init user 2>/dev/null
go get "$root@$version" 2>/dev/null
go list -deps $root/queue $root/fence $root/utils $root/relocktest $root/relockweb >/dev/null
go run . | grep -q 127.0.0.1:1 # nothing listens there
GOBIN=$tmp go install "$root/cmd/relock@$version"
"$tmp/relock" run --help >/dev/null
echo "release: $version and its nested modules can be fetched, built and installed"
