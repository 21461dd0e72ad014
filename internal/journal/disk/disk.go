package disk

import (
	"errors"
	"io"
	"runtime"
	"strconv"
	"syscall"
)

// FS is what a store needs of a file system. Names are paths of the platform.
// All calls are safe for concurrent use.
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
	// Free is the room left for this process, in bytes.
	Free(dir string) (int64, error)
	// Lock takes a lock that ends with the process, however it ends. It does not
	// wait: a *LockedError says who holds it.
	Lock(name string) (io.Closer, error)
}

// File is an open file. ReadAt and WriteAt are safe for concurrent use.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// SyncData makes what was written durable, with the size, without the times.
	SyncData() error
	Size() (int64, error)
	// Allocate takes room for size bytes from the start, so that it is not there
	// for others.
	Allocate(size int64) error
}

// LockedError says that another process holds a lock.
type LockedError struct {
	Name string
	PID  int // of the holder; zero: unknown
}

func (e *LockedError) Error() string { return "lock " + e.Name + " is held by " + e.Holder() }

// Holder is who holds it, for people.
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

// WriteFile replaces a file so that a crash leaves the old or the new one whole:
// written beside, synced, renamed, folder synced.
func WriteFile(fs FS, dir, name string, data []byte) error {
	path := join(dir, name)
	beside := path + ".new"
	f, err := fs.Create(beside)
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
		err = fs.Rename(beside, path)
	}
	if err != nil {
		_ = fs.Remove(beside)
		return err
	}
	return fs.SyncDir(dir)
}

// IsFull says whether err means that there is no room, by disk or by quota.
func IsFull(err error) bool {
	const windowsDiskFull = syscall.Errno(112) // ERROR_DISK_FULL; EHOSTDOWN on Linux
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) ||
		runtime.GOOS == "windows" && errors.Is(err, windowsDiskFull)
}
