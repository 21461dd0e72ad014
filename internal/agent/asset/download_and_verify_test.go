package asset

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/testenv"
)

// TestDamagedAssetIsExtractedAgain changes extracted files, and expects the archive to be extracted again.
func TestDamagedAssetIsExtractedAgain(t *testing.T) {
	runInBubble(t, func(d *assetServer) {
		sum := d.storeArchive(makeTar(t, true, fileHeader("bin/x y", "text"), fileHeader("lib/z", "more")))
		d.wantArchives(sum)
		d.expectFile(sum, "bin/x y", "text")
		at := func(name string) string { return filepath.Join(d.dir, sum, name) }
		times := 1
		for what, damage := range map[string]func() error{
			"a file is gone":    func() error { return os.Remove(at("bin/x y")) },
			"a file is shorter": func() error { return os.WriteFile(at("bin/x y"), []byte("t"), 0o600) },
			"another text": func() error {
				return errors.Join(os.WriteFile(at("bin/x y"), []byte("tekt"), 0o600), os.Chtimes(at("bin/x y"), time.Time{}, time.Unix(1, 0)))
			},
			"it cannot be run": func() error { return os.Chmod(at("bin/x y"), 0o600) },
			"a folder is gone": func() error { return os.RemoveAll(at("lib")) },
			"all is gone":      func() error { return os.RemoveAll(at("")) },
			"no list any more": func() error { return os.WriteFile(at("")+listSuffix, []byte(listHead+"x\n"), 0o600) },
		} {
			testenv.NoError(t, damage())
			d.advanceClock(time.Minute)
			d.expectFile(sum, "bin/x y", "text")
			d.expectFile(sum, "lib/z", "more")
			if times++; d.requestCount() != times {
				t.Errorf("%s: fetched %d times, want %d", what, d.requestCount(), times)
			}
		}
		testenv.NoError(t, os.WriteFile(at("lib/z.cache"), []byte("compiled"), 0o600))
		d.advanceClock(time.Minute)
		d.expectFile(sum, "lib/z.cache", "compiled")
		d.stop()
		testenv.NoError(t, os.Remove(at("lib/z")))
		d.open() // opens the cache with the damaged folder
		d.wantArchives(sum)
		d.expectFile(sum, "lib/z", "more")
		if times++; d.requestCount() != times {
			t.Errorf("fetched %d times, want %d", d.requestCount(), times)
		}
		d.stop()
		testenv.NoError(t, os.RemoveAll(at("")))
		d.open()
		d.expectStoredFiles() // nor its list
	}, func(d *assetServer) { d.changeConfig = func(c *Config) { c.Look, c.NoDelay = time.Minute, true } })
}

// TestFileListFormatGolden compares the file list of an archive with golden bytes, because later versions read the
// format.
func TestFileListFormatGolden(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "x")
	at := time.Unix(1700000000, 5)
	for _, err := range []error{
		os.MkdirAll(filepath.Join(dir, "bin"), 0o755), os.WriteFile(filepath.Join(dir, "bin", "a \"b\""), []byte("text"), 0o755), os.Chmod(filepath.Join(dir, "bin", "a \"b\""), 0o755),
		os.Chtimes(filepath.Join(dir, "bin", "a \"b\""), at, at), os.Symlink("bin", filepath.Join(dir, "link")), writeList(dir),
	} {
		testenv.NoError(t, err)
	}
	data, err := os.ReadFile(dir + listSuffix)
	want := "muster asset list 1\nd \".\"\nd \"bin\"\nf \"bin/a \\\"b\\\"\" 4 755 1700000000000000005\nl \"link\"\n"
	if err != nil || string(data) != want {
		t.Errorf("%q %v, want %q", data, err, want)
	}
	if what, err := findChangedFile(dir); what != "" || err != nil {
		t.Errorf("%q %v", what, err)
	}
}

// TestAssetOfARunningCommandIsNotEvicted expects the archive of a running command to stay until the command
// ends, also above the limit.
func TestAssetOfARunningCommandIsNotEvicted(t *testing.T) {
	runInBubble(t, func(d *assetServer) {
		old, next := d.addArchive("x", strings.Repeat("o", 60)), d.addArchive("x", strings.Repeat("n", 60))
		d.wantArchives(old)
		dir, done, err := d.cache.Acquire(d.t.Context(), old)
		testenv.NoError(t, err)
		d.wantArchives(next)
		d.expectFile(next, "x", strings.Repeat("n", 60))
		if _, err := os.Stat(filepath.Join(dir, "x")); err != nil {
			t.Error(err)
		}
		done()
		d.expectStoredFiles(next)
	}, func(d *assetServer) { d.cacheLimit = 100 })
}

// TestDiskReserveIsKept sets a reserve above the free disk space and expects an error in place of the archive.
func TestDiskReserveIsKept(t *testing.T) {
	runInBubble(t, func(d *assetServer) {
		sum := d.addArchive("x", "text")
		d.wantArchives(sum)
		d.advanceClock(time.Minute)
		d.waitForError(sum, "and the agent reserves")
		if _, err := os.Stat(filepath.Join(d.dir, sum)); !os.IsNotExist(err) {
			t.Error(err)
		}
	}, func(d *assetServer) { d.changeConfig = func(c *Config) { c.Reserve = 1 << 60 } })
}
