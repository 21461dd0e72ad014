//go:build linux

package test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/wire"
	"github.com/muster-fleet/muster/test/harness"
)

// writeArchive is a tar.gz of these files; a name that begins with "> " is a link.
func writeArchive(t *testing.T, files map[string]string) (path, sum string) {
	t.Helper()
	var b bytes.Buffer
	packed := gzip.NewWriter(&b)
	w := tar.NewWriter(packed)
	for name, text := range files {
		h := &tar.Header{Name: name, Mode: 0o755, Size: int64(len(text)), Typeflag: tar.TypeReg}
		if link, ok := strings.CutPrefix(name, "> "); ok {
			h.Name, h.Linkname, h.Size, h.Typeflag, text = link, text, 0, tar.TypeSymlink, ""
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := packed.Close(); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "archive.tar.gz")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	digest := sha512.Sum512(b.Bytes())
	return path, hex.EncodeToString(digest[:])
}

func assetCheck(name, command, assets string) string {
	return "---\nkind: Check\nmetadata: {name: " + name + "}\nspec: {targets: {nodes: [web01]}, interval: 1s, command: " + command + ", assets: [" + assets + "]}\n"
}

func awaitEvent(t *testing.T, c *client.Client, check string, status model.Status, text string) {
	t.Helper()
	harness.Until(t, time.Minute, check+" says: "+text, func() (string, bool) {
		e, err := c.Events.Get(t.Context(), "default", "web01", check)
		if err != nil {
			return err.Error(), false
		}
		return e.Output, e.Status == status && strings.Contains(e.Output, text)
	})
}

// A check's command comes from an archive that was uploaded: the agent fetches it with its
// certificate, believes it by its sum, and runs what is in it. What is wrong with an archive
// stands on the event. Archives are the server's own: they are there after a restart, and
// an agent that lost them fetches them again when the server is back.
func TestAssets(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	s.Login()
	api := s.Client()
	good, goodSum := writeArchive(t, map[string]string{
		"bin/check_word": "#!/bin/sh\necho \"$(cat \"$CHECK_PLUGINS_PATH/share/word\")\"\n", "share/word": "hello", "> bin/check_link": "check_word",
	})
	use := assetCheck("word", "[check_word]", "check-plugins")
	file := filepath.Join(t.TempDir(), "check.yaml")
	writeFile(t, file, []byte(use))
	if r := s.Try("apply", "-f", file); r.Code == 0 || !strings.Contains(r.Errors, "check-plugins") {
		t.Fatalf("a check that names an asset that is not there:\n%s", r.Errors)
	}
	if out := s.CLI("asset", "add", "check-plugins", good, "--os", "linux", "--arch", runtime.GOARCH, "-m", "words"); !strings.Contains(out, "asset/check-plugins created") {
		t.Fatal(out)
	}
	a := s.NewAgent("web01")
	a.Start()
	s.Apply(use + assetCheck("link", "check_link", "check-plugins"))
	awaitEvent(t, api, "word", model.OK, "hello")
	awaitEvent(t, api, "link", model.OK, "hello")

	t.Run("refused", func(t *testing.T) {
		escape, _ := writeArchive(t, map[string]string{"bin/x": "x", "../escaped": "x"})
		through, _ := writeArchive(t, map[string]string{"> bin": "../../..", "lib/x": "x"})
		bomb, _ := writeArchive(t, map[string]string{"bin/x": strings.Repeat("\x00", 80<<20)})
		for name, x := range map[string]struct{ file, says string }{
			"escape": {escape, `"../escaped" leads out`}, "through": {through, "is a link that leads out"}, "bomb": {bomb, "there is too much in it"},
		} {
			s.CLI("asset", "add", name, x.file)
			s.Apply(assetCheck(name, "x", name))
			awaitEvent(t, api, name, model.Unknown, x.says)
		}
		s.CLI("asset", "add", "elsewhere", good, "--os", "plan9")
		s.Apply(assetCheck("elsewhere", "check_word", "elsewhere"))
		awaitEvent(t, api, "elsewhere", model.Unknown, "has no archive for this machine (linux "+runtime.GOARCH)
	})
	t.Run("from an address", func(t *testing.T) {
		fetched, sum := writeArchive(t, map[string]string{"bin/check_far": "#!/bin/sh\necho from afar\n"})
		far := httptest.NewServer(http.FileServer(http.Dir(filepath.Dir(fetched))))
		defer far.Close()
		s.CLI("asset", "add", "far", "--url", far.URL+"/archive.tar.gz", "--sha512", sum)
		s.Apply(assetCheck("far", "check_far", "far"))
		awaitEvent(t, api, "far", model.OK, "from afar")
		s.CLI("asset", "add", "wrong", "--url", far.URL+"/archive.tar.gz", "--sha512", strings.Repeat("0f", 64))
		s.Apply(assetCheck("wrong", "check_far", "wrong"))
		awaitEvent(t, api, "wrong", model.Unknown, "the archive is not the one that was announced")
		if out := s.CLI("asset", "list"); !strings.Contains(out, "missing: ") || !strings.Contains(out, goodSum[:12]) {
			t.Fatal(out)
		}
	})
	t.Run("wrong sum uploaded", func(t *testing.T) {
		err := api.Resources.PutArchive(t.Context(), strings.Repeat("ab", 64), strings.NewReader("something else"))
		if model.ClassOf(err) != model.Invalid {
			t.Fatalf("%v", err)
		}
	})
	t.Run("others do not get it", func(t *testing.T) {
		other := s.NewAgent("web02")
		other.Start()
		other.AwaitLog("connected")
		for dir, want := range map[string]int{a.State: http.StatusOK, other.State: http.StatusForbidden} {
			if got := fetchAsset(t, s, dir, goodSum); got != want {
				t.Errorf("%s: %d, want %d", dir, got, want)
			}
		}
	})
	t.Run("offline, then back", func(t *testing.T) {
		a.Stop()
		if err := os.RemoveAll(filepath.Join(a.State, "assets")); err != nil {
			t.Fatal(err)
		}
		s.Stop()
		a.Start()
		a.AwaitLog("asset not fetched")
		s.Start()
		s.WaitReady(time.Minute)
		a.AwaitLog(`msg="asset ready" sha512=` + goodSum[:12])
		awaitEvent(t, api, "word", model.OK, "hello")
	})
}

// fetchAsset asks for an archive as the agent of the state folder would.
func fetchAsset(t *testing.T, s *harness.Server, dir, sum string) int {
	t.Helper()
	id, err := pki.LoadIdentity(dir)
	if err != nil {
		t.Fatal(err)
	}
	config := link.TLSFor(wire.AssetProtocol, id, nil)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialTLSContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		return link.DialTLS(ctx, (&net.Dialer{}).DialContext, config, addr)
	}}}
	answer, err := client.Get("https://" + id.Servers[0] + wire.AssetPath + sum)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	return answer.StatusCode
}
