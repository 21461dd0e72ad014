//go:build unix

package policy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/muster-fleet/muster/internal/model"
)

// copyOwner gives a new file the owner and group of the replaced file. A folder may have given the new file another
// group.
func copyOwner(f *os.File, of fs.FileInfo) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	is, ok := info.Sys().(*syscall.Stat_t)
	want, ok2 := of.Sys().(*syscall.Stat_t)
	if !ok || !ok2 || is.Uid == want.Uid && is.Gid == want.Gid {
		return nil
	}
	return f.Chown(int(want.Uid), int(want.Gid))
}

// filePermissions is the policy method that requires a certain mode, owner and group of a file or folder.
type filePermissions struct{ *model.FilePermissionsMethod }

// declaredOwner returns the declared mode and the ids of the declared user and group. Each one that is not declared is
// -1.
func (m *filePermissions) declaredOwner() (mode, uid, gid int, err error) {
	mode, uid, gid = -1, -1, -1
	if m.Mode != "" {
		bits, err := strconv.ParseUint(m.Mode, 8, 32)
		if err != nil || bits > 0o7777 {
			return 0, 0, 0, fmt.Errorf("%q is not an octal file mode", m.Mode)
		}
		mode = int(bits)
	}
	if m.Owner != "" {
		if uid, err = lookUpID(m.Owner, "user", func(name string) (string, error) {
			u, err := user.Lookup(name)
			if err != nil {
				return "", err
			}
			return u.Uid, nil
		}); err != nil {
			return 0, 0, 0, err
		}
	}
	if m.Group != "" {
		gid, err = lookUpID(m.Group, "group", func(name string) (string, error) {
			g, err := user.LookupGroup(name)
			if err != nil {
				return "", err
			}
			return g.Gid, nil
		})
	}
	return mode, uid, gid, err
}

// lookUpID returns the id of a user or group from its number or name.
func lookUpID(text, kind string, lookup func(string) (string, error)) (int, error) {
	if n, err := strconv.ParseUint(text, 10, 31); err == nil {
		return int(n), nil
	}
	found, err := lookup(text)
	if err != nil {
		return 0, fmt.Errorf("%s %q does not exist", kind, text)
	}
	return strconv.Atoi(found)
}

// unixBits converts a file mode to the permission bits that chmod takes.
func unixBits(mode fs.FileMode) int {
	bits := int(mode.Perm())
	for bit, flag := range map[int]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if mode&flag != 0 {
			bits |= bit
		}
	}
	return bits
}

// check compares the path's mode, owner and group with the declaration. It follows links.
func (m *filePermissions) check(context.Context) (string, error) {
	mode, uid, gid, err := m.declaredOwner()
	if err != nil {
		return "", err
	}
	if !filepath.IsAbs(m.Path) {
		return "", fmt.Errorf("the path %q is not absolute", m.Path)
	}
	info, err := os.Stat(m.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return m.Path + " does not exist", nil
	}
	if err != nil {
		return "", err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", errors.New("the owner of a file is not known on this system")
	}
	var wrong []string
	if is := unixBits(info.Mode()); mode >= 0 && is != mode {
		wrong = append(wrong, fmt.Sprintf("mode %04o, not %04o", is, mode))
	}
	if uid >= 0 && int(stat.Uid) != uid {
		wrong = append(wrong, fmt.Sprintf("owner %d, not %s", stat.Uid, m.Owner))
	}
	if gid >= 0 && int(stat.Gid) != gid {
		wrong = append(wrong, fmt.Sprintf("group %d, not %s", stat.Gid, m.Group))
	}
	if len(wrong) == 0 {
		return "", nil
	}
	return m.Path + " has " + strings.Join(wrong, ", "), nil
}

// apply sets owner and group, and then the mode. A change of the owner would drop bits of the mode.
func (m *filePermissions) apply(context.Context) error {
	mode, uid, gid, err := m.declaredOwner()
	if err != nil {
		return err
	}
	if uid >= 0 || gid >= 0 {
		if err := os.Chown(m.Path, uid, gid); err != nil {
			return err
		}
	}
	if mode < 0 {
		return nil
	}
	return syscall.Chmod(m.Path, uint32(mode))
}
