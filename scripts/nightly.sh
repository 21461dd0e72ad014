#!/usr/bin/env bash
# nightly.sh [PART…]: what takes too long for every change: all parts, about 100 minutes on two idle cores, or the
# parts named. Each runs apart from the others, on one machine or several.
#   packages  package tests in full (make test runs them -short)
#   blackbox  all tests of ./test but the hostile ones
#   hostile   peers, programs and browsers that break the rules: test/hostile_*_test.go, and packages with a hostile_test.go
#   fuzz      every fuzz target for FUZZTIME (1m); an input that breaks something fails
#   race      the race detector on every package that starts goroutines or locks
#   cross     agent and command line for the other platforms
#   installs  deb and rpm installed, booted, upgraded, removed; images run; chart rendered; two builds compared (root)
#   release   make bench: does a result cost more than it did? On a machine that does nothing else
cd "$(dirname "$0")/.."
. scripts/steps.sh
hostile="^($(sed -n 's/^func \(Test[A-Za-z0-9]*\)(.*/\1/p' test/hostile*_test.go | paste -sd'|'))\$"
[ $# -gt 0 ] || set -- packages blackbox hostile fuzz race cross installs release
for part in "$@"; do
  case $part in
    packages) step "$part" make -s test SHORT= ;;
    blackbox) step "$part" go test -vet=off -count=1 -timeout 25m -skip "$hostile" ./test/... ;;
    hostile)
      step "$part" go test -vet=off -count=1 -timeout 10m -run "$hostile" ./test
      # shellcheck disable=SC2046
      step "$part: tests of packages" go test -vet=off -count=1 $(find internal -name 'hostile*_test.go' -printf './%h\n' | sort -u)
      step "$part: requests made from the OpenAPI document" scripts/fuzz-api.sh ;;
    fuzz) step "$part" scripts/fuzz.sh "${FUZZTIME:-1m}" ;;
    race) step "$part" scripts/race.sh all ;;
    cross) step "$part" scripts/cross.sh ;;
    installs) step "$part" scripts/test-packages.sh ;;
    release) step "$part" make -s bench ;;
    *) echo "nightly.sh: no part $part: see the head of $0" >&2; exit 2 ;;
  esac
done
