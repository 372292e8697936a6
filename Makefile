.DEFAULT_GOAL := help

BENCH ?= .
MUTANTS ?= .
MOST ?= 60
TESTS ?= .
HEAVY ?= LossComes|KilledHolder
COVERAGE ?= 85
IMAGE ?= redis:8
export COVERAGE HEAVY

.PHONY: help fast build lint fix structure test test-all test-alone cover lua-cover mutants mutants-touched model
.PHONY: test-long test-heavy test-valkey test-image stress bench bench-queue bench-smoke bench-go picture
.PHONY: release untimed timed check proof long

help:  ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

fast:  ## The loop of daily work, under a minute: build, vet, lint what changed, and the tests that need no server
	@scripts/fast.sh

build:  ## Build every module for this system, and those that users import for Windows and macOS
	@scripts/build.sh

lint:  ## gofmt, go vet, golangci-lint and go mod tidy -diff in every module
	@scripts/lint.sh

fix:  ## The same, and mend what tools can: format, go.mod, the list of the API, findings with a remedy
	@scripts/lint.sh -fix

structure:  ## Print how large the files and functions of the engine are, and which packages are knots of files
	@scripts/structure.sh

test:  ## Test what users import against a real redis-server, which is set up where it is missing, and an embedded etcd
	@scripts/with-redis.sh scripts/test.sh

test-all:  ## Every test of every module, with the race detector
	@scripts/with-redis.sh scripts/test.sh all

test-alone:  ## The tests that need no server, which CI runs on macOS and Windows
	@scripts/test.sh alone

cover:  ## Print the coverage of the engine by its tests; fails below COVERAGE percent
	@scripts/with-redis.sh scripts/cover.sh

lua-cover:  ## Fail unless the tests see each branch of each Lua script
	@scripts/with-redis.sh go run -C proof ./luacover

mutants:  ## Put the faults of proof/mutants into the code, one at a time, and fail unless a test finds each; MUTANTS=regexp chooses some
	@scripts/with-redis.sh go run -C proof ./mutants -run '$(MUTANTS)'

mutants-touched:  ## The mutants whose file or test the change since RELOCK_BASE touches, at most MOST of them; a sample of 20 if none
	@files=$$(scripts/touched.sh) && scripts/with-redis.sh go run -C proof ./mutants -touched "$$files" -most $(MOST)

model:  ## Check the models of the queues and of MultiLocks, and that their mutants are found
	@docs/internals/models/check.sh

test-long:  ## Run the heavy tests at full length and print their figures; TESTS=regexp chooses some
	@scripts/with-redis.sh scripts/test.sh long '$(TESTS)'

test-heavy:  ## The heavy tests at full length that take at most 90 seconds together, one after the other, as they load the machine
	@scripts/with-redis.sh scripts/test.sh long '$(HEAVY)' -parallel 1

test-valkey:  ## Run the root suite and the conformance suite on the installed valkey-server; TESTS=regexp chooses some
	@scripts/with-server.sh valkey-server scripts/test.sh server '$(TESTS)'

test-image:  ## The same in a container of the image that IMAGE names, such as redis:8
	@scripts/in-image.sh '$(IMAGE)' scripts/test.sh server '$(TESTS)'

stress:  ## Test the root package and the engine ten times under the race detector
	@scripts/with-redis.sh go test -race -count=10 -shuffle=on -p 1 -timeout 30m . ./lua ./internal/... ./proof/matrix

bench:  ## Compare with other libraries, in some 13 minutes; writes bench/results, with the plot of README, and the tables of docs/internals/measured.md; BENCH=regexp only prints some
	@scripts/with-redis.sh scripts/bench.sh -run '$(BENCH)' -out results -into ../docs/internals/measured.md

bench-queue:  ## Compare the task queue with asynq, in some 13 minutes; writes the table of docs/internals/queue-measured.md
	@scripts/with-redis.sh scripts/bench.sh -queues -run '$(BENCH)' -into ../docs/internals/queue-measured.md

bench-smoke:  ## Run each scenario of the comparison with each library for a moment, to see that it runs
	@scripts/with-redis.sh scripts/bench.sh -smoke

bench-go:  ## Run the Go benchmarks of the root package; BENCH=regexp chooses some
	@scripts/with-redis.sh go test -run '^$$' -bench '$(BENCH)' -benchmem .

picture:  ## Draw the picture of docs/telemetry.md from a run of a minute, by the expressions of the dashboard; writes docs/dashboard.svg
	@scripts/with-redis.sh go test -C examples/heavy ./prometheus -count=1 -run '^TestPicture$$' -picture

release:  ## Release a clone, and fetch, build and install its modules as users do
	@scripts/try-release.sh

untimed:  ## Lint, the models and a release on trial, side by side: none of them measures time
	@scripts/beside.sh lint model release

timed: build test-all  ## What "make check" runs after "untimed"
	@scripts/beside.sh lua-cover bench-smoke
	@$(MAKE) --no-print-directory mutants-touched test-heavy

check: untimed timed  ## The fast lane: what CI runs on every push, after "make test"

proof: cover mutants  ## The proof lane, each night: coverage and all mutants

long: test-long  ## The long lane, each night: all heavy tests at full length, and etcd's with 20,000 calls a storm

.NOTPARALLEL:
