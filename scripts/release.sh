#!/bin/sh
# Tags a release: scripts/release.sh vX.Y.Z. It checks that nothing is left to
# commit, that CHANGELOG.md has the version with its date, that the modules for
# users need this root, and that `make test check` passes, or what CHECK names.
# Then it tags the root and those modules, all together, and prints how to push
# the tags. It pushes nothing: a tag that a proxy has seen can't be taken back.
set -eu
cd "$(dirname "$0")/.."
modules='cmd/relock etcd goredis otel' # the nested ones that users import

refuse() {
	echo "release: $*" >&2
	exit 1
}

version=${1:-}
echo "$version" | grep -Eqx 'v(0|[1-9][0-9]*)(\.(0|[1-9][0-9]*)){2}(-[0-9A-Za-z.-]+)?' ||
	refuse "'$version' is no version such as v0.1.0"
changes=$(git status --porcelain)
[ -z "$changes" ] || refuse "not everything is committed:
$changes"
grep -Eqx "## \[${version#v}\] - [0-9]{4}-[0-9]{2}-[0-9]{2}" CHANGELOG.md ||
	refuse "CHANGELOG.md has no line '## [${version#v}] - YYYY-MM-DD'"
for module in $modules; do
	needed=$(awk '{ sub(/^require /, "") } $1 == "github.com/relock-go/relock" { print $2; exit }' "$module/go.mod")
	[ "$needed" = "$version" ] ||
		refuse "$module/go.mod needs $needed of the root: go mod edit -C $module -require=github.com/relock-go/relock@$version"
done
tags=$version
for module in $modules; do
	tags="$tags $module/$version"
done
for tag in $tags; do
	! git rev-parse -q --verify "refs/tags/$tag" >/dev/null || refuse "the tag $tag exists"
done

${CHECK:-make test check}
changes=$(git status --porcelain)
[ -z "$changes" ] || refuse "the check has changed files:
$changes"

for tag in $tags; do
	git tag -a -m "relock $version" "$tag"
done
echo "tagged $tags. To publish them: git push --atomic origin $tags"
