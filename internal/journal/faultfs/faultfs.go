// Package faultfs makes a disk.FS fail, stall, fill up and tell what it did: for
// tests of whatever stores something, from one package's to those of the whole.
// One lock guards what it does next and what it saw; it is not held while it stalls.
package faultfs

import (
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/muster-fleet/muster/internal/journal/disk"
)

// Kind is a kind of operation.
type Kind string

// The operations that change something, and those that only look.
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

// Changes says whether the operation changes something on disk.
func (k Kind) Changes() bool { return k != Open && k != Read && k != List }

// Op is one operation as it was asked for.
type Op struct {
	Kind   Kind
	Name   string // base name of the file or folder
	Offset int64
	Size   int
}

func (o Op) String() string { return fmt.Sprintf("%s %s %d+%d", o.Kind, o.Name, o.Offset, o.Size) }

// FS wraps another FS.
type FS struct {
	inner disk.FS

	mu     sync.Mutex
	before func(Op) error
	trace  []Op
	traced bool
	free   int64 // -1: what inner says
}

var _ disk.FS = (*FS)(nil)

// New wraps inner and changes nothing yet.
func New(inner disk.FS) *FS { return &FS{inner: inner, free: -1} }

// OnOperation sets what runs before every operation, in the goroutine that asked: it may
// wait (a stall), and an error from it is the operation's, which is then not done.
// nil ends it.
func (f *FS) OnOperation(fn func(Op) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before = fn
}

// Fail makes operations of the kind fail with err until OnOperation is set anew.
func (f *FS) Fail(kind Kind, err error) {
	f.OnOperation(func(op Op) error {
		if op.Kind == kind {
			return err
		}
		return nil
	})
}

// SetFree limits the room: writes and allocations beyond it fail with ENOSPC; a
// negative value ends that. Removing gives nothing back: set it again.
func (f *FS) SetFree(bytes int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.free = bytes
}

// Record begins to keep the operations that change something.
func (f *FS) Record() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.traced, f.trace = true, nil
}

// Trace is what was recorded so far, each before it was done.
func (f *FS) Trace() []Op {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]Op(nil), f.trace...)
}

// AddNote puts something of the test's own into the trace.
func (f *FS) AddNote(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.trace = append(f.trace, Op{Kind: "note", Name: text})
}

func (f *FS) ask(op Op) error {
	f.mu.Lock()
	before := f.before
	if f.traced && op.Kind.Changes() {
		f.trace = append(f.trace, op)
	}
	f.mu.Unlock()
	if before != nil {
		if err := before(op); err != nil {
			return fmt.Errorf("%s %s: %w", op.Kind, op.Name, err)
		}
	}
	if op.Kind == Write || op.Kind == Allocate {
		return f.take(op)
	}
	return nil
}

func (f *FS) take(op Op) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.free < 0 {
		return nil
	}
	if int64(op.Size) > f.free {
		return fmt.Errorf("%s %s: %w", op.Kind, op.Name, syscall.ENOSPC)
	}
	f.free -= int64(op.Size)
	return nil
}

// Create implements disk.FS.
func (f *FS) Create(name string) (disk.File, error) {
	if err := f.ask(Op{Kind: Create, Name: filepath.Base(name)}); err != nil {
		return nil, err
	}
	return f.wrap(name)(f.inner.Create(name))
}

// Open implements disk.FS.
func (f *FS) Open(name string) (disk.File, error) {
	if err := f.ask(Op{Kind: Open, Name: filepath.Base(name)}); err != nil {
		return nil, err
	}
	return f.wrap(name)(f.inner.Open(name))
}

// OpenWrite implements disk.FS.
func (f *FS) OpenWrite(name string) (disk.File, error) {
	if err := f.ask(Op{Kind: OpenWrite, Name: filepath.Base(name)}); err != nil {
		return nil, err
	}
	return f.wrap(name)(f.inner.OpenWrite(name))
}

// Remove implements disk.FS.
func (f *FS) Remove(name string) error {
	if err := f.ask(Op{Kind: Remove, Name: filepath.Base(name)}); err != nil {
		return err
	}
	return f.inner.Remove(name)
}

// Rename implements disk.FS.
func (f *FS) Rename(oldName, newName string) error {
	if err := f.ask(Op{Kind: Rename, Name: filepath.Base(newName)}); err != nil {
		return err
	}
	return f.inner.Rename(oldName, newName)
}

// List implements disk.FS.
func (f *FS) List(dir string) ([]string, error) {
	if err := f.ask(Op{Kind: List, Name: filepath.Base(dir)}); err != nil {
		return nil, err
	}
	return f.inner.List(dir)
}

// MkdirAll implements disk.FS.
func (f *FS) MkdirAll(dir string) error {
	if err := f.ask(Op{Kind: Mkdir, Name: filepath.Base(dir)}); err != nil {
		return err
	}
	return f.inner.MkdirAll(dir)
}

// SyncDir implements disk.FS.
func (f *FS) SyncDir(dir string) error {
	if err := f.ask(Op{Kind: SyncDir, Name: filepath.Base(dir)}); err != nil {
		return err
	}
	return f.inner.SyncDir(dir)
}

// Free implements disk.FS.
func (f *FS) Free(dir string) (int64, error) {
	f.mu.Lock()
	free := f.free
	f.mu.Unlock()
	if free >= 0 {
		return free, nil
	}
	return f.inner.Free(dir)
}

// Lock implements disk.FS.
func (f *FS) Lock(name string) (io.Closer, error) { return f.inner.Lock(name) }

func (f *FS) wrap(name string) func(disk.File, error) (disk.File, error) {
	return func(inner disk.File, err error) (disk.File, error) {
		if err != nil {
			return nil, err
		}
		return &file{File: inner, fs: f, name: filepath.Base(name)}, nil
	}
}

type file struct {
	disk.File
	fs   *FS
	name string
}

func (f *file) ReadAt(p []byte, offset int64) (int, error) {
	if err := f.fs.ask(Op{Kind: Read, Name: f.name, Offset: offset, Size: len(p)}); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, offset)
}

func (f *file) WriteAt(p []byte, offset int64) (int, error) {
	if err := f.fs.ask(Op{Kind: Write, Name: f.name, Offset: offset, Size: len(p)}); err != nil {
		return 0, err
	}
	return f.File.WriteAt(p, offset)
}

func (f *file) SyncData() error {
	if err := f.fs.ask(Op{Kind: Sync, Name: f.name}); err != nil {
		return err
	}
	return f.File.SyncData()
}

func (f *file) Allocate(size int64) error {
	if err := f.fs.ask(Op{Kind: Allocate, Name: f.name, Size: int(size)}); err != nil {
		return err
	}
	return f.File.Allocate(size)
}
