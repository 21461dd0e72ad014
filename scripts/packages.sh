#!/usr/bin/env bash
# packages.sh: builds in dist/ whatever is installed: deb, rpm and OCI image of server and agent, the Helm chart, a
# bill of materials of each program, and SHA256SUMS. The same commit, version and Go make the same bytes.
#   VERSION=1.2.3  version of a release; default: from git describe
#   GOARCH=arm64   processor of the machines; default: this one's
set -euo pipefail
cd "$(dirname "$0")/.."
umask 022
export GOFLAGS=-trimpath CGO_ENABLED=0 LC_ALL=C TZ=UTC GOARCH=${GOARCH:-$(go env GOARCH)} GOOS=linux
export COMMIT=${COMMIT:-$(git rev-parse HEAD)} SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git show -s --format=%ct HEAD)}
NFPM=github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.2
CYCLONEDX=github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0
# On this machine, also where the packages are for another one: those read ARCH.
export ARCH=$GOARCH
tool() { env -u GOARCH -u GOOS go "$@"; }
# A version that semver, deb and rpm take: a commit without a tag is older than 0.0.1.
VERSION=$(sed -E 's/^v//; s/-([0-9]+)-g/+\1.g/; s/-dirty$/.dirty/; s/^([0-9.]+)\.dirty$/\1+dirty/' <<<"${VERSION:-$(git describe --tags --always --dirty)}")
[[ $VERSION =~ ^[0-9]+\.[0-9]+\.[0-9]+ ]] || VERSION=0.0.0-$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y%m%d%H%M%S).g$VERSION
export VERSION

rm -rf dist
build=dist/build
mkdir -p $build/man/all $build/man/muster $build/man/muster-agent
scripts/build.sh $build
echo "man pages"
tool test -vet=off ./cmd/muster -run TestManPagesHaveEveryCommand -man "$PWD/$build/man/all" >/dev/null
gzip -9n $build/man/all/*
mv $build/man/all/muster-agent* $build/man/muster-agent/
mv $build/man/all/* $build/man/muster/

# archive FILE FOLDER ENTRY…: a tar without names, times and order of this machine.
archive() { tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --format=gnu -cf "$1" -C "$2" "${@:3}"; }
for name in muster muster-agent; do
  echo "$name: deb, rpm, image, bill of materials"
  for format in deb rpm; do tool run $NFPM package --config deploy/packages/$name/package.yaml --packager $format --target dist/ >/dev/null; done
  [ -n "$(find dist -name "${name}_*_$ARCH.deb")" ] || { echo "the deb of $name is not for $ARCH" >&2; exit 1; }
  (cd deploy/oci && tool run . build $name "$VERSION" "$GOARCH" ../../$build/$name ../../$build/$name.oci)
  archive "dist/${name}_${VERSION}_${GOARCH}.oci.tar" $build/$name.oci oci-layout index.json blobs
  tool run $CYCLONEDX bin -json -std -noserial -notimestamp -version "$VERSION" -output "dist/${name}_${VERSION}_${GOARCH}.cdx.json" $build/$name
done

echo "Helm chart"
cp -R deploy/helm $build/helm
sed -i -E "s/^(version|appVersion): .*/\1: \"$VERSION\"/" $build/helm/muster/Chart.yaml
archive $build/chart.tar $build/helm muster
gzip -9nc $build/chart.tar >"dist/muster-chart-$VERSION.tgz"

rm -rf $build
(cd dist && sha256sum -- * >SHA256SUMS)
ls -l dist
