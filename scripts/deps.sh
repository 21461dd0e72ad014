#!/usr/bin/env bash
# The Debian packages that tests use. `deps.sh missing` lists what is not there,
# `deps.sh install` installs it.
set -eu
have() {
  case "$1" in
    monitoring-plugins-basic) test -x /usr/lib/nagios/plugins/check_disk ;;
    postgresql) compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null ;;
    gcc) command -v gcc >/dev/null ;;
    systemd) command -v systemd-analyze >/dev/null ;;
    squid) test -x /usr/sbin/squid ;;
    haproxy) test -x /usr/sbin/haproxy ;;
    debootstrap) PATH="$PATH:/usr/sbin:/sbin" command -v debootstrap >/dev/null ;;
    rpm) command -v rpm >/dev/null ;;
    systemd-container) command -v systemd-nspawn >/dev/null ;;
    chromium) command -v chromium >/dev/null ;;
    strace) command -v strace >/dev/null ;;
    prometheus-alertmanager) command -v prometheus-alertmanager >/dev/null ;;
    prometheus) command -v prometheus >/dev/null ;;
    zabbix-sender) command -v zabbix_sender >/dev/null ;;
    zabbix-agent) PATH="$PATH:/usr/sbin:/sbin" command -v zabbix_agentd >/dev/null ;;
    # A mail server in the place of another one would take that away: then its test is left out.
    exim4-daemon-light) test -x /usr/sbin/exim4 || test -e /usr/sbin/sendmail ;;
    iproute2) PATH="$PATH:/usr/sbin:/sbin" command -v ip >/dev/null ;;
  esac
}
missing() { for p in monitoring-plugins-basic postgresql gcc strace systemd squid haproxy iproute2 debootstrap rpm systemd-container chromium prometheus-alertmanager prometheus zabbix-sender zabbix-agent exim4-daemon-light; do have "$p" || echo "$p"; done; }
case "${1:-missing}" in
  missing) missing ;;
  install)
    want=$(missing | tr '\n' ' ')
    [ -z "${want// /}" ] && { echo "deps: all there"; exit 0; }
    echo "deps: installing $want"
    sudo=; [ "$(id -u)" = 0 ] || sudo=sudo
    export DEBIAN_FRONTEND=noninteractive
    $sudo apt-get update -qq
    # The cluster that the package would start is not needed: tests make their own.
    $sudo mkdir -p /etc/postgresql-common
    [ -e /etc/postgresql-common/createcluster.conf ] || echo 'create_main_cluster = false' | $sudo tee /etc/postgresql-common/createcluster.conf >/dev/null
    # shellcheck disable=SC2086
    $sudo apt-get install -y -qq --no-install-recommends libc6-dev $want >/dev/null
    ;;
  *) echo "usage: deps.sh missing|install" >&2; exit 2 ;;
esac
