package disk

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

// OS is the file system of the machine. Only their owner can access the files that it makes.
type OS struct{}

var _ FS = OS{}

func join(dir, name string) string { return filepath.Join(dir, name) }

// Create implements FS.
func (OS) Create(name string) (File, error) {
	return open(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
}

// Open implements FS.
func (OS) Open(name string) (File, error) { return open(name, os.O_RDONLY) }

// OpenWrite implements FS.
func (OS) OpenWrite(name string) (File, error) { return open(name, os.O_RDWR) }

func open(name string, flag int) (File, error) {
	f, err := os.OpenFile(name, flag, 0o600)
	if err != nil {
		return nil, err
	}
	return &osFile{File: f}, nil
}

// Remove implements FS.
func (OS) Remove(name string) error { return os.Remove(name) }

// Rename implements FS.
func (OS) Rename(oldName, newName string) error { return os.Rename(oldName, newName) }

// MkdirAll implements FS.
func (OS) MkdirAll(dir string) error { return os.MkdirAll(dir, 0o700) }

// List implements FS.
func (OS) List(dir string) ([]string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	sort.Strings(names)
	return names, err
}

// SyncDir implements FS.
func (OS) SyncDir(dir string) error { return syncDir(dir) }

// Free implements FS.
func (OS) Free(dir string) (int64, error) { return free(dir) }

// Lock implements FS. The kernel's lock counts; the process id in the file only serves the message.
func (OS) Lock(name string) (io.Closer, error) {
	lock := flock.New(name, flock.SetPermissions(0o600))
	got, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock %q: %w", name, err)
	}
	if !got {
		pid := 0
		if text, err := os.ReadFile(name); err == nil {
			pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
		}
		if !processEnded(pid) || !lockAfterExit(lock) {
			_ = lock.Close()
			return nil, &LockedError{Name: name, PID: pid}
		}
	}
	_ = os.WriteFile(name, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600)
	return lock, nil
}

// lockAfterExit waits for the lock of a process that has ended: a child that it was starting when it was
// killed shares the lock until exec, for milliseconds.
func lockAfterExit(lock *flock.Flock) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	got, err := lock.TryLockContext(ctx, 5*time.Millisecond)
	return got && err == nil
}

type osFile struct{ *os.File }

func (f *osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (f *osFile) SyncData() error { return syncData(f.File) }

func (f *osFile) Allocate(size int64) error { return allocate(f.File, size) }

// fill reserves disk space by writing zeros, where the platform has no allocation.
func fill(f *os.File, size int64) error {
	zeros := make([]byte, 1<<20)
	for at := int64(0); at < size; at += int64(len(zeros)) {
		if _, err := f.WriteAt(zeros[:min(int64(len(zeros)), size-at)], at); err != nil {
			return err
		}
	}
	return f.Sync()
}
