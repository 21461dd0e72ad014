#!/usr/bin/env bash
# lines.sh COMMIT...: the lines of Go of each room at each commit, blank lines and comments included: first without
# tests, then (t) of tests. A room that has another name since stands under its present one.
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- HEAD
for commit; do
  git grep -c '' "$commit" -- 'cmd/*.go' 'internal/*.go' | sed "s|^[^:]*:|$commit |; s|internal/||; s|:| |"
done | awk -v commits="$*" '
  function row(room, title,   test, i) {
    printf "%-16s", title
    for (test = 0; test < 2; test++) for (i = 1; i <= n; i++) printf " %7d", lines[room, test, commit[i]]
    print ""
  }
  BEGIN { n = split(commits, commit); split("react dispatch turns roundrobin tries authlimit bundle doctor lint kind", r); for (i = 1; i in r; i += 2) name[r[i]] = r[i + 1] }
  { split($2, path, "/"); room = path[1] in name ? name[path[1]] : path[1]; test = $2 ~ /_test\.go$/; rooms[room]
    lines[room, test, $1] += $3; lines["", test, $1] += $3; if (room != "load") lines[" ", test, $1] += $3 }
  END {
    printf "%-16s", "room"; for (test = 0; test < 2; test++) for (i = 1; i <= n; i++) printf " %7s", (test ? "t:" : "") substr(commit[i], 1, 5); print ""
    row("", "(all)"); row(" ", "(without load)"); for (room in rooms) row(room, room)
  }' | { read -r head; echo "$head"; sort; }
