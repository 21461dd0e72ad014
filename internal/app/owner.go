package app

import (
	"fmt"
	"os"
	"syscall"

	"github.com/muster-fleet/muster/internal/model"
)

// becomeOwner makes of a root that works on a data folder the user whom the folder
// belongs to, for good: what a command writes there is to be read by the server, which
// runs as that user. Whoever is not root stays who it is.
func becomeOwner(data string) error {
	info, err := os.Stat(data)
	if err != nil || os.Geteuid() != 0 {
		return nil // that the folder is missing is said where it is opened
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || owner.Uid == 0 {
		return nil
	}
	name := userOf(info)
	for _, err := range []error{syscall.Setgroups([]int{int(owner.Gid)}), syscall.Setgid(int(owner.Gid)), syscall.Setuid(int(owner.Uid))} {
		if err != nil {
			return fmt.Errorf("become %s, whom %s belongs to: %w", name, data, err)
		}
	}
	if _, err := os.ReadDir(data); err != nil {
		return model.Errorf(model.Forbidden, "%s belongs to %s, whom a folder above it does not let in: %w", data, name, err).
			WithHint("put it where the server has it (/var/lib/muster), or give it to root first: chown -R root: %s", data)
	}
	return nil
}
