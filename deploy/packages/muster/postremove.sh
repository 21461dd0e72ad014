#!/bin/sh
# After a removal: data, settings and user stay. A deb that is purged takes them along.
set -e
[ ! -d /run/systemd/system ] || systemctl daemon-reload
if [ "$1" = purge ]; then
  rm -rf /var/lib/muster
  ! getent passwd muster >/dev/null || userdel muster
  rmdir /etc/muster 2>/dev/null || true # the agent's settings lie there, too
fi
