// Command oci makes the OCI image layouts of Muster on an empty base, and unpacks one as a runtime does. It pulls
// nothing. Its module is apart, so that the programs do not depend on image libraries.
package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// user is the id of user and group in both images; the Helm chart names it, too.
const user = 65532

// program is an image: one program and one folder that it writes.
type program struct {
	entrypoint []string
	data       string // folder that the user owns
	env        []string
	ports      map[string]struct{}
	title      string
}

var programs = map[string]program{
	"muster": {
		entrypoint: []string{"/usr/bin/muster", "server"}, data: "/var/lib/muster", env: []string{"MUSTER_DATA=/var/lib/muster"},
		ports: map[string]struct{}{"8443/tcp": {}}, title: "Muster server and command line",
	},
	"muster-agent": {
		entrypoint: []string{"/usr/bin/muster-agent"}, data: "/var/lib/muster-agent", env: []string{"MUSTER_STATE_DIR=/var/lib/muster-agent"},
		title: "Muster agent",
	},
}

const usage = "usage: oci build NAME VERSION ARCHITECTURE PROGRAM LAYOUT\n       oci unpack LAYOUT FOLDER"

func main() {
	var err error
	switch args := os.Args[1:]; {
	case len(args) == 6 && args[0] == "build":
		err = build(args[1], args[2], args[3], args[4], args[5])
	case len(args) == 3 && args[0] == "unpack":
		err = unpack(args[1], args[2])
	default:
		err = errors.New(usage)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "oci:", err)
		os.Exit(1)
	}
}

// build writes the layout of an image, dated SOURCE_DATE_EPOCH.
func build(name, version, architecture, file, to string) error {
	p, ok := programs[name]
	if !ok {
		return fmt.Errorf("unknown image %q", name)
	}
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	created := time.Unix(seconds, 0).UTC()
	content, err := p.rootFiles(file, created)
	if err != nil {
		return err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: created}, CreatedBy: "scripts/packages.sh"}})
	if err != nil {
		return err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return err
	}
	config.OS, config.Architecture, config.Created = "linux", architecture, v1.Time{Time: created}
	config.Config = v1.Config{
		User: fmt.Sprintf("%d:%d", user, user), Entrypoint: p.entrypoint, Env: append([]string{"PATH=/usr/bin", "HOME=" + p.data}, p.env...),
		ExposedPorts: p.ports, Volumes: map[string]struct{}{p.data: {}}, WorkingDir: "/",
		Labels: map[string]string{
			"org.opencontainers.image.title": p.title, "org.opencontainers.image.version": version, "org.opencontainers.image.licenses": "Apache-2.0",
			"org.opencontainers.image.source": "https://github.com/muster-fleet/muster", "org.opencontainers.image.revision": os.Getenv("COMMIT"),
		},
	}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return err
	}
	path, err := layout.Write(to, mutate.IndexMediaType(empty.Index, types.OCIImageIndex))
	if err != nil {
		return err
	}
	return path.AppendImage(image, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": version}))
}

// rootFiles returns the tar of the image's only layer.
func (p program) rootFiles(file string, modified time.Time) ([]byte, error) {
	binary, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var roots bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil { // a file cannot contain the constraint
			if err := pem.Encode(&roots, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
				return nil, err
			}
		}
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	add := func(h tar.Header, content []byte) {
		if h.Typeflag == 0 {
			h.Typeflag, h.Size = tar.TypeReg, int64(len(content))
		}
		h.ModTime, h.Format = modified, tar.FormatUSTAR
		headerErr := w.WriteHeader(&h)
		_, contentErr := w.Write(content)
		err = errors.Join(err, headerErr, contentErr)
	}
	folder := func(name string, mode int64, owner int) {
		add(tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: mode, Uid: owner, Gid: owner}, nil)
	}
	for _, name := range []string{"etc", "etc/ssl", "etc/ssl/certs", "usr", "usr/bin", "var", "var/lib"} {
		folder(name, 0o755, 0)
	}
	folder("tmp", 0o1777, 0)
	folder(strings.TrimPrefix(p.data, "/"), 0o700, user)
	add(tar.Header{Name: "etc/passwd", Mode: 0o644}, fmt.Appendf(nil, "root:x:0:0::/:/sbin/nologin\nmuster:x:%d:%d::%s:/sbin/nologin\n", user, user, p.data))
	add(tar.Header{Name: "etc/group", Mode: 0o644}, fmt.Appendf(nil, "root:x:0:\nmuster:x:%d:\n", user))
	add(tar.Header{Name: "etc/ssl/certs/ca-certificates.crt", Mode: 0o644}, roots.Bytes())
	add(tar.Header{Name: strings.TrimPrefix(p.entrypoint[0], "/"), Mode: 0o755}, binary)
	return b.Bytes(), errors.Join(err, w.Close())
}

// unpack validates a layout, unpacks its image into a folder as root, and prints the command that runs it there
// with the image's user and environment.
func unpack(from, to string) error {
	index, err := layout.ImageIndexFromPath(from)
	if err != nil {
		return err
	}
	if err := validate.Index(index); err != nil {
		return err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return err
	}
	if len(manifest.Manifests) != 1 {
		return fmt.Errorf("%s: want one image, got %d", from, len(manifest.Manifests))
	}
	image, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		return err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return err
	}
	if to, err = filepath.Abs(to); err != nil {
		return err
	}
	files := mutate.Extract(image)
	defer files.Close()
	extract := exec.Command("tar", "-x", "-p", "--numeric-owner", "-C", to)
	extract.Stdin, extract.Stderr = files, os.Stderr
	if err := extract.Run(); err != nil {
		return fmt.Errorf("unpack into %s: %w", to, err)
	}
	chroot, err := exec.LookPath("chroot")
	if err != nil {
		return err
	}
	words := append([]string{"env", "-i"}, config.Config.Env...)
	words = append(words, chroot, "--userspec="+config.Config.User, to)
	fmt.Println(strings.Join(append(words, config.Config.Entrypoint...), " "))
	return nil
}
