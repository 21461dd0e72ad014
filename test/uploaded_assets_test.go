//go:build linux

package test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
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
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
	"github.com/muster-fleet/muster/test/harness"
)

// writeArchive writes a tar.gz archive of the given files. A file whose content begins with "> " becomes a symbolic
// link.
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
		testenv.NoError(t, w.WriteHeader(h))
		testenv.Value(io.WriteString(w, text))(t)
	}
	testenv.NoError(t, w.Close())
	testenv.NoError(t, packed.Close())
	path = filepath.Join(t.TempDir(), "archive.tar.gz")
	writeFile(t, path, b.Bytes())
	digest := sha512.Sum512(b.Bytes())
	return path, hex.EncodeToString(digest[:])
}

// assetCheck returns the YAML of a check that uses assets.
func assetCheck(name, command, assets string) string {
	return "---\nkind: Check\nmetadata: {name: " + name + "}\nspec: {targets: {nodes: [web01]}, interval: 1s, command: " + command + ", assets: [" + assets + "]}\n"
}

// awaitCheckOutput waits until a check's event on the node web01 has the given status and text.
func awaitCheckOutput(t *testing.T, c *client.Client, check string, status model.Status, text string) {
	t.Helper()
	awaitEvent(t, c, "web01", check, text, func(e v1.Event) bool { return e.Status == status && strings.Contains(e.Output, text) })
}

// TestChecksRunUploadedAssets uploads an asset archive, and expects checks to run its programs. The agent fetches it
// with its certificate, verifies its checksum and runs its program. A faulty archive is reported on the event.
// Archives survive a restart of the server, and an agent that lost them fetches them again.
func TestChecksRunUploadedAssets(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	good, goodSum := writeArchive(t, map[string]string{
		"bin/check_word": "#!/bin/sh\necho \"$(cat \"$CHECK_PLUGINS_PATH/share/word\")\"\n", "share/word": "hello", "> bin/check_link": "check_word",
	})
	use := assetCheck("word", "[check_word]", "check-plugins")
	file := tempFile(t, "check.yaml", []byte(use))
	s.Try("apply", "-f", file).Expect(harness.AnyFailure, "check-plugins")
	s.Try("asset", "add", "check-plugins", good, "--os", "linux", "--arch", runtime.GOARCH, "-m", "words").Expect(0, "asset/check-plugins created")
	a := s.StartAgent("web01")
	s.Apply(use + assetCheck("link", "check_link", "check-plugins"))
	awaitCheckOutput(t, s.API, "word", model.OK, "hello")
	awaitCheckOutput(t, s.API, "link", model.OK, "hello")

	t.Run("refused", func(t *testing.T) {
		escape, _ := writeArchive(t, map[string]string{"bin/x": "x", "../escaped": "x"})
		through, _ := writeArchive(t, map[string]string{"> bin": "../../..", "lib/x": "x"})
		bomb, _ := writeArchive(t, map[string]string{"bin/x": strings.Repeat("\x00", 80<<20)})
		for name, x := range map[string]struct{ file, says string }{
			"escape": {escape, `"../escaped" is outside`}, "through": {through, "is a link to a place outside"}, "bomb": {bomb, "the archive is too large"},
		} {
			s.CLI("asset", "add", name, x.file)
			s.Apply(assetCheck(name, "x", name))
			awaitCheckOutput(t, s.API, name, model.Unknown, x.says)
		}
		s.CLI("asset", "add", "elsewhere", good, "--os", "plan9")
		s.Apply(assetCheck("elsewhere", "check_word", "elsewhere"))
		awaitCheckOutput(t, s.API, "elsewhere", model.Unknown, "has no archive for this machine (linux "+runtime.GOARCH)
	})
	t.Run("of a hook", func(t *testing.T) {
		s.Apply(`{kind: Hook, metadata: {name: word}, spec: {command: check_word, assets: [check-plugins, elsewhere]}}
---
{kind: Check, metadata: {name: hooked}, spec: {targets: {nodes: [web01]}, interval: 1s, command: echo the command runs, hooks: [{hook: word, when: [ok]}]}}
`)
		s.AwaitOutput("describe event web01/hooked", "the command runs", "hello")
	})
	t.Run("from an address", func(t *testing.T) {
		fetched, sum := writeArchive(t, map[string]string{"bin/check_far": "#!/bin/sh\necho from afar\n"})
		far := httptest.NewServer(http.FileServer(http.Dir(filepath.Dir(fetched))))
		defer far.Close()
		s.CLI("asset", "add", "far", "--url", far.URL+"/archive.tar.gz", "--sha512", sum)
		s.Apply(assetCheck("far", "check_far", "far"))
		awaitCheckOutput(t, s.API, "far", model.OK, "from afar")
		s.CLI("asset", "add", "wrong", "--url", far.URL+"/archive.tar.gz", "--sha512", strings.Repeat("0f", 64))
		s.Apply(assetCheck("wrong", "check_far", "wrong"))
		awaitCheckOutput(t, s.API, "wrong", model.Unknown, "the archive has the SHA-512")
		s.Try("asset", "list").Expect(0, "missing: ", goodSum[:12])
	})
	t.Run("wrong sum uploaded", func(t *testing.T) {
		err := s.API.Resources.PutArchive(t.Context(), strings.Repeat("ab", 64), strings.NewReader("something else"))
		require(t, model.ClassOf(err) == model.Invalid, "%v", err)
	})
	t.Run("others do not get it", func(t *testing.T) {
		other := s.StartAgent("web02")
		other.AwaitLog("connected")
		for dir, want := range map[string]int{a.State: http.StatusOK, other.State: http.StatusForbidden} {
			got := fetchAsset(t, s, dir, goodSum)
			assert(t, got == want, "%s: %d, want %d", dir, got, want)
		}
	})
	t.Run("offline, then back", func(t *testing.T) {
		a.Stop()
		testenv.NoError(t, os.RemoveAll(filepath.Join(a.State, "assets")))
		s.Stop()
		a.Start()
		a.AwaitLog("cannot fetch an asset")
		s.Start()
		a.AwaitLog(`msg="asset ready" sha512=` + goodSum[:12])
		awaitCheckOutput(t, s.API, "word", model.OK, "hello")
	})
}

// fetchAsset requests an asset archive with an agent's certificate, and returns the HTTP status.
func fetchAsset(t *testing.T, s *harness.Server, dir, sum string) int {
	t.Helper()
	id := testenv.Value(pki.LoadIdentity(dir))(t)
	config := link.TLSFor(wire.AssetProtocol, id, nil)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialTLSContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		return link.DialTLS(ctx, (&net.Dialer{}).DialContext, config, addr)
	}}}
	answer := testenv.Value(client.Get("https://" + id.Servers[0] + wire.AssetPath + sum))(t)
	defer answer.Body.Close()
	return answer.StatusCode
}

// A handler can run a program from an uploaded asset archive. A damaged archive is reported with the delivery and by
// doctor, and the command that they print repairs it.
func TestHandlersRunUploadedAssets(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	dir := t.TempDir()
	told := filepath.Join(dir, "told")
	good, sum := writeArchive(t, map[string]string{
		"bin/tell": "#!/bin/sh\necho \"$0 $1 $TELL_TOOLS_PATH $LD_LIBRARY_PATH $CPATH\" >> \"$OUT.env\"\ncat >> \"$OUT\"\n", "share/word": "hello",
	})
	handler := func(name, asset string) string {
		return fmt.Sprintf("---\nkind: Handler\nmetadata: {name: %s}\nspec: {command: [tell, --now], assets: [%s], env: {OUT: %q}}\n", name, asset, filepath.Join(dir, name))
	}
	file := filepath.Join(dir, "handler.yaml")
	writeFile(t, file, []byte(handler("told", "tell-tools")))
	s.Try("apply", "-f", file).Expect(harness.AnyFailure, `asset "tell-tools" does not exist`)
	s.CLI("asset", "add", "tell-tools", good, "--os", "linux", "--arch", runtime.GOARCH)
	s.Apply(handler("told", "tell-tools") + "---\nkind: Namespace\nmetadata: {name: default}\nspec: {handlers: [told]}\n")
	s.Try("handler", "test", "told").Expect(0, "tell")
	env, _ := os.ReadFile(told + ".env")
	where := filepath.Join(s.Data, "tools", sum)
	want := fmt.Sprintf("%[1]s/bin/tell --now %[1]s %[1]s/lib %[1]s/include\n", where)
	assert(t, string(env) == want, "the script had %q, want %q", env, want)
	s.StartAgent("web01")
	check := s.NewCountingCheck("disk", "web01")
	check.AwaitRuns(1)
	check.SetExitCode(2)
	lines := func(of string, n int) {
		t.Helper()
		awaitFile(t, filepath.Join(dir, of), n, "\n")
	}
	lines("told", 2)
	if out, _ := os.ReadFile(told); !strings.Contains(string(out), `"kind":"opened"`) || !strings.Contains(string(out), `"node":"web01"`) {
		t.Errorf("%s", out)
	}
	s.Try("delete", "asset", "tell-tools", "--yes").Expect(harness.AnyCode, "handler/told")

	doctor := func(words ...string) {
		t.Helper()
		r := s.Try("doctor", "--data", s.Data, "--admin", s.Admin, "--agents", "10")
		out := strings.Join(strings.Fields(r.Out), " ")
		expectTexts(t, out, words...)
	}
	t.Run("no build for the server", func(t *testing.T) {
		s.CLI("asset", "add", "elsewhere", good, "--os", "plan9")
		s.Apply(handler("plan9", "elsewhere"))
		s.Try("handler", "test", "plan9").Expect(9, "asset default/elsewhere has no archive for the server's machine (linux "+runtime.GOARCH)
	})
	t.Run("not uploaded yet", func(t *testing.T) {
		late, lateSum := writeArchive(t, map[string]string{"bin/tell": "#!/bin/sh\ncat >> \"$OUT\"\n"})
		s.Apply(fmt.Sprintf("---\nkind: Asset\nmetadata: {name: late}\nspec: {builds: [{sha512: %s}]}\n", lateSum) + handler("late", "late") +
			"---\nkind: Namespace\nmetadata: {name: default}\nspec: {handlers: [told, late]}\n")
		check.SetExitCode(0)
		lines("told", 3)
		check.SetExitCode(2)
		lines("told", 4) // the other handler is not delayed
		s.AwaitOutput("why web01/disk", "this server has no archive of asset default/late: the server does not have the archive", "upload it")
		doctor("asset default/late", "nobody has uploaded it", "muster asset add late FILE -n default")
		s.CLI("asset", "add", "late", late)
		lines("late", 1)
	})
	t.Run("damaged", func(t *testing.T) {
		s.Stop()
		testenv.NoError(t, os.Remove(filepath.Join(where, "bin/tell")))
		s.Start()
		if r := s.Try("handler", "test", "told"); r.Code != 0 { // extracted again
			t.Errorf("%s%s", r.Out, r.Errors)
		}
		s.Stop()
		testenv.NoError(t, os.RemoveAll(where))
		writeFile(t, filepath.Join(s.Data, "assets", sum), []byte("flipped"))
		s.Start()
		harness.Until(t, time.Minute, "what a test says", func() (string, bool) {
			r := s.Try("handler", "test", "told")
			return r.Out + r.Errors, r.Code == 9 && strings.Contains(r.Out, "the server's copy of the archive "+sum[:12]+"… is damaged: ")
		})
		s.Try("asset", "list").Expect(0, "is damaged")
		doctor("asset default/tell-tools for linux "+runtime.GOARCH, "is damaged", "muster asset add tell-tools FILE -n default")
		s.CLI("asset", "add", "tell-tools", good, "--os", "linux", "--arch", runtime.GOARCH)
		harness.Until(t, time.Minute, "the damaged archive is replaced", func() (string, bool) {
			r := s.Try("handler", "test", "told")
			return r.Out + r.Errors, r.Code == 0
		})
	})
}

// The filters and mutators of pipelines get their programs and JavaScript from assets.
func TestFiltersAndMutatorsUseAssets(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	dir := t.TempDir()
	scripts, _ := writeArchive(t, map[string]string{
		"lib/often.js": "// which occurrences count\nfunction often(event, n) { return event.check.occurrences % n == 0 }",
		"lib/words.js": "var words = {of: function (event) { return event.entity.name + ' ' + event.check.occurrences }}",
	})
	program, _ := writeArchive(t, map[string]string{"bin/shorten": "#!/bin/sh\ncat > /dev/null\necho shortened\n"})
	s.CLI("asset", "add", "scripts", scripts)
	s.CLI("asset", "add", "programs", program)
	s.Apply(`{kind: Handler, metadata: {name: words}, spec: {command: cat >> ` + dir + `/words}}
---
{kind: Handler, metadata: {name: short}, spec: {command: cat >> ` + dir + `/short}}
---
{kind: Filter, metadata: {name: often}, spec: {action: allow, expressions: ['often(event, 3)'], assets: [scripts]}}
---
{kind: Mutator, metadata: {name: words}, spec: {javascript: return words.of(event), assets: [scripts]}}
---
{kind: Mutator, metadata: {name: shorten}, spec: {command: shorten, assets: [programs]}}
---
{kind: Pipeline, metadata: {name: alerts},
  spec: {workflows: [{name: words, filters: [is_incident, often], mutator: words, handler: words}, {name: short, filters: [is_incident], mutator: shorten, handler: short}]}}
---
{kind: Check, metadata: {name: flag},
  spec: {targets: {nodes: [web01]}, interval: 1s, command: 'false', pipelines: [alerts]}}
`)
	s.StartAgent("web01")
	for file, want := range map[string]string{"words": "web01 6\n", "short": "shortened\n"} {
		awaitFile(t, filepath.Join(dir, file), 1, want)
	}
	out := readFile(t, filepath.Join(dir, "words"))
	for _, line := range strings.Fields(strings.ReplaceAll(string(out), "web01 ", "")) {
		assert(t, line == "3" || line == "6" || line == "9" || line == "12", "the filter passed occurrence %s", line)
	}
}
