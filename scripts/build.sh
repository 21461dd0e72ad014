#!/usr/bin/env bash
# build.sh [DIR]: compiles muster and muster-agent into DIR (bin) and counts the packages meanwhile; the first build
# takes a minute or two. VERSION and COMMIT go into both programs.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=${1:-bin} go=${GO:-go} version=github.com/muster-fleet/muster/internal/version
mkdir -p "$bin"
echo "compiling $bin/muster and $bin/muster-agent with $($go env GOVERSION)"
total=$($go list -deps ./cmd/muster ./cmd/muster-agent | wc -l)
terminal=; [ ! -t 1 ] || terminal=1
$go build -v -trimpath -ldflags "-s -w -X $version.version=$VERSION -X $version.commit=$COMMIT" -o "$bin/" ./cmd/muster ./cmd/muster-agent 2>&1 |
  awk -v total="$total" -v terminal="$terminal" '
    function flush_line() { if (pending) printf "\n"; pending = 0 }
    /\/cmd\/muster$/ { flush_line(); print "  linking"; fflush() }
    /^[^ :#]+$/ { # go build -v prints one import path per compiled package
      n++
      if (terminal) { printf "\r  package %d of at most %d", n, total; pending = 1 }
      else if (n % 100 == 0) printf "  package %d of at most %d\n", n, total
      fflush(); next
    }
    { flush_line(); print; fflush() }
    END { flush_line() }'
touch "$bin/muster" "$bin/muster-agent" # newer than their sources, also where the compiler had nothing to do
