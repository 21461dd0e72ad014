#!/bin/sh
# After the installation of a deb (configure OLD-VERSION) or rpm (1: the first, 2: an upgrade).
set -e
getent passwd muster >/dev/null ||
  useradd --system --user-group --home-dir /var/lib/muster --no-create-home --shell /usr/sbin/nologin muster
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
  systemctl try-restart muster || echo "muster did not start again; the reason: systemctl status muster" >&2
fi
