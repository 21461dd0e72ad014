package disk

import (
	"errors"
	"io"
	"runtime"
	"strconv"
	"syscall"
)

// FS is the file system as stores use it. Names are paths of the platform. All calls are safe for
// concurrent use.
type FS interface {
	// Create makes an empty file, in place of one of that name.
	Create(name string) (File, error)
	// Open opens an existing file for reading.
	Open(name string) (File, error)
	// OpenWrite opens an existing file for reading and writing.
	OpenWrite(name string) (File, error)
	Remove(name string) error
	// Rename replaces newName if there is one.
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

// File is an open file. ReadAt and WriteAt are safe for concurrent use.
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

// LockedError reports a lock that another process has.
type LockedError struct {
	Name string
	PID  int // of the other process; zero: unknown
}

func (e *LockedError) Error() string { return "lock " + e.Name + " is held by " + e.Holder() }

// Holder describes the process that has the lock.
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

// WriteFile replaces a file atomically: a crash leaves the old or the new one whole. It writes a
// temporary file, syncs it, renames it and syncs the folder.
func WriteFile(fs FS, dir, name string, data []byte) error {
	path := join(dir, name)
	temporary := path + ".new"
	f, err := fs.Create(temporary)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, 0)
	if err == nil {
		err = f.SyncData()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = fs.Rename(temporary, path)
	}
	if err != nil {
		_ = fs.Remove(temporary)
		return err
	}
	return fs.SyncDir(dir)
}

// IsFull returns whether err reports a full disk or an exceeded quota.
func IsFull(err error) bool {
	const windowsDiskFull = syscall.Errno(112) // ERROR_DISK_FULL; EHOSTDOWN on Linux
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) ||
		runtime.GOOS == "windows" && errors.Is(err, windowsDiskFull)
}
