//go:build unix

package disk

import (
	"os"

	"golang.org/x/sys/unix"
)

// processEnded reports whether the process with the given id has ended. The id 0 means unknown.
func processEnded(pid int) bool { return pid > 0 && unix.Kill(pid, 0) == unix.ESRCH }

// syncDir syncs the file names in a folder to the disk, so that new files survive a crash.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if closeErr := d.Close(); err == nil {
		err = closeErr
	}
	return err
}

// free returns the number of free bytes on the disk that contains the folder.
func free(dir string) (int64, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return int64(fs.Bavail) * int64(fs.Bsize), nil // the types differ by platform
}
