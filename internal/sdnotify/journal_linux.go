package sdnotify

import (
	"fmt"
	"os"
	"syscall"
)

// InJournal says whether what is written to w goes to the journal, which stamps each line
// with its time: stream is JOURNAL_STREAM of the environment, which names the device and
// inode of the connection to it (systemd.exec(5)). A program that was started by a service
// and writes elsewhere has the variable, too.
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
