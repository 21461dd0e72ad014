# steps.sh: sourced by check.sh, nightly.sh and changed.sh. Tests and steps add a line to MUSTER_LEFT_OUT for
# everything that this machine did not run; the script that made the list prints it at its end.
# DEADLINE (seconds since 1970; .ci/run sets it) bounds a run: `spare` runs nothing beyond it, `step` fails
# three minutes after it.
set -eu
if [ -z "${MUSTER_LEFT_OUT:-}" ]; then
  MUSTER_LEFT_OUT=$(mktemp)
  export MUSTER_LEFT_OUT
  trap 'report $?; rm -f "$MUSTER_LEFT_OUT"' EXIT
  trap 'exit 143' TERM # without these, report would say that the run passed
  trap 'exit 130' INT
fi
clock() { printf '%d:%02d' $(($1 / 60)) $(($1 % 60)); }
remaining() { echo $((${DEADLINE:-9999999999} - $(date +%s))); }
# step NAME COMMAND…: a command that has to pass.
step() {
  local name=$1 began=$SECONDS status=0; shift
  printf '\n== %s  %s\n' "$(clock "$SECONDS")" "$name"
  if [ -n "${DEADLINE:-}" ]; then set -- timeout -k 20 $(($(remaining) + ${grace:-180})) "$@"; fi
  "$@" || status=$?
  printf '   %s %s after %s\n' "$name" "$(ended "$status")" "$(clock $((SECONDS - began)))"
  return "$status"
}
ended() { case $1 in 0) echo passed ;; 124) echo "did not end in time" ;; *) echo FAILED ;; esac; }
# spare MINUTES NAME COMMAND…: a step that runs if MINUTES are left, and takes at most these or half of the time
# that is left. A step that is cut short is named, not failed.
spare() {
  local left=$(remaining) need=$(($1 * 60)) name=$2 status=124; shift 2
  if [ "$left" -ge "$need" ]; then status=0; grace=$(((left / 2 > need ? left / 2 : need) - left)) step "$name" "$@" || status=$?; fi
  [ "$status" != 124 ] || { status=0; echo "$name: no time is left. To run it: $*" >>"$MUSTER_LEFT_OUT"; }
  return "$status"
}
report() {
  if [ -s "$MUSTER_LEFT_OUT" ]; then printf '\n== left out on this machine\n'; sort -u "$MUSTER_LEFT_OUT" | sed 's/^/- /'; fi
  printf '\n%s: %s after %s\n' "$0" "$(ended "$1")" "$(clock "$SECONDS")"
}
