package sdnotify

import (
	"fmt"
	"os"
	"syscall"
)

// InJournal reports whether w writes to systemd's journal, which adds the time to each line by itself. stream is
// JOURNAL_STREAM of the environment: device and inode of that connection (systemd.exec(5)). A child of a service has
// the variable too, wherever it writes.
func InJournal(stream string, w any) bool {
	f, ok := w.(*os.File)
	if !ok || stream == "" {
		return false
	}
	info, err := f.Stat()
	if err != nil {
		return false
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && stream == fmt.Sprintf("%d:%d", s.Dev, s.Ino)
}
