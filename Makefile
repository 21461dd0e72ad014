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
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
SHORT ?= -short
FUZZTIME ?= 1m

.PHONY: help up build test check nightly lint race cross fuzz fuzz-api corpus audit bench measure deps docs clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | awk -F'\t' '{printf "  make %-9s %s\n", $$1, $$2}'

up: build ## build, then run a server and an agent for this machine (ARGS="--demo 300" for a simulated fleet)
	@bin/muster up $(ARGS)

build: ## bin/muster and bin/muster-agent
	@mkdir -p bin
	@echo "building bin/muster and bin/muster-agent (the first time takes a minute or two)"
	@$(BUILD) -o bin/muster ./cmd/muster
	@$(BUILD) -o bin/muster-agent ./cmd/muster-agent

test: ## package tests, 2 min: type it all day (SHORT= runs the long ones too)
	@$(GO) test -vet=off $(SHORT) -timeout 8m $$($(GO) list ./... | grep -v /muster/test)

check: ## everything that must hold before a change lands, 6 min: format, build, vet, tests, smoke, race on the spine, lint
	@scripts/check.sh

nightly: ## everything else, 90 min: scripts/nightly.sh names the parts, PARTS="fuzz race" runs some
	@scripts/nightly.sh $(PARTS)

lint: ## staticcheck, as staticcheck.conf says
	@$(GO) run $(STATICCHECK) ./...

race: ## the tests of all packages with goroutines or locks under the race detector (needs gcc)
	@scripts/race.sh all

cross: ## build agent and command line for the other platforms
	@scripts/cross.sh

fuzz: ## every fuzz target for FUZZTIME (1m)
	@scripts/fuzz.sh $(FUZZTIME)

fuzz-api: ## requests made from the OpenAPI document, with each role: no server error (schemathesis, from PyPI)
	@scripts/fuzz-api.sh

corpus: ## keep in the tree the fuzzing inputs that reach new code
	@scripts/corpus.sh

audit: build ## licences, a bill of materials of each binary in bin/ and known vulnerabilities (needs vuln.go.dev)
	@scripts/audit.sh

bench: build ## the release check, 9 min: does a result cost more than it did? SCENARIOS="muster-churn" for some, BASELINE=write (bench/README.md)
	@bin/muster load check $(if $(filter write,$(BASELINE)),--write) $(if $(RUNS),--runs $(RUNS)) $(SCENARIOS)

measure: build ## measure this machine, 25 min: SCENARIOS="rate-16k crash-500k" for some (bench/run.sh list), SECONDS_EACH=15, DIVIDE=20
	@bench/run.sh $(SCENARIOS)

deps: ## install the Debian packages that the tests use (asks for root)
	@scripts/deps.sh install

docs: ## write the generated reference pages
	$(GO) generate ./...

clean: ## remove what was built (not your data)
	rm -rf bin
