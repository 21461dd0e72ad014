#!/bin/sh
# After a removal: identity, spool and settings stay. A deb that is purged takes them along.
set -e
[ ! -d /run/systemd/system ] || systemctl daemon-reload
if [ "$1" = purge ]; then
  rm -rf /var/lib/muster-agent /etc/muster/agent.env
  rmdir /etc/muster 2>/dev/null || true # the server's settings lie there, too
fi
