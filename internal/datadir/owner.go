package datadir

import (
	"fmt"
	"os"
	"syscall"

	"github.com/muster-fleet/muster/internal/model"
)

// BecomeOwner changes a process of root into one of the folder's owner, for good: the server, which
// runs as that user, reads the files that a command writes. Another user's process stays as it is.
func BecomeOwner(data string) error {
	info, err := os.Stat(data)
	if err != nil || os.Geteuid() != 0 {
		return nil // whoever opens the folder reports that it is missing
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || owner.Uid == 0 {
		return nil
	}
	name := userOf(info)
	for _, err := range []error{syscall.Setgroups([]int{int(owner.Gid)}), syscall.Setgid(int(owner.Gid)), syscall.Setuid(int(owner.Uid))} {
		if err != nil {
			return fmt.Errorf("become %s, the owner of %s: %w", name, data, err)
		}
	}
	if _, err := os.ReadDir(data); err != nil {
		return model.Errorf(model.Forbidden, "%s belongs to %s, but a folder above it refuses that user: %w", data, name, err).
			WithHint("move it to the folder of the server (/var/lib/muster), or give it to root first: chown -R root: %s", data)
	}
	return nil
}
