#!/bin/bash
# test-packages-root.sh PHASE[:ARGUMENT]…: the part of test-packages.sh inside of a booted root. Both versions lie in /packages.
set -euo pipefail
export HOME=/root
fail() { echo "FAILED: $*"; exit 1; }
# shows PATTERN COMMAND…: whether the output of a command has the pattern. A pipe into grep -q would kill the command at its first line.
shows() { local output; output=$("${@:2}") && grep -q "$1" <<<"$output"; }
await() { local n=0; until eval "$1"; do n=$((n + 1)); [ $n -lt 60 ] || fail "after 60 s: $1"; sleep 1; done; }
uid() { muster get node "$(hostname)" -o yaml | sed -n 's/^ *uid: *//p'; }

# A new operator's way: settings, start, log in, first checks, join.
first_start() {
  [ "$(systemctl is-enabled muster muster-agent | sort -u)" = disabled ] || fail "the installation enables a service"
  ! systemctl is-active --quiet muster muster-agent || fail "the installation starts a service"
  echo 'MUSTER_ADVERTISE=localhost' >>/etc/muster/server.env
  systemctl enable --now muster
  journalctl --unit muster --output cat | sed -n 's/.*password \([^ ]*\) (shown once).*/\1/p' | head -1 >/root/password
  [ -s /root/password ] || fail "the log shows no password: $(journalctl --unit muster --output cat)"
  muster login https://localhost:8443 --ca /var/lib/muster/pki/ca.crt --password-file /root/password
  muster apply -f /usr/share/doc/muster/examples/starter.yaml -m "the first checks"
  muster-agent join "$(muster node token | grep -o 'mj1\.[^ ]*')" --service
  [ ! -e /etc/systemd/system/muster-agent.service ] || fail "join --service shadows the unit of the package"
  await "shows 'DISK ' muster get events -o json"
  uid >/root/uid
  [ -s /root/uid ] || fail "the node has no uid"
}
# running VERSION: both programs have this version, the server runs without root, and node, checks and session of
# first_start are there.
running() {
  systemctl is-active muster muster-agent
  await "shows '^server.* $1 ' muster version"
  await "shows '\"$1\"' muster get agents -o json"
  [ "$(uid)" = "$(cat /root/uid)" ] || fail "node $(uid) instead of $(cat /root/uid)"
  shows 'the first checks' muster audit || fail "the audit is lost"
  shows 'DISK ' muster get events -o json || fail "the events are lost"
  grep -q MUSTER_ADVERTISE=localhost /etc/muster/server.env || fail "the settings are lost"
  pid=$(systemctl show --property MainPID --value muster)
  [ "$(stat -c %U "/proc/$pid")" = muster ] || fail "the server runs as $(stat -c %U "/proc/$pid")"
  grep -Eq '^CapEff:\s0+$' "/proc/$pid/status" || fail "the server has capabilities: $(grep CapEff "/proc/$pid/status")"
  [ "$(stat -c '%U %a' /var/lib/muster /var/lib/muster-agent | paste -sd' ')" = "muster 700 root 700" ] || fail "rights of the data folders: $(stat -c '%U %a' /var/lib/muster /var/lib/muster-agent)"
}
# removed: programs, units and man pages are gone, data and settings are not.
removed() {
  for file in /usr/bin/muster /usr/bin/muster-agent /usr/lib/systemd/system/muster{,-agent}.service /etc/systemd/system/multi-user.target.wants/muster{,-agent}.service /usr/share/man/man1/muster.1.gz; do
    [ ! -e $file ] && [ ! -L $file ] || fail "$file stayed"
  done
  ! pgrep -l muster || fail "a program still runs"
  for file in /var/lib/muster/pki/ca.crt /var/lib/muster/intent.db /var/lib/muster-agent /etc/muster/agent.env; do [ -e $file ] || fail "$file is gone"; done
}
declare -A most=([muster]=20 [muster-agent]=60) # exposure, of 100
score() {
  for unit in muster muster-agent; do
    systemd-analyze verify --man=no /usr/lib/systemd/system/$unit.service
    systemd-analyze security --no-pager --threshold=${most[$unit]} $unit | tail -1 || fail "$unit is more exposed than ${most[$unit]} of 100"
  done
}
deb() {
  dpkg -i /packages/old/*.deb
  first_start
  running 0.9.1
  score
  dpkg -i /packages/new/*.deb
  running 0.9.2
  dpkg -r muster muster-agent
  removed
  dpkg -i /packages/new/*.deb
  systemctl enable --now muster muster-agent
  running 0.9.2
  dpkg -P muster muster-agent
  for file in /var/lib/muster /var/lib/muster-agent /etc/muster; do [ ! -e $file ] || fail "$file stayed after the purge: $(find $file)"; done
  ! getent passwd muster || fail "the user stayed after the purge"
}
trap 'echo "$0 $*: line $LINENO: exit status $?"' ERR
for phase in "$@"; do echo "-- $phase"; ${phase/:/ }; done # running:0.9.1 is running 0.9.1
echo "-- passed: $*"
