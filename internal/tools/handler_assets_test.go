package tools

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha512"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/testenv"
)

// testExtractor is an Extractor with an archive store in memory.
type testExtractor struct {
	*Extractor
	t        *testing.T
	mu       sync.Mutex
	store    map[[64]byte][]byte
	opened   atomic.Int64
	arrivals atomic.Int64
}

// newTestExtractor returns an Extractor with an archive store in memory.
func newTestExtractor(t *testing.T) *testExtractor {
	t.Helper()
	w := &testExtractor{t: t, store: map[[64]byte][]byte{}}
	var err error
	w.Extractor, err = Open(Options{Dir: filepath.Join(t.TempDir(), "tools"), Facts: map[string]string{"os": "linux", "arch": "amd64"}, Ready: func() { w.arrivals.Add(1) }, Archive: func(sum [64]byte) (io.ReadSeekCloser, error) {
		w.opened.Add(1)
		w.mu.Lock()
		defer w.mu.Unlock()
		data, ok := w.store[sum]
		if !ok {
			return nil, model.Errorf(model.NotFound, "nobody has uploaded it").WithHint("muster asset add NAME FILE")
		}
		return struct {
			io.ReadSeeker
			io.Closer
		}{bytes.NewReader(data), io.NopCloser(nil)}, nil
	}})
	testenv.NoError(t, err)
	ctx, end := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = w.Run(ctx) })
	t.Cleanup(func() { end(); running.Wait() })
	return w
}

// makeArchive returns a tar archive of files, given as alternating names and contents.
func makeArchive(t *testing.T, files ...string) (data []byte, sum string) {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := 0; i < len(files); i += 2 {
		testenv.NoError(t, w.WriteHeader(&tar.Header{Name: files[i], Mode: 0o755, Size: int64(len(files[i+1])), Typeflag: tar.TypeReg}))
		if _, err := io.WriteString(w, files[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	testenv.NoError(t, w.Close())
	digest := sha512.Sum512(b.Bytes())
	return b.Bytes(), hex.EncodeToString(digest[:])
}

// upload adds an archive to the test's store in memory.
func (w *testExtractor) upload(data []byte) {
	w.mu.Lock()
	w.store[sha512.Sum512(data)] = data
	w.mu.Unlock()
	w.ArchiveArrived()
}

// declareAsset declares an Asset with the given builds (archives per platform).
func (w *testExtractor) declareAsset(name string, builds ...model.AssetBuild) {
	w.t.Helper()
	w.Apply([]route.Declaration{{Name: route.Name{Namespace: "default", Name: name}, Spec: &model.AssetSpec{Builds: builds}}})
}

// assertFile fails the test unless the folders of extracted assets contain a file with the given text.
func (w *testExtractor) assertFile(dirs []model.AssetDir, file, text string) {
	w.t.Helper()
	if len(dirs) != 1 {
		w.t.Fatalf("%v", dirs)
	}
	if got, err := os.ReadFile(filepath.Join(dirs[0].Dir, file)); err != nil || string(got) != text {
		w.t.Errorf("%q %v, want %q", got, err, text)
	}
}

// TestExtractedAssetIsReported extracts an asset, and expects the Extractor to report the asset by calling
// Ready. Ready is also called when a declared asset is already extracted.
func TestExtractedAssetIsReported(t *testing.T) {
	w := newTestExtractor(t)
	data, sum := makeArchive(t, "bin/x", "x")
	w.declareAsset("x", model.AssetBuild{SHA512: sum})
	w.SetHandlerAssets([]string{"default/x"})
	if _, _, err := w.UseAssets(t.Context(), []string{"default/x"}); err == nil {
		t.Fatal("the missing asset is in use")
	}
	if n := w.arrivals.Load(); n != 1 {
		t.Errorf("heard %d times before it arrivals", n)
	}
	w.upload(data)
	testenv.Until(t, "the arrival is reported", func() bool { return w.arrivals.Load() == 2 })
	if _, done, err := w.UseAssets(t.Context(), []string{"default/x"}); err != nil {
		t.Error(err)
	} else {
		done()
	}
	w.declareAsset("y", model.AssetBuild{SHA512: sum})
	if n := w.arrivals.Load(); n != 3 {
		t.Errorf("%d arrivals after the second declaration, want 3", n)
	}
}

// TestCommandKeepsFilesOfReplacedAsset replaces an asset while commands run, and expects the commands to keep the old
// files. An archive is extracted once for many commands.
func TestCommandKeepsFilesOfReplacedAsset(t *testing.T) {
	w := newTestExtractor(t)
	old, oldSum := makeArchive(t, "bin/x", "old")
	w.upload(old)
	w.declareAsset("x", model.AssetBuild{SHA512: strings.Repeat("0", 128), OS: "windows"}, model.AssetBuild{SHA512: oldSum})
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			dirs, done, err := w.UseAssets(t.Context(), []string{"default/x"})
			if err != nil {
				t.Error(err)
				return
			}
			defer done()
			w.assertFile(dirs, "bin/x", "old")
		})
	}
	all.Wait()
	if n := w.opened.Load(); n != 1 {
		t.Errorf("extracted %d times", n)
	}
	before, done, err := w.UseAssets(t.Context(), []string{"default/x"})
	testenv.NoError(t, err)
	next, nextSum := makeArchive(t, "bin/x", "new")
	w.upload(next)
	w.declareAsset("x", model.AssetBuild{SHA512: nextSum})
	after, end, err := w.UseAssets(t.Context(), []string{"default/x"})
	testenv.NoError(t, err)
	defer end()
	w.assertFile(before, "bin/x", "old")
	w.assertFile(after, "bin/x", "new")
	done()
}

// TestMissingAssetErrorNamesReason expects an error with the reason for a missing asset. After its upload the asset is
// usable.
func TestMissingAssetErrorNamesReason(t *testing.T) {
	w := newTestExtractor(t)
	data, sum := makeArchive(t, "bin/x", "text")
	w.declareAsset("x", model.AssetBuild{SHA512: sum})
	w.declareAsset("elsewhere", model.AssetBuild{SHA512: sum, OS: "plan9"})
	w.SetHandlerAssets([]string{"default/x", "default/elsewhere", "default/gone"})
	for ref, want := range map[string]string{
		"default/x":         "this server has no archive of asset default/x: nobody has uploaded it: muster asset add NAME FILE",
		"default/elsewhere": "asset default/elsewhere has no archive for the server's machine (linux amd64)\n  muster asset add -n default elsewhere FILE --os linux --arch amd64",
		"default/gone":      "asset default/gone does not exist; declare it with muster apply -f",
	} {
		if _, _, err := w.UseAssets(t.Context(), []string{ref}); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", ref, err, want)
		}
	}
	w.upload(data)
	testenv.Until(t, "the asset is extracted", func() bool {
		dirs, done, err := w.UseAssets(t.Context(), []string{"default/x"})
		if err != nil {
			return false
		}
		defer done()
		w.assertFile(dirs, "bin/x", "text")
		return true
	})
}

// TestScriptsAreReadOnce expects JavaScript files to be read in the order of names, and again only after a change.
func TestScriptsAreReadOnce(t *testing.T) {
	w := newTestExtractor(t)
	data, sum := makeArchive(t, "lib/b.js", "var b", "lib/a.js", "var a", "lib/c.txt", "no", "bin/d.js", "no", "lib/deep/e.js", "no")
	big, bigSum := makeArchive(t, "lib/big.js", strings.Repeat("x", 300<<10))
	w.upload(data)
	w.upload(big)
	w.declareAsset("x", model.AssetBuild{SHA512: sum})
	w.declareAsset("big", model.AssetBuild{SHA512: bigSum})
	w.Apply([]route.Declaration{{Name: route.Name{Namespace: "default", Name: "f"}, Spec: &model.FilterSpec{Assets: []string{"x", "shared/none"}}}})
	for _, ref := range []string{"default/x", "default/big"} {
		_, done, err := w.UseAssets(t.Context(), []string{ref})
		testenv.NoError(t, err)
		done()
	}
	list, key, err := w.Scripts([]string{"default/x"}, "")
	if err != nil || len(list) != 2 || list[0].Name != "default/x:lib/a.js" || list[0].Source != "var a" || list[1].Source != "var b" {
		t.Errorf("%v %v", list, err)
	}
	if again, same, err := w.Scripts([]string{"default/x"}, key); err != nil || len(again) != 0 || same != key {
		t.Errorf("%v %q %v", again, same, err)
	}
	if _, _, err := w.Scripts([]string{"default/big"}, ""); model.ClassOf(err) != model.TooLarge {
		t.Errorf("%v", err)
	}
	w.Apply([]route.Declaration{{Kind: "Asset", Name: route.Name{Namespace: "default", Name: "x"}}})
	if _, _, err := w.Scripts([]string{"default/x"}, key); model.ClassOf(err) != model.NotFound {
		t.Errorf("%v", err)
	}
}
