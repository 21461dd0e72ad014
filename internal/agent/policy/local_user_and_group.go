package policy

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// accountName matches names of users and groups, also those of Debian and of directories such as Debian-exim, ada.byron and
// host$.
var accountName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,30}[A-Za-z0-9_.$-]?$`)

// account returns the fields of a user in /etc/passwd, or of a group in /etc/group. It returns nil if the user or
// group does not exist.
func (x *Executor) account(file, name string) ([]string, error) {
	if !accountName.MatchString(name) {
		return nil, fmt.Errorf("%q is not a valid name of a user or group", name)
	}
	fields := map[string]int{"passwd": 7, "group": 4}[file]
	data, err := readRegular(filepath.Join(cmp.Or(x.UserRoot, "/"), "etc", file))
	if err != nil {
		return nil, err
	}
	for _, line := range splitLines(data) {
		if found := strings.Split(line, ":"); found[0] == name && len(found) == fields {
			return found, nil
		}
	}
	return nil, nil
}

// runAccountProgram runs a program that changes users or groups.
func (x *Executor) runAccountProgram(ctx context.Context, name string, args ...string) error {
	argv := []string{name}
	if x.UserRoot != "" {
		argv = append(argv, "--prefix", x.UserRoot)
	}
	code, output, err := runProgram(ctx, x.Runner, append(argv, args...)...)
	if err == nil && code != 0 {
		err = fmt.Errorf("%s: %s", name, lastLine(output))
	}
	return err
}

// localUser is the policy method that requires a user to exist in /etc/passwd, or not to exist. The user must
// exist with the declared fields, or not exist.
type localUser struct {
	*Executor
	*model.UserMethod
}

// check compares the user's fields in /etc/passwd with the declared fields.
func (m *localUser) check(context.Context) (string, error) {
	found, err := m.account("passwd", m.Name)
	switch {
	case err != nil:
		return "", err
	case m.State == "absent" && found != nil:
		return fmt.Sprintf("user %s exists", m.Name), nil
	case m.State == "absent":
		return "", nil
	case found == nil:
		return fmt.Sprintf("user %s does not exist", m.Name), nil
	}
	group := m.Group
	if group != "" && accountName.MatchString(group) {
		of, err := m.account("group", group)
		if err != nil {
			return "", err
		}
		if of == nil {
			return "", fmt.Errorf("group %s does not exist", group)
		}
		group = of[2]
	}
	var wrong []string
	for _, f := range []struct{ name, is, want string }{{"uid", found[2], m.UID}, {"group", found[3], group}, {"home", found[5], m.Home}, {"shell", found[6], m.Shell}} {
		if f.want != "" && f.is != f.want {
			wrong = append(wrong, fmt.Sprintf("%s %s, not %s", f.name, f.is, f.want))
		}
	}
	if len(wrong) == 0 {
		return "", nil
	}
	return fmt.Sprintf("user %s has %s", m.Name, strings.Join(wrong, ", ")), nil
}

// apply adds, changes or removes the user in /etc/passwd.
func (m *localUser) apply(ctx context.Context) error {
	found, err := m.account("passwd", m.Name)
	if err != nil {
		return err
	}
	if m.State == "absent" {
		return m.runAccountProgram(ctx, "userdel", m.Name)
	}
	if found == nil && m.Group == "" {
		if of, err := m.account("group", m.Name); err != nil || of != nil {
			return cmp.Or(err, fmt.Errorf("cannot add the user: the group %s exists already; declare group: %s to make that group the user's group", m.Name, m.Name))
		}
	}
	var args []string
	for _, option := range [...][2]string{{"--uid", m.UID}, {"--gid", m.Group}, {"--home", m.Home}, {"--shell", m.Shell}} {
		if option[1] != "" {
			args = append(args, option[0], option[1])
		}
	}
	if found == nil {
		return m.runAccountProgram(ctx, "useradd", append(append(args, "--no-create-home"), m.Name)...)
	}
	return m.runAccountProgram(ctx, "usermod", append(args, m.Name)...)
}

// localGroup is the policy method that requires a group to exist in /etc/group, or not to exist.
type localGroup struct {
	*Executor
	*model.UserGroupMethod
}

// check compares the group in /etc/group with the declared group.
func (m *localGroup) check(context.Context) (string, error) {
	found, err := m.account("group", m.Name)
	switch {
	case err != nil:
		return "", err
	case m.State == "absent" && found != nil:
		return fmt.Sprintf("group %s exists", m.Name), nil
	case m.State == "absent":
		return "", nil
	case found == nil:
		return fmt.Sprintf("group %s does not exist", m.Name), nil
	case m.GID != "" && found[2] != m.GID:
		return fmt.Sprintf("group %s has gid %s, not %s", m.Name, found[2], m.GID), nil
	}
	return "", nil
}

// apply adds, changes or removes the group in /etc/group.
func (m *localGroup) apply(ctx context.Context) error {
	found, err := m.account("group", m.Name)
	if err != nil {
		return err
	}
	if m.State == "absent" {
		return m.runAccountProgram(ctx, "groupdel", m.Name)
	}
	var args []string
	if m.GID != "" {
		args = []string{"--gid", m.GID}
	}
	if found == nil {
		return m.runAccountProgram(ctx, "groupadd", append(args, m.Name)...)
	}
	return m.runAccountProgram(ctx, "groupmod", append(args, m.Name)...)
}
