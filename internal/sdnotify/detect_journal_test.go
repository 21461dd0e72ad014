package sdnotify

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"testing"

	"github.com/muster-fleet/muster/internal/testenv"
)

// TestInJournal expects a pipe to be systemd's journal only if JOURNAL_STREAM names its device and inode. The test
// runs on Linux.
func TestInJournal(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("systemd is Linux's")
	}
	read, write, err := os.Pipe()
	testenv.NoError(t, err)
	defer read.Close()
	defer write.Close()
	var s syscall.Stat_t
	testenv.NoError(t, syscall.Fstat(int(write.Fd()), &s))
	own := fmt.Sprintf("%d:%d", s.Dev, s.Ino)
	for _, c := range []struct {
		stream string
		w      any
		want   bool
	}{{own, write, true}, {own + "1", write, false}, {"", write, false}, {own, &bytes.Buffer{}, false}, {own, os.Stdin, false}, {"x", write, false}} {
		if got := InJournal(c.stream, c.w); got != c.want {
			t.Errorf("JOURNAL_STREAM=%s, %T: %t", c.stream, c.w, got)
		}
	}
}
