#!/usr/bin/env bash
# Builds agent and CLI for every platform. Linux amd64 is run by the tests; the
# others are built, not run.
set -eu
cd "$(dirname "$0")/.."
out=$(mktemp -d); trap 'rm -rf "$out"' EXIT
for target in linux/amd64 linux/arm64 linux/arm linux/riscv64 darwin/arm64 windows/amd64; do
  for cmd in cmd/muster cmd/muster-agent; do
    [ -d "$cmd" ] || continue
    GOOS=${target%/*} GOARCH=${target#*/} CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$out/b" "./$cmd"
    printf '%-16s %-18s %5d kB\n' "$target" "$cmd" $(($(stat -c %s "$out/b") / 1024))
  done
done
