package policy

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// accessList is the extended attribute with the access control list of a file.
const accessList = "system.posix_acl_access"

// staysWithNewContent reports whether an extended attribute, such as a label of SELinux, outlives new content of its
// file. The kernel removes others, such as security.capability, when the content of a file changes.
func staysWithNewContent(name string) bool {
	return name == accessList || name == "security.selinux" || name == "security.SMACK64" || strings.HasPrefix(name, "user.")
}

// copyAttributes copies extended attributes, such as the access control list, from a replaced file to the new file. A
// folder may have given the new file an access control list of its own.
func copyAttributes(f *os.File, path string) error {
	fd := int(f.Fd())
	wanted, err := attributeNames(func(buffer []byte) (int, error) { return unix.Listxattr(path, buffer) })
	if err != nil {
		return err
	}
	present, err := attributeNames(func(buffer []byte) (int, error) { return unix.Flistxattr(fd, buffer) })
	if err != nil {
		return err
	}
	if slices.Contains(present, accessList) && !slices.Contains(wanted, accessList) {
		if err := unix.Fremovexattr(fd, accessList); err != nil {
			return err
		}
	}
	for _, name := range wanted {
		value, err := readAttribute(func(buffer []byte) (int, error) { return unix.Getxattr(path, name, buffer) })
		if err != nil {
			return err
		}
		is, err := readAttribute(func(buffer []byte) (int, error) { return unix.Fgetxattr(fd, name, buffer) })
		if err == nil && bytes.Equal(is, value) {
			continue
		}
		if err := unix.Fsetxattr(fd, name, value, 0); err != nil {
			return err
		}
	}
	return nil
}

// attributeNames returns the names of the extended attributes that stay when the content of a file changes.
func attributeNames(list func([]byte) (int, error)) ([]string, error) {
	data, err := readAttribute(list)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil, nil
	}
	return slices.DeleteFunc(strings.Split(string(data), "\x00"), func(name string) bool { return !staysWithNewContent(name) }), err
}

// readAttribute reads an extended attribute of a file, after a first call that returns the attribute's size.
func readAttribute(read func([]byte) (int, error)) ([]byte, error) {
	size, err := read(nil)
	if err != nil || size == 0 { // the kernel fills no empty buffer: it tells the size again
		return nil, err
	}
	buffer := make([]byte, size)
	size, err = read(buffer)
	if err != nil {
		return nil, err
	}
	return buffer[:size], nil
}
