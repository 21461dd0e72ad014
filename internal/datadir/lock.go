package datadir

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/muster-fleet/muster/internal/journal/disk"
	"github.com/muster-fleet/muster/internal/model"
)

// lockFile in the data folder keeps a second process away from all that is in it.
const lockFile = "LOCK"

// Lock makes the data folder if need be and takes it for this process until the result is closed.
// The error has the class Conflict where another process has it.
func Lock(dir string) (io.Closer, error) {
	if err := makeFolder(dir); err != nil {
		return nil, err
	}
	held, err := disk.OS{}.Lock(filepath.Join(dir, lockFile))
	var other *disk.LockedError
	if errors.As(err, &other) {
		return nil, model.Errorf(model.Conflict, "data folder %q is in use by %s", dir, other.Holder()).
			WithHint("does it run already? muster status says so; else stop that process, or choose another folder with --data")
	}
	return held, err
}

// LockStopped takes a data folder that exists; NotFound where the folder is none of a server.
func LockStopped(dir string) (io.Closer, error) {
	names, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(names) == 0 {
		return nil, model.Errorf(model.NotFound, "%q is no data folder of a server", dir).WithHint("name it with --data DIR")
	}
	if err != nil {
		return nil, err
	}
	return Lock(dir)
}

// makeFolder makes a folder and its parents, so that they outlive a power failure.
func makeFolder(dir string) error {
	if _, err := os.Stat(dir); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	up := filepath.Dir(dir)
	if err := makeFolder(up); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return disk.OS{}.SyncDir(up)
}

// Explain adds a hint to an error of the file system: the owner of the file, or the state of the
// disk, and the command to type. Other errors come back as they are.
func Explain(err error, data string) error {
	var path *fs.PathError
	var explained *model.Error
	if err == nil || errors.As(err, &explained) || !errors.As(err, &path) {
		return err
	}
	switch {
	case errors.Is(err, syscall.EROFS):
		return model.Errorf(model.Unavailable, "%w", err).
			WithHint("the kernel makes a file system read-only when its disk fails: dmesg | tail; then mount -o remount,rw, or choose another folder with --data")
	case errors.Is(err, syscall.EIO):
		return model.Errorf(model.Unavailable, "%w", err).
			WithHint("the disk or its file system fails: dmesg | tail; keep a copy of what can still be read")
	case errors.Is(err, fs.ErrPermission):
		owner, info := existing(path.Path)
		self := userName(os.Geteuid())
		refused := model.Errorf(model.Forbidden, "%w: %q belongs to %s, this process runs as %s", err, owner, userOf(info), self)
		if folder, _ := os.Stat(data); userOf(folder) == self { // a copy by root, into a folder of the server's
			return refused.WithHint("give all of the folder to %s: chown -R %s: %s", self, self, data)
		}
		return refused.WithHint("run it as that user (sudo -u %s muster …), or give the folder away: chown -R %s %s", userOf(info), self, data)
	}
	return err
}

// existing returns the path, or the nearest folder above it that exists.
func existing(path string) (string, fs.FileInfo) {
	for {
		info, err := os.Stat(path)
		up := filepath.Dir(path)
		if err == nil || up == path {
			return path, info
		}
		path = up
	}
}

func userOf(info fs.FileInfo) string {
	if info == nil {
		return "another user"
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return userName(int(stat.Uid))
	}
	return "another user"
}

func userName(uid int) string {
	id := strconv.Itoa(uid)
	if u, err := user.LookupId(id); err == nil {
		return u.Username
	}
	return id
}
