package policy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// symlink is the policy method that requires a symbolic link to exist with a certain target.
type symlink struct{ *model.SymlinkMethod }

// check compares the symbolic link's target with the declared target.
func (m *symlink) check(context.Context) (string, error) {
	if !filepath.IsAbs(m.Path) {
		return "", fmt.Errorf("the path %q is not absolute", m.Path)
	}
	info, err := os.Lstat(m.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return m.Path + " does not exist", nil
	case err != nil:
		return "", err
	case info.Mode()&fs.ModeSymlink == 0:
		return fmt.Sprintf("%s is %s, not a symbolic link", m.Path, describeFileKind(info)), nil
	}
	target, err := os.Readlink(m.Path)
	if err != nil || target == m.Target {
		return "", err
	}
	return fmt.Sprintf("%s leads to %s, not %s", m.Path, target, m.Target), nil
}

// apply makes the new link beside its path, and then renames the link. So no moment lacks a link. It replaces no other
// kind of file.
func (m *symlink) apply(context.Context) error {
	if info, err := os.Lstat(m.Path); err == nil && info.Mode()&fs.ModeSymlink == 0 {
		return fmt.Errorf("%s is %s: symlink replaces links only", m.Path, describeFileKind(info))
	}
	beside := filepath.Join(filepath.Dir(m.Path), ".muster-"+strconv.FormatInt(time.Now().UnixNano(), 36))
	if err := os.Symlink(m.Target, beside); err != nil {
		return err
	}
	if err := os.Rename(beside, m.Path); err != nil {
		return errors.Join(err, os.Remove(beside))
	}
	return syncFolder(filepath.Dir(m.Path))
}
