// Package disk is the file system of the journal, the spool and the snapshots: few calls, each of which
// a test can make fail, stall or vanish in a crash. OS is the real one; memfs (crashes) and faultfs
// (faults) are for tests. Start at file_system.go.
package disk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gofrs/flock"
)

// FS is the interface of a file system for journal and snapshots, real or simulated. Tests replace it. Names are paths
// of the platform. All calls are safe for concurrent use.
type FS interface {
	// Create makes an empty file and replaces an existing file of that name.
	Create(name string) (File, error)
	// Open opens an existing file for reading.
	Open(name string) (File, error)
	// OpenWrite opens an existing file for reading and writing.
	OpenWrite(name string) (File, error)
	Remove(name string) error
	// Rename renames a file and replaces an existing file newName.
	Rename(oldName, newName string) error
	// List returns the names in a folder, sorted.
	List(dir string) ([]string, error)
	MkdirAll(dir string) error
	// SyncDir makes the names in a folder durable: creations, renames, removals.
	SyncDir(dir string) error
	// Free returns the bytes of free space for this process.
	Free(dir string) (int64, error)
	// Lock takes a lock that the kernel releases when the process ends. It does not wait: a *LockedError
	// has the present owner.
	Lock(name string) (io.Closer, error)
}

// File is an open file of a file system. ReadAt and WriteAt are safe for concurrent use.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// SyncData makes content and size durable, without the times.
	SyncData() error
	Size() (int64, error)
	// Allocate reserves disk space for size bytes from the start.
	Allocate(size int64) error
}

// LockedError is the error about a lock that another process holds.
type LockedError struct {
	Name string
	PID  int // of the process that holds the lock; zero: unknown
}

// Error returns a text that names the process with the lock.
func (e *LockedError) Error() string { return "lock " + e.Name + " is held by " + e.Holder() }

// Holder describes the process with the lock on a file, such as "process 4711".
func (e *LockedError) Holder() string {
	if e.PID == 0 {
		return "another process"
	}
	return "process " + strconv.Itoa(e.PID)
}

// ReadFile reads a whole file.
func ReadFile(fs FS, name string) ([]byte, error) {
	f, err := fs.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	data := make([]byte, size)
	n, err := f.ReadAt(data, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return data[:n], nil
}

// WriteFile replaces the content of a file atomically. After a crash the file has either the old or the new content.
// It writes and syncs a temporary file, renames the file and syncs the folder.
func WriteFile(fs FS, dir, name string, data []byte) error {
	path := filepath.Join(dir, name)
	temporary := path + ".new"
	if err := WriteNew(fs, temporary, data); err != nil {
		return err
	}
	if err := fs.Rename(temporary, path); err != nil {
		_ = fs.Remove(temporary)
		return err
	}
	return fs.SyncDir(dir)
}

// WriteNew writes and syncs a new file, whose name survives a crash only after a call of SyncDir. It removes
// the file after an error.
func WriteNew(fs FS, path string, data []byte) error {
	f, err := fs.Create(path)
	if err != nil {
		return err
	}
	if _, err = f.WriteAt(data, 0); err == nil {
		err = f.SyncData()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		_ = fs.Remove(path)
	}
	return err
}

// IsFull reports whether an error is a full disk or an exceeded quota.
func IsFull(err error) bool {
	const windowsDiskFull = syscall.Errno(112) // ERROR_DISK_FULL; EHOSTDOWN on Linux
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) ||
		runtime.GOOS == "windows" && errors.Is(err, windowsDiskFull)
}

// OS is the machine's file system. Files that OS creates are accessible to their owner only.
type OS struct{}

var _ FS = OS{}

// Create creates an empty file.
func (OS) Create(name string) (File, error) {
	return openFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
}

// Open opens a file for reading.
func (OS) Open(name string) (File, error) { return openFile(name, os.O_RDONLY) }

// OpenWrite opens a file for reading and writing.
func (OS) OpenWrite(name string) (File, error) { return openFile(name, os.O_RDWR) }

// openFile opens a file that, if newly created, only its owner can read.
func openFile(name string, flag int) (File, error) {
	f, err := os.OpenFile(name, flag, 0o600)
	if err != nil {
		return nil, err
	}
	return &machineFile{File: f}, nil
}

// Remove deletes a file from the disk.
func (OS) Remove(name string) error { return os.Remove(name) }

// Rename renames a file, and replaces an existing file of the new name.
func (OS) Rename(oldName, newName string) error { return os.Rename(oldName, newName) }

// MkdirAll creates a folder and its parents.
func (OS) MkdirAll(dir string) error { return os.MkdirAll(dir, 0o700) }

// List returns the names of the files in a folder, sorted.
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

// SyncDir syncs the file names in a folder to the disk, so that new files survive a crash.
func (OS) SyncDir(dir string) error { return syncDir(dir) }

// Free returns how many bytes are free on the disk that contains a folder.
func (OS) Free(dir string) (int64, error) { return free(dir) }

// Lock locks a file until the returned lock is closed. If another process has the lock, it returns a *LockedError at
// once. The kernel's lock counts; the process id in the file only serves the message. Lock also locks the folder of
// the file: after somebody has deleted the file, the folder is still the same one.
func (OS) Lock(name string) (io.Closer, error) {
	pid := 0
	if text, err := os.ReadFile(name); err == nil {
		pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
	}
	folder := flock.New(filepath.Dir(name), flock.SetFlag(os.O_RDONLY))
	if got, err := folder.TryLock(); err == nil && !got && !lockAfterExit(folder, pid) { // some file systems lock no folders
		_ = folder.Close()
		return nil, &LockedError{Name: name, PID: pid}
	}
	file := flock.New(name, flock.SetPermissions(0o600))
	held := lockGroup{file, folder}
	got, err := file.TryLock()
	if err != nil {
		_ = held.Close()
		return nil, fmt.Errorf("lock %q: %w", name, err)
	}
	if !got && !lockAfterExit(file, pid) {
		_ = held.Close()
		return nil, &LockedError{Name: name, PID: pid}
	}
	_ = os.WriteFile(name, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600)
	return held, nil
}

// lockGroup is a group of file locks that one call releases together.
type lockGroup []*flock.Flock

// Close releases all file locks of the group.
func (l lockGroup) Close() error {
	var errs []error
	for _, one := range l {
		errs = append(errs, one.Close())
	}
	return errors.Join(errs...)
}

// lockAfterExit waits up to two seconds for the lock of a process that has just ended. A child process that was
// just being started may hold the lock for some milliseconds. It returns false at once for a process that
// lives.
func lockAfterExit(lock *flock.Flock, pid int) bool {
	if !processEnded(pid) {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	got, err := lock.TryLockContext(ctx, 5*time.Millisecond)
	return got && err == nil
}

// machineFile is an open file of the machine's file system.
type machineFile struct{ *os.File }

// Size returns the size of the file in bytes
func (f *machineFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// SyncData syncs the file's data to the disk.
func (f *machineFile) SyncData() error { return syncData(f.File) }

// Allocate reserves disk space for the file.
func (f *machineFile) Allocate(size int64) error { return allocate(f.File, size) }

// writeZeros reserves disk space for a file by writing zeros. It is for systems without a system call for that.
func writeZeros(f *os.File, size int64) error {
	zeros := make([]byte, 1<<20)
	for at := int64(0); at < size; at += int64(len(zeros)) {
		if _, err := f.WriteAt(zeros[:min(int64(len(zeros)), size-at)], at); err != nil {
			return err
		}
	}
	return f.Sync()
}
