// Package faultfs wraps a disk.FS for tests: operations fail, stall, find a full disk, and are traced.
// One lock guards its settings and trace; it is not held during an operation.
package faultfs

import (
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/muster-fleet/muster/internal/journal/disk"
)

// Kind is a kind of file-system operation, such as Write or Sync.
type Kind string

// The kinds of operations; Open, Read and List change nothing.
const (
	Create    Kind = "create"
	OpenWrite Kind = "openwrite"
	Write     Kind = "write"
	Sync      Kind = "sync"
	SyncDir   Kind = "syncdir"
	Rename    Kind = "rename"
	Remove    Kind = "remove"
	Mkdir     Kind = "mkdir"
	Allocate  Kind = "allocate"
	Open      Kind = "open"
	Read      Kind = "read"
	List      Kind = "list"
)

// Changes reports whether operations of the kind change the disk, unlike reads.
func (k Kind) Changes() bool { return k != Open && k != Read && k != List }

// Op is one file-system operation, with its kind, file name, offset and size.
type Op struct {
	Kind   Kind
	Name   string // base name of the file or folder
	Offset int64
	Size   int
}

// String formats the operation for a recorded trace.
func (o Op) String() string { return fmt.Sprintf("%s %s %d+%d", o.Kind, o.Name, o.Offset, o.Size) }

// FS is a test file system that wraps another file system, injects errors and records operations.
type FS struct {
	inner disk.FS

	mu        sync.Mutex
	hook      func(Op) error
	trace     []Op
	traced    bool
	freeLimit int64 // bytes; -1: that of inner
}

var _ disk.FS = (*FS)(nil)

// New returns a file system that passes all operations to the file system inner, without faults at first
func New(inner disk.FS) *FS { return &FS{inner: inner, freeLimit: -1} }

// OnOperation sets a function that runs before every operation. It may wait (a stall); its error fails the operation.
// nil removes it.
func (f *FS) OnOperation(fn func(Op) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hook = fn
}

// Fail makes all operations of one kind return err, until the test replaces the fault by OnOperation.
func (f *FS) Fail(kind Kind, err error) {
	f.OnOperation(func(op Op) error {
		if op.Kind == kind {
			return err
		}
		return nil
	})
}

// SetFree sets the number of free bytes on the simulated disk. Beyond it writes fail with ENOSPC. A negative value
// ends the limit. Removing a file frees nothing.
func (f *FS) SetFree(bytes int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.freeLimit = bytes
}

// Record starts to record the operations that change the disk.
func (f *FS) Record() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.traced, f.trace = true, nil
}

// Trace returns the recorded file-system operations in the order of their start. Each is recorded before it is
// done.
func (f *FS) Trace() []Op {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]Op(nil), f.trace...)
}

// AddNote adds a line of text from the test to the recorded list of operations.
func (f *FS) AddNote(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.trace = append(f.trace, Op{Kind: "note", Name: text})
}

// traceOperation records an operation, and returns the error that the test has set for the operation.
func (f *FS) traceOperation(op Op) error {
	f.mu.Lock()
	hook := f.hook
	if f.traced && op.Kind.Changes() {
		f.trace = append(f.trace, op)
	}
	f.mu.Unlock()
	if hook != nil {
		if err := hook(op); err != nil {
			return fmt.Errorf("%s %s: %w", op.Kind, op.Name, err)
		}
	}
	if op.Kind == Write || op.Kind == Allocate {
		return f.spendFreeBytes(op)
	}
	return nil
}

// spendFreeBytes subtracts the bytes of a write from the simulated free bytes of the disk.
func (f *FS) spendFreeBytes(op Op) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.freeLimit < 0 {
		return nil
	}
	if int64(op.Size) > f.freeLimit {
		return fmt.Errorf("%s %s: %w", op.Kind, op.Name, syscall.ENOSPC)
	}
	f.freeLimit -= int64(op.Size)
	return nil
}

// Create creates an empty file, or returns the error that the test has set.
func (f *FS) Create(name string) (disk.File, error) { return f.openFile(Create, name, f.inner.Create) }

// Open opens a file for reading, or returns the error that the test has set.
func (f *FS) Open(name string) (disk.File, error) { return f.openFile(Open, name, f.inner.Open) }

// OpenWrite opens a file for reading and writing, or returns the error that the test has set.
func (f *FS) OpenWrite(name string) (disk.File, error) {
	return f.openFile(OpenWrite, name, f.inner.OpenWrite)
}

// openFile records and performs the opening of a file, or returns the error that the test has set
func (f *FS) openFile(kind Kind, name string, openFile func(string) (disk.File, error)) (disk.File, error) {
	if err := f.traceOperation(Op{Kind: kind, Name: filepath.Base(name)}); err != nil {
		return nil, err
	}
	inner, err := openFile(name)
	if err != nil {
		return nil, err
	}
	return &faultyFile{File: inner, fs: f, name: filepath.Base(name)}, nil
}

// Remove deletes a file, or returns the error that the test has set.
func (f *FS) Remove(name string) error { return f.changeDisk(Remove, name, f.inner.Remove) }

// Rename renames a file, or returns the error that the test has set. An existing file of the new name is replaced.
func (f *FS) Rename(oldName, newName string) error {
	return f.changeDisk(Rename, newName, func(string) error { return f.inner.Rename(oldName, newName) })
}

// MkdirAll creates a folder and its parents, or returns the error that the test has set.
func (f *FS) MkdirAll(dir string) error { return f.changeDisk(Mkdir, dir, f.inner.MkdirAll) }

// SyncDir syncs a folder's names to the disk, or returns the error that the test has set.
func (f *FS) SyncDir(dir string) error { return f.changeDisk(SyncDir, dir, f.inner.SyncDir) }

// changeDisk records and runs a changing operation on a named file, or returns the error from the test.
func (f *FS) changeDisk(kind Kind, name string, changeDisk func(string) error) error {
	if err := f.traceOperation(Op{Kind: kind, Name: filepath.Base(name)}); err != nil {
		return err
	}
	return changeDisk(name)
}

// List returns the file names in a folder of the wrapped file system.
func (f *FS) List(dir string) ([]string, error) {
	if err := f.traceOperation(Op{Kind: List, Name: filepath.Base(dir)}); err != nil {
		return nil, err
	}
	return f.inner.List(dir)
}

// Free returns the number of free bytes that the test has set. Without a setting it returns the free bytes of the
// inner file system.
func (f *FS) Free(dir string) (int64, error) {
	f.mu.Lock()
	free := f.freeLimit
	f.mu.Unlock()
	if free >= 0 {
		return free, nil
	}
	return f.inner.Free(dir)
}

// Lock locks a file of the wrapped file system.
func (f *FS) Lock(name string) (io.Closer, error) { return f.inner.Lock(name) }

// faultyFile is an open file of the test file system, whose operations fail if the test wants failures.
type faultyFile struct {
	disk.File
	fs   *FS
	name string
}

// ReadAt records and performs a read, or returns the error that the test has set
func (f *faultyFile) ReadAt(p []byte, offset int64) (int, error) {
	if err := f.fs.traceOperation(Op{Kind: Read, Name: f.name, Offset: offset, Size: len(p)}); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, offset)
}

// WriteAt records and performs a write, or returns the error that the test has set
func (f *faultyFile) WriteAt(p []byte, offset int64) (int, error) {
	if err := f.fs.traceOperation(Op{Kind: Write, Name: f.name, Offset: offset, Size: len(p)}); err != nil {
		return 0, err
	}
	return f.File.WriteAt(p, offset)
}

// SyncData records and performs a sync, or returns the error that the test has set
func (f *faultyFile) SyncData() error {
	if err := f.fs.traceOperation(Op{Kind: Sync, Name: f.name}); err != nil {
		return err
	}
	return f.File.SyncData()
}

// Allocate records and performs an allocation of disk space, or returns the error that the test has set
func (f *faultyFile) Allocate(size int64) error {
	if err := f.fs.traceOperation(Op{Kind: Allocate, Name: f.name, Size: int(size)}); err != nil {
		return err
	}
	return f.File.Allocate(size)
}
