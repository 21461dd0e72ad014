#!/bin/sh
# After the installation of a deb (configure OLD-VERSION) or rpm (1: the first, 2: an upgrade).
set -e
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
  systemctl try-restart muster-agent || echo "muster-agent did not start again; the reason: systemctl status muster-agent" >&2
fi
