package asset

import (
	"bytes"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/journal/disk"
	"github.com/muster-fleet/muster/internal/journal/memfs"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

const folder = "/data/assets"

// testStore is an asset store for one test, on a simulated file system that can crash.
type testStore struct {
	*Store
	t    *testing.T
	fs   disk.FS
	hour int
}

// newTestStore opens an asset store in a new folder on a file system, for a test.
func newTestStore(t *testing.T, fs disk.FS) *testStore {
	t.Helper()
	h := &testStore{t: t, fs: fs}
	testenv.NoError(t, errors.Join(fs.MkdirAll(filepath.Dir(folder)), fs.SyncDir("/")))
	h.open()
	return h
}

// open opens the store again, for example after a simulated crash.
func (h *testStore) open() {
	h.t.Helper()
	var err error
	if h.Store, err = Open(Options{FS: h.fs, Dir: folder, Now: func() time.Time { return time.Unix(int64(h.hour)*3600, 0) }}); err != nil {
		h.t.Fatal(err)
	}
}

// put uploads an archive and returns its SHA-512.
func (h *testStore) put(data []byte) Sum {
	h.t.Helper()
	sum := sha512.Sum512(data)
	if n, err := h.Put(sum, bytes.NewReader(data)); err != nil || n != int64(len(data)) {
		h.t.Fatalf("%d %v", n, err)
	}
	return sum
}

// read returns the content of a stored archive.
func (h *testStore) read(sum Sum) []byte {
	h.t.Helper()
	f, err := h.Open(sum)
	testenv.NoError(h.t, err)
	defer f.Close()
	data, err := io.ReadAll(f)
	testenv.NoError(h.t, err)
	return data
}

// expectFiles fails the test unless the folder has exactly the files of the wanted archives.
func (h *testStore) expectFiles(want ...Sum) {
	h.t.Helper()
	var names []string
	for _, sum := range want {
		names = append(names, hex.EncodeToString(sum[:]))
	}
	slices.Sort(names)
	if got, err := h.fs.List(folder); err != nil || !slices.Equal(got, names) {
		h.t.Fatalf("in the folder are %v (%v), want %v", got, err, names)
	}
}

// testArchive returns an archive of 300 KiB filled with one byte.
func testArchive(fill byte) []byte { return bytes.Repeat([]byte{fill}, 300<<10) }

// An archive that Put has stored is complete and readable, also after a loss of power. It is readable from any offset.
func TestAcknowledgedArchiveSurvivesCrash(t *testing.T) {
	fs := memfs.New()
	h := newTestStore(t, fs)
	a, empty := h.put(testArchive('a')), h.put(nil)
	h.fs = fs.Crash(0, 1)
	h.open()
	h.expectFiles(a, empty)
	if got := h.read(a); !bytes.Equal(got, testArchive('a')) {
		t.Errorf("%d bytes of another kind", len(got))
	}
	if size, ok := h.Size(a); !ok || size != 300<<10 {
		t.Errorf("%d %v", size, ok)
	}
	if got := h.read(empty); len(got) != 0 {
		t.Errorf("%q", got)
	}
	f, err := h.Open(a)
	testenv.NoError(t, err)
	defer f.Close()
	testenv.Value(f.Seek(-5, io.SeekEnd))(t)
	if got, err := io.ReadAll(f); err != nil || string(got) != "aaaaa" {
		t.Errorf("%q %v", got, err)
	}
	if _, err := h.Open(Sum{1}); model.ClassOf(err) != model.NotFound {
		t.Errorf("%v", err)
	}
}

// interruptedReader is a reader that returns its bytes and then an error, and counts the reads.
type interruptedReader struct {
	io.Reader
	err   error
	reads int
}

// Read returns the reader's bytes, then the test's error.
func (e *interruptedReader) Read(p []byte) (int, error) {
	e.reads++
	if n, err := e.Reader.Read(p); err == nil {
		return n, nil
	}
	return 0, e.err
}

// An interrupted upload leaves no file. A repetition of the upload succeeds. The sender, the network or a loss of
// power interrupts it. A stored archive is not read again.
func TestInterruptedUploadLeavesNoFile(t *testing.T) {
	fs := memfs.New()
	h := newTestStore(t, fs)
	data := testArchive('a')
	sum := sha512.Sum512(data)
	for what, r := range map[string]io.Reader{
		"cut and said so": &interruptedReader{Reader: bytes.NewReader(data[:280<<10]), err: io.ErrUnexpectedEOF},
		"broke off":       &interruptedReader{Reader: bytes.NewReader(data[:280<<10]), err: errors.New("connection reset")},
		"ends early":      bytes.NewReader(data[:280<<10]),
		"empty":           bytes.NewReader(nil),
		"changed":         bytes.NewReader(testArchive('b')),
		"goes on":         io.MultiReader(bytes.NewReader(data), strings.NewReader("more")),
	} {
		_, err := h.Put(sum, r)
		want := model.Invalid
		if what == "broke off" {
			want = model.Unavailable
		}
		if model.ClassOf(err) != want {
			t.Errorf("%s: %v", what, err)
		}
		if _, ok := h.Size(sum); ok {
			t.Errorf("%s: it is there", what)
		}
		h.expectFiles()
	}
	held := &interruptedReader{Reader: bytes.NewReader(data), err: io.EOF}
	var crashed *memfs.FS
	testenv.Value(h.Put(sum, io.MultiReader(io.LimitReader(held, 260<<10), callbackReader(func() { crashed = fs.Crash(100, 1) }), held)))(t)
	h.expectFiles(sum)
	h.fs = crashed
	h.open() // removes the temporary file that the crash left
	h.expectFiles()
	h.put(data)
	again := &interruptedReader{Reader: strings.NewReader("anything"), err: io.EOF}
	if n, err := h.Put(sum, again); err != nil || n != int64(len(data)) || again.reads > 0 {
		t.Errorf("%d %v, %d reads", n, err, again.reads)
	}
}

// callbackReader is a reader that calls a function when all its content has been read.
type callbackReader func()

// Read calls the test's function, and then reports the end of the content.
func (f callbackReader) Read([]byte) (int, error) { f(); return 0, io.EOF }

// Simultaneous uploads of one archive store the archive once. Meanwhile others read it and unused archives are
// removed.
func TestConcurrentUploads(t *testing.T) {
	h := newTestStore(t, memfs.New())
	data := testArchive('a')
	sum := sha512.Sum512(data)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if n, err := h.Put(sum, bytes.NewReader(data)); err != nil || n != int64(len(data)) {
				t.Errorf("%d %v", n, err)
				return
			}
			f, err := h.Open(sum)
			if err != nil {
				t.Error(err)
				return
			}
			defer f.Close()
			if got, err := io.ReadAll(f); err != nil || !bytes.Equal(got, data) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		})
		all.Go(func() {
			if n, err := h.RemoveUnused(func(Sum) bool { return false }); n > 0 || err != nil {
				t.Errorf("%d removed, %v", n, err)
			}
		})
	}
	all.Wait()
	h.expectFiles(sum)
}

// TestUnusedArchivesAreRemoved expects archives without an Asset to be removed after an hour. The hour begins at the
// last upload or the server's start. A reader that has the archive open reads to its end.
func TestUnusedArchivesAreRemoved(t *testing.T) {
	fs := memfs.New()
	h := newTestStore(t, fs)
	named, gone, again := h.put(testArchive('a')), h.put(testArchive('b')), h.put(testArchive('c'))
	if f, err := fs.Create(filepath.Join(folder, "README")); err != nil || f.Close() != nil { // a foreign file
		t.Fatal(err)
	}
	collect := func(want int, left ...Sum) {
		t.Helper()
		if n, err := h.RemoveUnused(func(sum Sum) bool { return sum == named }); err != nil || n != want {
			t.Errorf("%d removed, %v, want %d", n, err, want)
		}
		for _, sum := range left {
			if _, ok := h.Size(sum); !ok {
				t.Errorf("%s is gone", ShortSum(sum))
			}
			h.read(sum)
		}
	}
	collect(0, named, gone, again)
	h.hour = 1
	h.put(testArchive('c'))
	h.open() // the start of the server renews the hour
	collect(0, named, gone, again)
	h.hour = 2
	h.put(testArchive('c'))
	f, err := h.Open(gone)
	testenv.NoError(t, err)
	defer f.Close()
	collect(1, named, again)
	if _, err := h.Open(gone); model.ClassOf(err) != model.NotFound {
		t.Errorf("%v", err)
	}
	if got, err := io.ReadAll(f); err != nil || !bytes.Equal(got, testArchive('b')) {
		t.Errorf("who was reading it: %d bytes, %v", len(got), err)
	}
	h.hour = 9
	collect(1, named)
	h.fs = fs.Crash(100, 1)
	h.open()
	if size, ok := h.Size(named); !ok || size != 300<<10 {
		t.Errorf("%d %v", size, ok)
	}
}

// fullDisk is a file system whose disk becomes full or fails.
type fullDisk struct {
	disk.FS
	free   int64
	writes error
	rename error
	sync   error
}

// Free returns the free bytes that the test has set.
func (f *fullDisk) Free(string) (int64, error) { return f.free, nil }

// Create creates a file on the full disk.
func (f *fullDisk) Create(name string) (disk.File, error) {
	file, err := f.FS.Create(name)
	return fullFile{file, f}, err
}

// Rename fails with the error that the test has set.
func (f *fullDisk) Rename(from, to string) error {
	if f.rename != nil {
		return f.rename
	}
	return f.FS.Rename(from, to)
}

// fullFile is a file on a fullDisk.
type fullFile struct {
	disk.File
	of *fullDisk
}

// WriteAt fails with the error that the test has set.
func (f fullFile) WriteAt(p []byte, at int64) (int, error) {
	if f.of.writes != nil {
		return 0, f.of.writes
	}
	return f.File.WriteAt(p, at)
}

// SyncData fails with the error that the test has set.
func (f fullFile) SyncData() error { return errors.Join(f.of.sync, f.File.SyncData()) }

// A full or failing disk is reported as the server's fault, not the upload's, and leaves no file. The fault is not the
// archive's.
func TestFullDiskLeavesNoFile(t *testing.T) {
	f := &fullDisk{FS: memfs.New(), free: 1 << 40}
	h := newTestStore(t, f)
	for what, x := range map[string]struct {
		disk fullDisk
		says string
	}{
		"nearly full":     {fullDisk{free: minFreeBytes - 1}, "has only"},
		"full":            {fullDisk{free: 1 << 40, writes: syscall.ENOSPC}, "no space left on device"},
		"full when moved": {fullDisk{free: 1 << 40, rename: syscall.ENOSPC}, "no space left on device"},
		"does not sync":   {fullDisk{free: 1 << 40, sync: syscall.EIO}, "input/output error"},
	} {
		f.free, f.writes, f.rename, f.sync = x.disk.free, x.disk.writes, x.disk.rename, x.disk.sync
		data := testArchive('a')
		_, err := h.Put(sha512.Sum512(data), bytes.NewReader(data))
		if model.ClassOf(err) != model.Unavailable || !strings.Contains(err.Error(), x.says) {
			t.Errorf("%s: %v", what, err)
		}
		h.expectFiles()
	}
	f.free, f.writes, f.rename, f.sync = 1<<40, nil, nil, nil
	h.expectFiles(h.put(testArchive('a')))
}

// endlessReader is a reader that returns zeros without end, and counts the zeros.
type endlessReader struct{ n int64 }

// Read returns zero bytes without end.
func (e *endlessReader) Read(p []byte) (int, error) {
	e.n += int64(len(p))
	clear(p)
	return len(p), nil
}

// discardingFS is a file system that discards all written content.
type discardingFS struct{ disk.FS }

// discardingFile is a file that accepts all writes and stores nothing.
type discardingFile struct{ disk.File }

// Create creates a file that discards its content.
func (b discardingFS) Create(name string) (disk.File, error) {
	f, err := b.FS.Create(name)
	return discardingFile{f}, err
}

// WriteAt discards the bytes.
func (discardingFile) WriteAt(p []byte, _ int64) (int, error) { return len(p), nil }

// An endless upload is refused once its length is above the limit of an archive.
func TestTooLargeUploadIsRefused(t *testing.T) {
	h := newTestStore(t, discardingFS{memfs.New()})
	zeros := &endlessReader{}
	if _, err := h.Put(Sum{}, zeros); model.ClassOf(err) != model.TooLarge || zeros.n > model.MaxAssetBytes+1<<20 {
		t.Errorf("%v, after %d bytes", err, zeros.n)
	}
	h.expectFiles()
}

// damage overwrites or truncates the file of an archive.
func (h *testStore) damage(sum Sum, data []byte) {
	h.t.Helper()
	f, err := h.fs.Create(filepath.Join(folder, hex.EncodeToString(sum[:])))
	testenv.NoError(h.t, err)
	defer f.Close()
	if _, err := f.WriteAt(data, 0); err != nil {
		h.t.Fatal(err)
	}
}

// A damaged archive counts as missing once the damage is found, and the next upload replaces the file. The next upload
// replaces it. Put checks a stored archive that nobody has checked yet.
func TestDamagedArchiveIsReplaced(t *testing.T) {
	data := testArchive('a')
	flipped := bytes.Clone(data)
	flipped[1000] ^= 1
	for what, bad := range map[string][]byte{"flipped": flipped, "cut": data[:1000], "empty": nil, "longer": append(bytes.Clone(data), 'x')} {
		h := newTestStore(t, memfs.New())
		sum := h.put(data)
		if err := h.Check(sum); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		h.damage(sum, bad)
		h.open()
		if _, ok := h.Size(sum); !ok {
			t.Errorf("%s: gone before anybody looked", what)
		}
		if err := h.Check(sum); model.ClassOf(err) != model.NotFound || !strings.Contains(err.Error(), "is damaged: its SHA-512 is") {
			t.Errorf("%s: %v", what, err)
		}
		if _, ok := h.Size(sum); ok || h.Damaged(sum) == nil {
			t.Errorf("%s: it is as if nothing were", what)
		}
		if _, err := h.Open(sum); model.ClassOf(err) != model.NotFound {
			t.Errorf("%s: %v", what, err)
		}
		h.put(data)
		if got := h.read(sum); !bytes.Equal(got, data) || h.Check(sum) != nil || h.Damaged(sum) != nil {
			t.Errorf("%s: not mended", what)
		}
		h.damage(sum, bad)
		h.open()
		h.put(data) // no Check has found the damage yet
		if got := h.read(sum); !bytes.Equal(got, data) {
			t.Errorf("%s: kept", what)
		}
		h.expectFiles(sum)
	}
}

// An archive counts as absent after its file was deleted by hand.
func TestMissingArchive(t *testing.T) {
	h := newTestStore(t, memfs.New())
	sum := h.put(testArchive('a'))
	testenv.NoError(t, h.fs.Remove(filepath.Join(folder, hex.EncodeToString(sum[:]))))
	if err := h.Check(sum); err == nil || !strings.Contains(err.Error(), "the file of the archive is missing") {
		t.Errorf("%v", err)
	}
	h.put(testArchive('a'))
	h.damage(sum, nil)
	if err := h.Check(sum); err == nil {
		t.Error("it is whole")
	}
	h.hour = 2
	if n, err := h.RemoveUnused(func(Sum) bool { return false }); n != 1 || err != nil {
		t.Errorf("%d %v", n, err)
	}
	h.expectFiles()
}
