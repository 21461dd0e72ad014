#!/usr/bin/env bash
# cross.sh: builds agent and command line for every platform, and vets the code that only other systems compile.
# Linux amd64 carries the server and is run by the tests; the others are built, not run.
set -eu
cd "$(dirname "$0")/.."
out=$(mktemp -d); trap 'rm -rf "$out"' EXIT
for target in linux/amd64 windows/amd64 darwin/arm64 linux/arm64 linux/arm linux/riscv64 freebsd/amd64; do
  export GOOS=${target%/*} GOARCH=${target#*/} CGO_ENABLED=0
  tags=noserver; [ "$target" = linux/amd64 ] && tags=
  go build -tags "$tags" -ldflags '-s -w' -o "$out/" ./cmd/muster ./cmd/muster-agent
  agent=$(stat -c %s "$out"/muster-agent*)
  most=15500000; [ "$GOOS" = windows ] && most=16100000 # with COM for WMI, PDH and the registry
  [ "$agent" -le $most ] || { echo "muster-agent for $target: expected at most $most bytes, got $agent"; exit 1; }
  for b in "$out"/*; do printf '%-16s %-18s %5d kB\n' "$target" "$(basename "$b")" $(($(stat -c %s "$b") / 1024)); done
  rm -f "$out"/*
  [ "$GOOS" = linux ] || go vet -tags noserver ./cmd/... ./internal/agent/... ./internal/journal/disk ./internal/cli ./internal/doctor ./internal/pki
done
