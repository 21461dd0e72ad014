#!/usr/bin/env bash
# corpus.sh [PACKAGE…]: keeps in testdata/fuzz what fuzzing found (in the build cache: run
# `make fuzz FUZZTIME=1m` first): for each target the fewest small inputs that reach what
# its seeds and what is kept already do not reach. `go test` runs them all.
set -eu
cd "$(dirname "$0")/.."
most=6 bytes=2000
tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT
cache=$(go env GOCACHE)/fuzz/$(go list -m)
# reached NAME: the blocks of the package that the seeds of that name reach, a line each.
reached() {
  (cd "$tmp/at" && timeout 60 "$tmp/binary" -test.run "$1" -test.coverprofile "$tmp/profile" </dev/null >/dev/null 2>&1) || return 0 # one that fails is no seed
  awk 'NR > 1 && $3 > 0 { print $1 }' "$tmp/profile"
}
scripts/fuzz.sh list | while read -r package target; do
  [ $# = 0 ] || [[ " $* " == *" $package "* ]] || continue
  found=$cache/$package/$target
  [ -d "$found" ] || continue
  [ "$package" = "${built:-}" ] || go test -c -vet=off -cover -covermode set -o "$tmp/binary" "./$package"
  built=$package
  rm -rf "$tmp/at"; mkdir -p "$tmp/at/testdata"
  [ ! -d "$package/testdata" ] || cp -r "$package/testdata" "$tmp/at/"
  kept=$tmp/at/testdata/fuzz/$target; mkdir -p "$kept"
  reached "^$target\$" >"$tmp/covered"
  : >"$tmp/new"
  # Smallest first: of two that reach the same, the shorter one is kept.
  find "$found" -type f -size -"${bytes}"c -printf '%s %f\n' | sort -n | while read -r _ name; do
    cp "$found/$name" "$kept/"
    reached "^$target\$/^$name\$" | awk -v name="$name" 'NR == FNR { have[$1] = 1; next } !($1 in have) { print name, $1 }' "$tmp/covered" - >>"$tmp/new"
    rm "$kept/$name"
  done
  awk -v most="$most" '
    { reach[$1] = reach[$1] " " $2; if (!($1 in seen)) { seen[$1] = 1; order[++n] = $1 } }
    END {
      for (k = 0; k < most; k++) {
        best = 0
        for (i = 1; i <= n; i++) {
          count = split(reach[order[i]], blocks, " "); fresh = 0
          for (j = 1; j <= count; j++) fresh += !(blocks[j] in have)
          if (fresh > best) { best = fresh; pick = order[i] }
        }
        if (!best) break
        count = split(reach[pick], blocks, " ")
        for (j = 1; j <= count; j++) have[blocks[j]] = 1
        print pick
      }
    }' "$tmp/new" >"$tmp/picked"
  while read -r name; do mkdir -p "$package/testdata/fuzz/$target"; cp "$found/$name" "$package/testdata/fuzz/$target/"; done <"$tmp/picked"
  echo "corpus: ./$package $target: $(wc -l <"$tmp/picked") kept of $(find "$found" -type f | wc -l)"
done
