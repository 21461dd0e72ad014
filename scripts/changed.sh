#!/usr/bin/env bash
# changed.sh: a CI run after make check. It runs the parts of nightly.sh that the change touches, narrowed to what
# was changed, as far as DEADLINE leaves time, and names the rest. The change is everything since main, or, on
# main itself, the commits of the last day.
cd "$(dirname "$0")/.."
. scripts/steps.sh
base=$(git merge-base HEAD origin/main 2>/dev/null || true)
[ -n "$base" ] && [ "$base" != "$(git rev-parse HEAD)" ] || base=$(git rev-list -1 --before="@$(($(git show -s --format=%ct HEAD) - 86400))" HEAD)
[ -n "$base" ] || base=$(git rev-list --max-parents=0 HEAD | tail -1)
files=$(git diff --name-only --diff-filter=d "$base" HEAD)
touches() { grep -qE "$1" <<<"$files"; }
packages=$(grep -E '^internal/.*\.go$' <<<"$files" | xargs -rn1 dirname | sort -u)
common() { comm -12 <(echo "$packages") <(sort -u); }
echo "changed since $(git show -s --format='%h, %s' "$base"): $(wc -l <<<"$files") files"

tests=$(grep -E '^test/[^/]*_test\.go$' <<<"$files" | xargs -r sed -n 's/^func \(Test[A-Za-z0-9]*\)(t .*/\1/p' | paste -sd'|')
# The verdict of a load run is about the machine too, and this one does other things: nightly.sh blackbox has those.
if [ -n "$tests" ]; then
  spare 3 "black-box tests that were changed" go test -vet=off -short -timeout 15m -run "^($tests)\$" -skip '^TestLoad' ./test
  ! grep -q 'TestLoad' <<<"$tests" || echo "load runs: they need the machine for themselves. To run them: go test -run '^TestLoad' ./test" >>"$MUSTER_LEFT_OUT"
fi
fuzzed=$(scripts/fuzz.sh list | cut -d' ' -f1 | common)
# shellcheck disable=SC2086
[ -z "$fuzzed" ] || spare 3 "fuzzing of changed packages" scripts/fuzz.sh 5s $fuzzed
raced=$(scripts/race.sh list all | grep -vxF "$(scripts/race.sh list spine)" | common)
# shellcheck disable=SC2086
[ -z "$raced" ] || spare 3 "race detector on changed packages" scripts/race.sh $raced
! touches '^(cmd|internal/(agent|cli|doctor|pki|journal))/|^go\.mod$|_(windows|darwin|other|unix)\.go$' || spare 4 "cross-building" scripts/nightly.sh cross
! touches '^(deploy/|scripts/(packages|test-packages|build))' || spare 12 "installed packages" scripts/nightly.sh installs
! touches '^(test/hostile|internal/(api|guard|wire|wsconn|sensuwire|source)/)' || spare 5 "hostile suite" scripts/nightly.sh hostile
