.DEFAULT_GOAL := help

BENCH ?= .
COVERAGE ?= 85
export COVERAGE

.PHONY: help build lint test cover stress bench check

help:  ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "%-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build:  ## Build every module for this system, Windows and macOS
	@scripts/build.sh

lint:  ## gofmt, go vet, golangci-lint and go mod tidy -diff in every module
	@scripts/lint.sh

test:  ## Test every module against a real redis-server, which is set up where it is missing
	@scripts/with-redis.sh scripts/test.sh

cover:  ## Print the coverage of the root package; fails below COVERAGE percent
	@scripts/with-redis.sh scripts/cover.sh

stress:  ## Test the root package ten times under the race detector
	@scripts/with-redis.sh go test -race -count=10 -shuffle=on .

bench:  ## Run the benchmarks of the root package; BENCH=regexp chooses some
	@scripts/with-redis.sh go test -run '^$$' -bench '$(BENCH)' -benchmem .

check: build lint test cover  ## Everything that CI runs, in the same order

.NOTPARALLEL:
