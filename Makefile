# make up      build and run Muster for this machine
# make check   everything that must hold before a change lands
SHELL := /bin/bash
export CGO_ENABLED := 0
GO ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
COMMIT ?= $(shell git rev-parse HEAD 2>/dev/null)
# Folders are in it, because a removed file changes nothing else.
SOURCES := go.mod go.sum $(shell find cmd internal -name testdata -prune -o ! -name '*_test.go' -print)
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
SHORT ?= -short
FUZZTIME ?= 1m

.PHONY: help up build test check nightly lint race cross fuzz fuzz-api corpus audit bench measure packages deps docs clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | awk -F'\t' '{printf "  make %-9s %s\n", $$1, $$2}'

up: $(if $(shell command -v $(GO)),build) ## run a server and an agent for this machine; without Go, the program that is built or installed (ARGS="--demo 300" for a simulated fleet)
	@muster=$$(command -v bin/muster || command -v muster) || { echo "make up needs Go 1.26, bin/muster or an installed muster, and found none: docs/install.md" >&2; exit 1; }; \
	echo "starting $$muster: $$($$muster --version)"; exec $$muster up $(ARGS)

build: bin/muster ## bin/muster and bin/muster-agent, if a source or the version changed

bin/muster bin/muster-agent &: $(SOURCES) bin/.version
	@GO="$(GO)" VERSION="$(VERSION)" COMMIT="$(COMMIT)" scripts/build.sh

bin/.version: FORCE
	@mkdir -p bin; echo "$(VERSION) $(COMMIT)" | cmp -s - $@ || echo "$(VERSION) $(COMMIT)" >$@
FORCE:

test: ## package tests, 2 min: type it all day (SHORT= runs the long ones too)
	@$(GO) test -vet=off $(SHORT) -timeout 8m $$($(GO) list ./... | grep -v /muster/test)

check: ## everything that must hold before a change lands, 6 min: format, build, vet, tests, smoke, race on the spine, lint
	@scripts/check.sh

nightly: ## everything else, 100 min: scripts/nightly.sh names the parts, PARTS="fuzz race" runs some
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

bench: build ## the release check, 10 min: does a result cost more than it did? SCENARIOS="muster-churn" for some, BASELINE=write (bench/README.md)
	@bin/muster load check $(if $(filter write,$(BASELINE)),--write) $(if $(RUNS),--runs $(RUNS)) $(SCENARIOS)

measure: build ## measure this machine, 25 min: SCENARIOS="rate-16k crash-500k" for some (bench/README.md)
	@scripts/measure.sh $(SCENARIOS)

packages: ## deb, rpm, OCI images, Helm chart, bills of materials and checksums in dist/ (VERSION=1.2.3, GOARCH=arm64)
	@VERSION="$(VERSION)" COMMIT="$(COMMIT)" scripts/packages.sh

deps: ## install the Debian packages that the tests use (asks for root)
	@scripts/deps.sh install

docs: ## write the generated reference pages
	$(GO) generate ./...

clean: ## remove what was built (not your data)
	rm -rf bin dist
