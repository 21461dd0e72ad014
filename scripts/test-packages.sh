#!/usr/bin/env bash
# test-packages.sh: builds the packages of two versions from the last commit. In roots of their own it installs,
# upgrades, removes and purges the debs, does the same with the rpms, boots both with systemd-nspawn, and runs both
# images; it lints and renders the Helm chart, and compares a second build byte for byte. 10 minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/sbin:/sbin
HELM=helm.sh/helm/v3/cmd/helm@v3.22.0
left_out() { echo "left out: $1"; [ -z "${MUSTER_LEFT_OUT:-}" ] || echo "installs: $1. To run it: $2" >>"$MUSTER_LEFT_OUT"; }
fail() { echo "FAILED: $*"; exit 1; }
work=$(mktemp -d)
trap 'status=$?; rm -rf "$work"; exit $status' EXIT

echo "-- two versions, and one of them twice"
[ -z "$(git status --porcelain)" ] || echo "uncommitted changes are not in the packages"
git clone -q . "$work/tree"
git clone -q . "$work/a/tree elsewhere"
build() { (cd "$1" && make -s packages VERSION="$2" COMMIT="$(git rev-parse HEAD)" >/dev/null && cp -R dist "$3"); }
build "$work/tree" 0.9.1 "$work/old"
build "$work/tree" 0.9.2 "$work/new"
(umask 077; export TZ=Pacific/Auckland; build "$work/a/tree elsewhere" 0.9.2 "$work/again")
diff "$work/new/SHA256SUMS" "$work/again/SHA256SUMS" || fail "two builds differ"
(cd "$work/new" && sha256sum --quiet -c SHA256SUMS)
mkdir "$work/cache" "$work/cold" "$work/deb"
(cd "$work/a/tree elsewhere" && VERSION=0.9.2 COMMIT=$(git rev-parse HEAD) CGO_ENABLED=0 GOFLAGS=-trimpath GOCACHE=$work/cache scripts/build.sh "$work/cold")
for name in muster muster-agent; do
  dpkg-deb -x "$work/new/${name}_0.9.2_"*.deb "$work/deb"
  cmp "$work/cold/$name" "$work/deb/usr/bin/$name" || fail "a compilation without cache differs"
done

echo "-- Helm chart"
helm() { GOFLAGS= CGO_ENABLED=0 go run $HELM "$@"; }
helm lint --strict "$work/new/muster-chart-0.9.2.tgz"
helm template fleet "$work/new/muster-chart-0.9.2.tgz" --namespace monitoring --set agent.enabled=true,agent.tokenSecret=join,settings.MUSTER_LOG_LEVEL=debug >"$work/rendered.yaml"
for want in 'kind: StatefulSet' 'kind: DaemonSet' 'runAsNonRoot: true' 'image: "registry.example.org/muster:0.9.2"' 'name: MUSTER_LOG_LEVEL, value: "debug"' 'fleet.monitoring.svc'; do
  grep -qF "$want" "$work/rendered.yaml" || fail "the chart does not render $want"
done
(cd deploy/helm/schema && GOFLAGS= go run .) <"$work/rendered.yaml" || fail "a cluster would refuse the chart"
! helm template fleet "$work/new/muster-chart-0.9.2.tgz" --set typo=1 >/dev/null 2>&1 || fail "the chart accepts an unknown value"

if [ "$(id -u)" != 0 ]; then left_out "it needs root" "sudo scripts/nightly.sh installs"; exit 0; fi
for program in debootstrap rpm systemd-nspawn unshare ip; do
  command -v $program >/dev/null || { left_out "$program is missing" "make deps && scripts/nightly.sh installs"; exit 0; }
done

echo "-- images, each in a root and namespaces of its own"
for name in muster muster-agent; do
  mkdir "$work/$name.oci" "$work/$name.root"
  tar -xf "$work/new/${name}_0.9.2_"*.oci.tar -C "$work/$name.oci"
  (cd deploy/oci && GOFLAGS= go run . unpack "$work/$name.oci" "$work/$name.root") >"$work/$name.command"
done
WORK=$work unshare --net --mount --pid --fork --kill-child bash -euo pipefail <<'INSIDE'
  ip link set lo up
  export HOME=$WORK/home PATH=$WORK/deb/usr/bin:$PATH
  for name in muster muster-agent; do # what a runtime adds to an image
    root=$WORK/$name.root
    mkdir "$root/proc" "$root/dev"
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    echo "127.0.0.1 localhost" >"$root/etc/hosts"
  done
  await() { local n=0; until eval "$1"; do n=$((n + 1)); [ $n -lt 60 ] || { echo "FAILED: after 60 s: $1"; cat "$WORK"/*.log; exit 1; }; sleep 1; done; }
  start() { sed "s#^env -i #&$2 #" "$WORK/$1.command" >"$WORK/$1.run"; sh "$WORK/$1.run" >"$WORK/$1.log" 2>&1 & }
  start muster MUSTER_ADVERTISE=localhost
  await "grep -q 'shown once' $WORK/muster.log"
  sed -n 's/.*password \([^ ]*\) (shown once).*/\1/p' "$WORK/muster.log" >"$WORK/password"
  await "muster login https://localhost:8443 --ca $WORK/muster.root/var/lib/muster/pki/ca.crt --password-file $WORK/password"
  muster apply -f docs/examples/starter.yaml -m "the first checks"
  start muster-agent "MUSTER_NAME=image MUSTER_TOKEN=$(muster node token | grep -o 'mj1\.[^ ]*')"
  await "grep -q 'DISK ' <<<\"\$(muster get events -o json)\""
  muster get nodes
  for name in muster muster-agent; do [ "$(stat -c %u "$WORK/$name.root/var/lib/$name"/*  | sort -u)" = 65532 ]; done
INSIDE

read -r mirror suite < <(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' | head -1) || true
if [ -z "$mirror" ] || ! debootstrap --variant=minbase --include=systemd,systemd-sysv,dbus,procps "$suite" "$work/debian" "$mirror" >"$work/debootstrap.log" 2>&1; then
  tail -3 "$work/debootstrap.log"
  left_out "apt's mirror does not answer" "apt-get update && scripts/nightly.sh installs"; exit 0
fi
printf '127.0.0.1 localhost fleet\n' >"$work/debian/etc/hosts"
cp scripts/test-packages-root.sh "$work/debian/root/"
cp -a "$work/debian" "$work/redhat"
# boot ROOT PHASE…: boots a root, runs phases of test-packages-root.sh in it and prints their output; its exit status
# is theirs.
boot() {
  local root=$1 status=0; shift
  cat >"$root/etc/systemd/system/test.service" <<UNIT
[Unit]
After=muster.service muster-agent.service
SuccessAction=exit
FailureAction=exit
[Service]
Type=oneshot
ExecStart=/root/test-packages-root.sh $*
StandardOutput=truncate:/root/test.log
StandardError=inherit
UNIT
  ln -sf ../test.service "$root/etc/systemd/system/multi-user.target.wants/test.service"
  # nspawn needs a /run of its own where this machine's is on a disk.
  timeout -k 10 300 unshare --mount sh -c 'mount -t tmpfs tmpfs /run && exec "$@"' sh systemd-nspawn --quiet --directory "$root" --boot \
    --register=no --keep-unit --private-network --hostname=fleet --console=pipe --bind-ro="$work/old:/packages/old" --bind-ro="$work/new:/packages/new" </dev/null || status=$?
  cat "$root/root/test.log"
  return $status
}
echo "-- deb"
boot "$work/debian" deb
echo "-- rpm"
# The root has Debian's programs: no rpm has brought what the packages depend on.
inside_rpm() { rpm --root "$work/redhat" --nodeps --nosignature "$@"; }
inside_rpm -i "$work"/old/*.rpm
boot "$work/redhat" first_start running:0.9.1
inside_rpm -U "$work"/new/*.rpm
boot "$work/redhat" running:0.9.2
inside_rpm -e muster muster-agent
rm "$work/redhat/etc/systemd/system/multi-user.target.wants/test.service"
chroot "$work/redhat" /root/test-packages-root.sh removed
