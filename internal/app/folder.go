package app

import (
	"context"
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

func (s *Server) openFolder(context.Context) (err error) {
	s.folder, err = lockFolder(s.cfg.Data)
	return err
}

// lockFolder makes the data folder if need be and takes it for this process.
func lockFolder(dir string) (io.Closer, error) {
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

// makeFolder makes a folder, and those above it, so that a power failure leaves them there.
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

// explain says in words what the file system would not let us do, and who may.
func explain(err error, data string) error {
	var path *fs.PathError
	var said *model.Error
	if err == nil || errors.As(err, &said) || !errors.As(err, &path) {
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
		said := model.Errorf(model.Forbidden, "%w: %q belongs to %s, this process runs as %s", err, owner, userOf(info), self)
		if folder, _ := os.Stat(data); userOf(folder) == self { // a copy by root, into a folder of the server's
			return said.WithHint("give all of the folder to %s: chown -R %s: %s", self, self, data)
		}
		return said.WithHint("run it as that user (sudo -u %s muster …), or give the folder away: chown -R %s %s", userOf(info), self, data)
	}
	return err
}

// existing is the path, or the nearest folder above it that is there.
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
		return "somebody"
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return userName(int(stat.Uid))
	}
	return "somebody"
}

func userName(uid int) string {
	id := strconv.Itoa(uid)
	if u, err := user.LookupId(id); err == nil {
		return u.Username
	}
	return id
}
