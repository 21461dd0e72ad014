package policy

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/muster-fleet/muster/internal/testenv"
)

// accessListOf returns an access control list in the binary form of Linux. User 3 may read.
func accessListOf(owner, group, mask, other uint16) []byte {
	value := binary.LittleEndian.AppendUint32(nil, 2)
	for _, e := range []struct {
		tag, permissions uint16
		id               uint32
	}{{1, owner, ^uint32(0)}, {2, 4, 3}, {4, group, ^uint32(0)}, {16, mask, ^uint32(0)}, {32, other, ^uint32(0)}} {
		value = binary.LittleEndian.AppendUint16(value, e.tag)
		value = binary.LittleEndian.AppendUint16(value, e.permissions)
		value = binary.LittleEndian.AppendUint32(value, e.id)
	}
	return value
}

// attribute returns the value of an extended attribute of a file, or an empty text.
func attribute(path, name string) string {
	buffer := make([]byte, 1000)
	size, err := unix.Getxattr(path, name, buffer)
	if err != nil {
		return ""
	}
	return string(buffer[:size])
}

// TestReplacedFileKeepsItsAttributes replaces a file, and expects the old access control list and user attribute. A file without a list gets none from its folder.
func TestReplacedFileKeepsItsAttributes(t *testing.T) {
	n := newTestNode(t)
	n.write("f", "old")
	list := string(accessListOf(7, 0, 4, 4))
	if err := unix.Setxattr(n.path("f"), accessList, []byte(list), 0); err != nil {
		testenv.Skip(t, "no access control lists here: "+err.Error(), "run the tests on ext4, xfs or tmpfs")
	}
	if err := unix.Setxattr(n.path("f"), "user.note", []byte("kept"), 0); err != nil {
		testenv.Skip(t, "no extended attributes here: "+err.Error(), "run the tests on ext4 or xfs")
	}
	n.write("plain/f", "old")
	testenv.NoError(t, unix.Setxattr(n.path("plain"), "system.posix_acl_default", accessListOf(7, 7, 7, 7), 0))
	status, messages := n.run(true, `{"component": "a", "fileContent": {"path": "$N/f", "content": "new"}}, {"component": "b", "fileContent": {"path": "$N/plain/f", "content": "new"}}`)
	if status != "repaired, repaired" {
		t.Fatalf("%s: %s", status, messages)
	}
	if got := attribute(n.path("f"), accessList); got != list || attribute(n.path("f"), "user.note") != "kept" {
		t.Errorf("access control list %q, want %q; note %q", got, list, attribute(n.path("f"), "user.note"))
	}
	if got := attribute(n.path("plain/f"), accessList); got != "" {
		t.Errorf("a file without an access control list has got %q", got)
	}
	for _, name := range []string{"f", "plain/f"} {
		if info := testenv.Value(os.Stat(n.path(name)))(t); name == "plain/f" && info.Mode().Perm() != 0o755 || name == "f" && info.Mode().Perm() != 0o744 {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
	}
}

// TestFailedWritesKeepTheOldFile edits files that nobody can write, and expects errors and the old content. One file is
// immutable, the other is on a read-only file system. No temporary file may stay.
func TestFailedWritesKeepTheOldFile(t *testing.T) {
	n := newTestNode(t)
	n.write("d/f", "old\n")
	n.write("mount/x", "")
	if err := syscall.Mount("tmpfs", n.path("mount"), "tmpfs", 0, "size=1m"); err != nil {
		testenv.Skip(t, "no file system of its own: "+err.Error(), "run the tests as root")
	}
	defer func() { testenv.NoError(t, syscall.Unmount(n.path("mount"), 0)) }()
	n.write("mount/f", "old\n")
	testenv.NoError(t, syscall.Mount("", n.path("mount"), "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	folders := []string{"mount"}
	const immutable = 0x10
	f := testenv.Value(os.Open(n.path("d/f")))(t)
	defer f.Close()
	if err := unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, immutable); err == nil {
		defer func() { testenv.NoError(t, unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, 0)) }()
		folders = append(folders, "d")
	} else {
		t.Logf("no immutable files here: %v", err)
	}
	for _, folder := range folders {
		for _, method := range []string{
			`"fileContent": {"path": "$P", "content": "new"}`, `"fileLines": {"path": "$P", "lines": ["new"]}`, `"fileKeyValue": {"path": "$P", "key": "k", "value": "1"}`,
			`"fileBlock": {"path": "$P", "name": "x", "content": "y"}`, `"fileIni": {"path": "$P", "section": "s", "key": "k", "value": "1"}`,
			`"fileAbsent": {"path": "$P"}`, `"filePermissions": {"path": "$P", "mode": "0600"}`,
		} {
			methods := `{"component": "a", ` + strings.ReplaceAll(method, "$P", "$N/"+folder+"/f") + `}`
			for range 2 {
				if status, messages := n.run(true, methods); status != "error" || n.read(folder+"/f") != "old\n" {
					t.Errorf("%s: %s: %s: %q", methods, status, messages, n.read(folder+"/f"))
				}
			}
		}
		if left, _ := filepath.Glob(n.path(folder + "/.muster-*")); len(left) > 0 {
			t.Errorf("temporary files are left: %v", left)
		}
	}
}

// TestReadAttributeThatGrows reads an attribute that grows after the first look at its size, and expects no panic.
func TestReadAttributeThatGrows(t *testing.T) {
	sizes := []int{0, 5}
	data, err := readAttribute(func(buffer []byte) (int, error) {
		size := sizes[0]
		sizes = sizes[1:]
		return size, nil
	})
	if err != nil || len(data) != 0 {
		t.Errorf("%q, %v", data, err)
	}
}
