package asset

import (
	"bytes"
	"context"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/muster-fleet/muster/internal/testenv"
)

// assetServer is a test server that serves archives and counts downloads.
type assetServer struct {
	t                *testing.T
	dir              string
	cache            *Cache
	archives         map[Sum][]byte
	mu               sync.Mutex
	requestedOffsets []int64                                                         // from which byte on
	fetch            func(ctx context.Context, sum Sum, from int64) (*Source, error) // nil: sends the whole archive
	cacheLimit       int64
	changeConfig     func(*Config)
	arrivedCount     atomic.Int64
	stop             func()
}

// newAssetServer returns a test server that has no archives yet, with an empty folder for the tested cache.
func newAssetServer(t *testing.T) *assetServer {
	return &assetServer{t: t, dir: filepath.Join(t.TempDir(), "assets"), archives: map[Sum][]byte{}}
}

// addArchive adds an archive with one file to the test server, and returns the archive's SHA-512.
func (d *assetServer) addArchive(name, text string) Sum {
	return d.storeArchive(makeTar(d.t, false, fileHeader(name, text)))
}

// storeArchive puts the bytes of an archive on the server and returns their SHA-512.
func (d *assetServer) storeArchive(data []byte) Sum {
	digest := sha512.Sum512(data)
	sum := hex.EncodeToString(digest[:])
	d.archives[sum] = data
	return sum
}

// open closes the tested cache and opens another cache on the same folder, like an agent's restart.
func (d *assetServer) open() {
	d.t.Helper()
	var err error
	config := Config{Dir: d.dir, Bytes: d.cacheLimit, Limits: Limits{Bytes: 1 << 20, Free: 64 << 10, Ratio: 2, Files: 10}, Ready: func(Sum) { d.arrivedCount.Add(1) }, Fetch: func(ctx context.Context, sum Sum, from int64) (*Source, error) {
		d.mu.Lock()
		d.requestedOffsets = append(d.requestedOffsets, from)
		d.mu.Unlock()
		if d.fetch != nil {
			return d.fetch(ctx, sum, from)
		}
		return d.archiveSource(sum, from)
	}}
	if d.changeConfig != nil {
		d.changeConfig(&config)
	}
	d.cache, err = Open(config)
	testenv.NoError(d.t, err)
	ctx, end := context.WithCancel(d.t.Context())
	done := make(chan struct{})
	go func() { defer close(done); d.cache.Run(ctx) }()
	d.stop = func() { end(); <-done }
}

// requestCount returns the number of downloads that the server has answered.
func (d *assetServer) requestCount() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.requestedOffsets)
}

// advanceClock advances the simulated clock and waits until the cache is idle. It is called in a bubble.
func (d *assetServer) advanceClock(how time.Duration) {
	time.Sleep(how)
	synctest.Wait()
}

// archiveSource returns the bytes of an archive from a byte offset on.
func (d *assetServer) archiveSource(sum Sum, from int64) (*Source, error) {
	return &Source{Body: io.NopCloser(bytes.NewReader(d.archives[sum][from:])), From: from}, nil
}

// wantArchives tells the cache which archives the checks need.
func (d *assetServer) wantArchives(sums ...Sum) {
	all := map[Sum]bool{}
	for _, sum := range sums {
		all[sum] = true
	}
	d.cache.SetNeeded(all)
}

// requestFolder asks the cache for the folder of an archive, as a run of a check does.
func (d *assetServer) requestFolder(sum Sum) (dir string, err error) {
	ctx, cancel := context.WithTimeout(d.t.Context(), 10*time.Second)
	defer cancel()
	return d.cache.Dir(ctx, sum)
}

// expectFile fails the test unless the archive's folder has the file with the given text.
func (d *assetServer) expectFile(sum Sum, name, text string) {
	d.t.Helper()
	dir, err := d.requestFolder(sum)
	testenv.NoError(d.t, err)
	if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != text {
		d.t.Fatalf("%q %v, want %q", got, err, text)
	}
}

// waitForError fails the test unless the cache refuses an archive with the expected error text.
func (d *assetServer) waitForError(sum Sum, words string) {
	d.t.Helper()
	if dir, err := d.requestFolder(sum); err == nil || !strings.Contains(err.Error(), words) {
		d.t.Fatalf("%q %v, want: %s", dir, err, words)
	}
}

// expectStoredFiles fails the test unless the cache's folder contains exactly the given files.
func (d *assetServer) expectStoredFiles(want ...string) {
	d.t.Helper()
	list, err := os.ReadDir(d.dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		d.t.Fatal(err)
	}
	var got []string
	for _, e := range list {
		got = append(got, e.Name())
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		d.t.Fatalf("in the folder are %v, want %v", got, want)
	}
}

// runInBubble runs a test with simulated time (in a bubble of testing/synctest).
func runInBubble(t *testing.T, fn func(d *assetServer), change ...func(d *assetServer)) {
	synctest.Test(t, func(t *testing.T) {
		d := newAssetServer(t)
		for _, c := range change {
			c(d)
		}
		d.open()
		defer func() { d.stop() }()
		fn(d)
	})
}

// brokenBody is the body of a download that returns some bytes and then an error.
type brokenBody struct {
	io.Reader
	err error
}

// Read returns some bytes of the download and then an error.
func (b brokenBody) Read(p []byte) (int, error) {
	if n, err := b.Reader.Read(p); err == nil {
		return n, nil
	}
	return 0, b.err
}

// Close does nothing, because the download has no connection.
func (brokenBody) Close() error { return nil }

// hangingBody is the body of a download that returns some bytes and then blocks. It blocks until its request is
// cancelled.
type hangingBody struct {
	io.Reader
	ctx context.Context
}

// Read returns some bytes of the download and then blocks until the request is cancelled.
func (h hangingBody) Read(p []byte) (int, error) {
	if n, err := h.Reader.Read(p); err == nil {
		return n, nil
	}
	<-h.ctx.Done()
	return 0, h.ctx.Err()
}

// Close does nothing, because the download has no connection.
func (hangingBody) Close() error { return nil }

// TestInterruptedDownloadContinues interrupts a download, and expects the next attempt to continue at the last byte. A
// restart in between changes nothing.
func TestInterruptedDownloadContinues(t *testing.T) {
	runInBubble(t, func(d *assetServer) {
		sum := d.addArchive("x", strings.Repeat("abc", 5000))
		data := d.archives[sum]
		d.fetch = func(ctx context.Context, _ Sum, from int64) (*Source, error) {
			switch len(d.requestedOffsets) {
			case 1:
				return &Source{Body: brokenBody{bytes.NewReader(data[:4000]), errors.New("connection reset")}}, nil
			case 2:
				return &Source{Body: hangingBody{bytes.NewReader(data[from:9000]), ctx}, From: from}, nil
			case 3:
				return nil, errors.New("no server answers")
			case 4:
				return &Source{Body: brokenBody{bytes.NewReader(data[:9100]), errors.New("connection reset")}}, nil // from its beginning
			}
			return d.archiveSource(sum, from)
		}
		d.wantArchives(sum)
		d.waitForError(sum, "the download stopped after 4000 and continues from there: connection reset")
		for d.requestCount() < 4 {
			d.advanceClock(time.Second)
		}
		synctest.Wait()
		d.waitForError(sum, "the download stopped after 9100 and continues from there: connection reset")
		d.stop()
		d.open()
		d.wantArchives(sum)
		d.expectFile(sum, "x", strings.Repeat("abc", 5000))
		if d.stop(); !slices.Equal(d.requestedOffsets, []int64{0, 4000, 9000, 9000, 9100}) {
			t.Errorf("asked for the bytes from %v", d.requestedOffsets)
		}
		d.expectStoredFiles(sum)
	})
}

// TestWrongArchiveIsRefused sends archives with wrong content, and expects the cache to discard each and retry later.
// The content has a wrong SHA-512, a wrong part or too many bytes.
func TestWrongArchiveIsRefused(t *testing.T) {
	runInBubble(t, func(d *assetServer) {
		sum := d.addArchive("x", "right")
		began := time.Now()
		d.fetch = func(_ context.Context, _ Sum, from int64) (*Source, error) {
			switch len(d.requestedOffsets) {
			case 1, 2, 3, 4:
				return &Source{Body: io.NopCloser(strings.NewReader("wrong")), From: from}, nil
			case 5:
				return &Source{Body: io.NopCloser(strings.NewReader("x")), From: from + 1}, nil
			}
			return d.archiveSource(sum, from)
		}
		d.wantArchives(sum)
		d.advanceClock(3 * time.Second)
		d.waitForError(sum, "the download is not the archive")
		d.expectStoredFiles()
		d.stop()
		d.open()
		d.wantArchives(sum)
		for d.requestCount() < 5 {
			d.advanceClock(time.Second)
		}
		synctest.Wait()
		d.waitForError(sum, "the server sent another part of the archive than requested")
		for d.arrivedCount.Load() == 0 {
			d.advanceClock(time.Second)
		}
		d.expectFile(sum, "x", "right")
		if took := time.Since(began); took < 6*time.Second {
			t.Errorf("fetched %d times within %v", d.requestCount(), took)
		}
	})
}

// TestInvalidArchiveLeavesNoFile downloads an archive that cannot be extracted, and expects no file on disk.
// The next attempt follows only after an hour.
func TestInvalidArchiveLeavesNoFile(t *testing.T) {
	runInBubble(t, func(d *assetServer) {
		bomb := d.storeArchive(makeTar(d.t, true, fileHeader("x", strings.Repeat("\x00", 1<<18))))
		escape := d.storeArchive(makeTar(d.t, true, fileHeader("bin/x", "x"), fileHeader("../escaped", "x")))
		odd := d.storeArchive(makeTar(d.t, true, fileHeader("b\xefn", "x"), fileHeader("b\xefn/x", "y")))
		fine := d.addArchive("b\xefn/x", "not UTF-8")
		d.wantArchives(bomb, escape, odd, fine)
		d.advanceClock(time.Minute)
		d.waitForError(bomb, `the archive is invalid: "x": the archive is too large`)
		d.waitForError(escape, `the archive is invalid: "../escaped" is outside`)
		d.waitForError(odd, `the archive is invalid: the archive contains "b\xefn" twice`)
		d.expectFile(fine, "b\xefn/x", "not UTF-8")
		if d.requestCount() != 4 {
			t.Errorf("fetched %d times within a minute", d.requestCount())
		}
		d.expectStoredFiles(fine)
		d.cache.RetryNow() // a session: still no better
		d.advanceClock(time.Minute)
		if d.requestCount() != 4 {
			t.Errorf("fetched %d times", d.requestCount())
		}
		d.advanceClock(2 * time.Hour)
		if n := d.requestCount(); n < 7 || n > 13 {
			t.Errorf("fetched %d times within two hours", n)
		}
	})
}

// TestManyRunsWaitForOneDownload lets several runs wait for a hanging download, and expects another archive to arrive
// meanwhile.
func TestManyRunsWaitForOneDownload(t *testing.T) {
	runInBubble(t, func(d *assetServer) {
		slow, quick := d.addArchive("x", "slow"), d.addArchive("x", "quick")
		var stuck atomic.Bool
		stuck.Store(true)
		d.fetch = func(ctx context.Context, sum Sum, from int64) (*Source, error) {
			if sum == slow && stuck.Load() {
				return &Source{Body: hangingBody{strings.NewReader(""), ctx}, From: from}, nil
			}
			return d.archiveSource(sum, from)
		}
		d.wantArchives(slow, quick)
		done := make(chan string, 6)
		for range 3 {
			for _, sum := range []Sum{slow, quick} {
				go func() { dir, _ := d.cache.Dir(d.t.Context(), sum); done <- dir }()
			}
		}
		d.advanceClock(stallTimeout + 2*fetchSpread)
		d.expectFile(quick, "x", "quick")
		stuck.Store(false)
		d.cache.RetryNow()
		d.advanceClock(stallTimeout + 2*fetchSpread)
		d.expectFile(slow, "x", "slow")
		for range 6 {
			<-done
		}
		if d.arrivedCount.Load() != 2 {
			t.Errorf("%d archives came", d.arrivedCount.Load())
		}
	})
}

// TestFullDiskIsReportedAndRetried fails a download because the disk is full, and expects an error and a later
// successful download. When space is free again, the archive must arrive.
func TestFullDiskIsReportedAndRetried(t *testing.T) {
	runInBubble(t, func(d *assetServer) {
		sum := d.addArchive("x", "text")
		var full atomic.Bool
		full.Store(true)
		d.fetch = func(_ context.Context, _ Sum, from int64) (*Source, error) {
			if full.Load() {
				return &Source{Body: brokenBody{strings.NewReader(""), &os.PathError{Op: "write", Path: "x.part", Err: syscall.ENOSPC}}, From: from}, nil
			}
			return d.archiveSource(sum, from)
		}
		d.wantArchives(sum)
		d.advanceClock(time.Minute)
		d.waitForError(sum, "no space left on device")
		full.Store(false)
		d.advanceClock(2 * longestRetryWait)
		d.expectFile(sum, "x", "text")
	})
}

// TestUnusedAssetsAreEvicted exceeds the disk limit, and expects the least recently used archive to be deleted first.
// Only archives without a check are deleted. Where checks need all others, the newest archive is missing.
func TestUnusedAssetsAreEvicted(t *testing.T) {
	runInBubble(t, func(d *assetServer) {
		a, b, c, e := d.addArchive("x", strings.Repeat("a", 100)), d.addArchive("x", strings.Repeat("b", 100)), d.addArchive("x", strings.Repeat("c", 100)), d.addArchive("x", strings.Repeat("e", 100))
		for _, sum := range []Sum{a, b} {
			d.wantArchives(sum)
			d.advanceClock(2 * time.Hour)
			d.expectFile(sum, "x", strings.Repeat(string(d.archives[sum][512]), 100))
		}
		d.advanceClock(2 * time.Hour)
		d.expectFile(a, "x", strings.Repeat("a", 100)) // used again: b is older
		d.stop()
		d.open()
		d.wantArchives(c)
		d.advanceClock(time.Minute)
		d.expectStoredFiles(sortedSums(a, c)...)
		d.wantArchives(a, c)
		d.wantArchives(a, c, e)
		d.advanceClock(time.Minute)
		d.waitForError(e, "the assets of this node's checks have 300, more than the limit of 250")
		d.expectStoredFiles(sortedSums(a, c)...)
		d.wantArchives(c, e)
		d.advanceClock(time.Minute)
		d.expectFile(e, "x", strings.Repeat("e", 100))
		d.expectStoredFiles(sortedSums(c, e)...)
	}, func(d *assetServer) { d.cacheLimit = 250 })
}

// sortedSums returns the SHA-512 sums of two archives in ascending order.
func sortedSums(a, b Sum) []string { return []string{min(a, b), max(a, b)} }

// TestDownloadOfUnneededAssetStops removes the check that needs an asset during its download, and expects the
// download to stop. Its partial file must be deleted.
func TestDownloadOfUnneededAssetStops(t *testing.T) {
	runInBubble(t, func(d *assetServer) {
		sum := d.addArchive("x", "text")
		held, fail := make(chan struct{}), false
		d.fetch = func(_ context.Context, _ Sum, from int64) (*Source, error) {
			<-held
			if fail {
				return &Source{Body: brokenBody{bytes.NewReader(d.archives[sum][:700]), errors.New("connection reset")}}, nil
			}
			return d.archiveSource(sum, from)
		}
		d.wantArchives(sum)
		d.advanceClock(fetchSpread)
		synctest.Wait()
		d.wantArchives()
		close(held)
		synctest.Wait()
		d.expectStoredFiles(sum)
		d.wantArchives(sum)
		d.expectFile(sum, "x", "text")
		if d.requestCount() != 1 {
			t.Errorf("fetched %d times", d.requestCount())
		}
		d.wantArchives()
		other := d.addArchive("x", "other")
		held, fail = make(chan struct{}), true
		d.wantArchives(other)
		d.advanceClock(fetchSpread)
		synctest.Wait()
		d.wantArchives()
		close(held)
		synctest.Wait()
		d.expectStoredFiles(sum)
	})
}

// TestLeftoversOfACrashAreRemoved opens a cache folder after a crash, and expects incomplete archives to be deleted.
// Files of other programs stay.
func TestLeftoversOfACrashAreRemoved(t *testing.T) {
	runInBubble(t, func(d *assetServer) {
		d.stop()
		needed, gone := d.addArchive("x", strings.Repeat("x", 1000)), d.addArchive("x", "gone")
		for _, dir := range []string{needed + ".new/half", gone + ".old.new"} {
			testenv.NoError(d.t, os.MkdirAll(filepath.Join(d.dir, dir), 0o755))
		}
		for name, text := range map[string][]byte{needed + ".part": d.archives[needed][:600], gone + ".part": d.archives[gone][:600], "z.part": nil} {
			testenv.NoError(t, os.WriteFile(filepath.Join(d.dir, name), text, 0o600))
		}
		d.open()
		testenv.NoError(t, os.MkdirAll(filepath.Join(d.dir, needed, "old"), 0o755))
		d.wantArchives(needed)
		d.expectFile(needed, "x", strings.Repeat("x", 1000))
		if d.stop(); !slices.Equal(d.requestedOffsets, []int64{600}) {
			t.Errorf("asked for the bytes from %v", d.requestedOffsets)
		}
		d.expectStoredFiles(needed, "z.part")
		if _, err := os.Stat(filepath.Join(d.dir, needed, "old")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("of the folder of before: %v", err)
		}
	})
}
