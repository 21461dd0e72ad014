#!/bin/sh
# Before the removal of a deb (remove) or rpm (0); before an upgrade, nothing. Without a running systemd, as in an
# image that is being built, nothing has to stop.
set -e
case "$1" in
  remove | 0)
    [ ! -d /run/systemd/system ] || systemctl stop muster-agent
    ! command -v systemctl >/dev/null || systemctl --quiet disable muster-agent
    ;;
esac
