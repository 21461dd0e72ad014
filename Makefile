# make up      build and run Muster for this machine
# make check   everything that must hold before a change lands
SHELL := /bin/bash
export CGO_ENABLED := 0
GO ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
COMMIT ?= $(shell git rev-parse HEAD 2>/dev/null)
PACKAGE := github.com/muster-fleet/muster/internal/version
LDFLAGS := -s -w -X $(PACKAGE).version=$(VERSION) -X $(PACKAGE).commit=$(COMMIT)
BUILD := $(GO) build -trimpath -ldflags "$(LDFLAGS)"

.PHONY: help up build check deps test race fuzz corpus cross bench measure docs clean

help: ## list what there is to make
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | awk -F'\t' '{printf "  make %-8s %s\n", $$1, $$2}'

build: ## bin/muster and bin/muster-agent
	@mkdir -p bin
	@echo "building bin/muster and bin/muster-agent (the first time takes a minute or two)"
	@$(BUILD) -o bin/muster ./cmd/muster
	@$(BUILD) -o bin/muster-agent ./cmd/muster-agent

up: build ## build, then run a server and an agent for this machine (ARGS="--demo 300" for a simulated fleet)
	@bin/muster up $(ARGS)

check: ## format, vet, build, cross-build, tests, race, fuzz: what CI runs
	@scripts/check.sh

deps: ## install the Debian packages that the tests use (asks for root)
	@scripts/deps.sh install

test: ## the tests alone
	$(GO) test ./...

race: ## the tests under the race detector (needs a C compiler)
	CGO_ENABLED=1 $(GO) test -race -short ./...

fuzz: ## every fuzz target for FUZZTIME (default 20s)
	@scripts/fuzz.sh $${FUZZTIME:-20s}

corpus: ## keep in the tree what fuzzing found and nothing else reaches
	@scripts/corpus.sh

cross: ## build agent and CLI for the other platforms
	@scripts/cross.sh

bench: build ## the release check, 9 min: does a result cost more than it did? SCENARIOS="muster-churn" for some, BASELINE=write (bench/README.md)
	@bin/muster load check $(if $(filter write,$(BASELINE)),--write) $(if $(RUNS),--runs $(RUNS)) $(SCENARIOS)

measure: build ## measure this machine, 25 min: SCENARIOS="rate-16k crash-500k" for some (bench/run.sh list), SECONDS_EACH=15, DIVIDE=20
	@bench/run.sh $(SCENARIOS)

docs: ## write the generated reference pages
	$(GO) generate ./...

clean: ## remove what was built (not your data)
	rm -rf bin
