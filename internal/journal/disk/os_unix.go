//go:build unix

package disk

import (
	"os"

	"golang.org/x/sys/unix"
)

// gone says that no process has the number; of 0, which nobody wrote, it is not known.
func gone(pid int) bool { return pid > 0 && unix.Kill(pid, 0) == unix.ESRCH }

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

func free(dir string) (int64, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return int64(fs.Bavail) * int64(fs.Bsize), nil //nolint:unconvert // the types differ by platform
}
