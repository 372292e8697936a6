#!/bin/sh
# Prints the files that differ from the merge base of HEAD and RELOCK_BASE, by
# default the newest commit over a day old, and those that git does not know.
# Without such a commit, as in a shallow clone, it prints no others, and without
# git nothing.
set -eu
cd "$(dirname "$0")/.."

git rev-parse -q --verify HEAD >/dev/null 2>&1 || exit 0
base=${RELOCK_BASE:-$(git log -1 --before=24.hours --format=%H)}
[ -z "$base" ] || git diff --name-only "$(git merge-base HEAD "$base")"
git ls-files --others --exclude-standard
