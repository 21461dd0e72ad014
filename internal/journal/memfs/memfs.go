// Package memfs is a file system in memory for tests that can crash: unsynced content and names are
// lost. It uses Pebble's vfs.
package memfs

import (
	"io"
	"io/fs"
	"math/rand/v2"
	"slices"

	"github.com/cockroachdb/errors/oserror"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/muster-fleet/muster/internal/journal/disk"
)

// FS is an in-memory disk.FS that simulates power failures. Names begin with "/".
type FS struct{ mem *vfs.MemFS }

var _ disk.FS = (*FS)(nil)

// New returns an empty file system in memory.
func New() *FS { return &FS{mem: vfs.NewCrashableMem()} }

// Crash returns a copy of the file system after a simulated power failure, without unsynced data. The copy has
// all synced content, and each unsynced block and name with the probability keepPercent. Locks are released.
func (f *FS) Crash(keepPercent int, seed uint64) *FS {
	return &FS{mem: f.mem.CrashClone(vfs.CrashCloneCfg{
		UnsyncedDataPercent: keepPercent,
		RNG:                 rand.New(rand.NewPCG(seed, 1)),
	})}
}

const category = vfs.WriteCategoryUnspecified

// Create creates an empty file in memory.
func (f *FS) Create(name string) (disk.File, error) { return wrapFile(f.mem.Create(name, category)) }

// Open opens a file for reading in memory.
func (f *FS) Open(name string) (disk.File, error) { return wrapFile(f.mem.Open(name)) }

// OpenWrite opens a file for reading and writing in memory.
func (f *FS) OpenWrite(name string) (disk.File, error) {
	if _, err := f.mem.Stat(name); err != nil {
		return nil, asNotExist(err)
	}
	return wrapFile(f.mem.OpenReadWrite(name, category))
}

// Remove deletes a file in memory.
func (f *FS) Remove(name string) error { return asNotExist(f.mem.Remove(name)) }

// Rename renames a file, and replaces an existing file of the new name in memory.
func (f *FS) Rename(oldName, newName string) error { return asNotExist(f.mem.Rename(oldName, newName)) }

// List returns the sorted names in a folder in memory.
func (f *FS) List(dir string) ([]string, error) {
	names, err := f.mem.List(dir)
	slices.Sort(names)
	return names, asNotExist(err)
}

// MkdirAll creates a folder and its parents in memory.
func (f *FS) MkdirAll(dir string) error { return f.mem.MkdirAll(dir, 0o700) }

// SyncDir makes the names in a folder survive a later Crash, like a sync of a real folder.
func (f *FS) SyncDir(dir string) error {
	d, err := f.mem.OpenDir(dir)
	if err != nil {
		return asNotExist(err)
	}
	defer d.Close()
	return d.Sync()
}

// Free returns a huge number, because the disk in memory is never full.
func (f *FS) Free(string) (int64, error) { return 1 << 50, nil }

// Lock locks a file in memory until the returned lock is closed.
func (f *FS) Lock(name string) (io.Closer, error) {
	held, err := f.mem.Lock(name)
	if err != nil {
		return nil, &disk.LockedError{Name: name}
	}
	return held, nil
}

// memoryFile adapts an in-memory file of the library vfs to the interface disk.File.
type memoryFile struct{ vfs.File }

// wrapFile converts an opened file of the library vfs to a disk.File, and converts the error likewise. An error
// of opening is converted.
func wrapFile(f vfs.File, err error) (disk.File, error) {
	if err != nil {
		return nil, asNotExist(err)
	}
	return memoryFile{f}, nil
}

// WriteAt writes a copy of the data, because the library vfs may change the given bytes.
func (f memoryFile) WriteAt(p []byte, offset int64) (int, error) {
	return f.File.WriteAt(slices.Clone(p), offset)
}

// Size returns the size of the file in bytes
func (f memoryFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// Allocate reserves nothing, because the reserve file of 256 MiB would fill the memory.
func (f memoryFile) Allocate(int64) error { return nil }

// asNotExist converts the error for a missing file of the library vfs to fs.ErrNotExist.
func asNotExist(err error) error {
	if oserror.IsNotExist(err) {
		return &fs.PathError{Op: "memfs", Path: err.Error(), Err: fs.ErrNotExist}
	}
	return err
}
