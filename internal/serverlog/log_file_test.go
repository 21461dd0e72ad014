package serverlog

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/config"
	"github.com/muster-fleet/muster/internal/testenv"
)

// TestTailKeepsTheLastLines writes many log lines, and expects the memory of the log to keep the newest whole
// lines.
func TestTailKeepsTheLastLines(t *testing.T) {
	var out bytes.Buffer
	b, err := Open(&config.Server{LogLevel: "info"}, &out, "")
	testenv.NoError(t, err)
	line := strings.Repeat("x", 90)
	const lines = 3 * tailBytes / 100
	for i := range lines {
		fmt.Fprintf(b, "%08d %s\n", i, line)
	}
	tail := string(b.Tail())
	last := fmt.Sprintf("%08d %s\n", lines-1, line)
	if len(tail) > tailBytes || len(tail) < tailBytes-200 || !strings.HasSuffix(tail, last) || len(tail)%len(last) != 0 {
		t.Errorf("%d bytes, from %.20q to %q", len(tail), tail, tail[len(tail)-20:])
	}
	if got := out.Len(); got != lines*len(last) {
		t.Errorf("%d bytes went on, want %d", got, lines*len(last))
	}
}

// TestReopen moves the log file like logrotate, and expects Reopen to write a new file.
func TestReopen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "logs", "muster.log")
	b, err := Open(&config.Server{LogLevel: "warn", LogFile: path}, nil, "")
	testenv.NoError(t, err)
	log := b.Logger("json")
	log.Info("not at this level")
	log.Warn("before")
	testenv.NoError(t, os.Rename(path, path+".1"))
	log.Warn("between")
	testenv.NoError(t, b.Reopen())
	log.Warn("after")
	for name, want := range map[string]string{path + ".1": "before between", path: "after"} {
		data, err := os.ReadFile(name)
		testenv.NoError(t, err)
		for _, word := range []string{"before", "between", "after", "level"} {
			if strings.Contains(string(data), word+`"`) != strings.Contains(want, word) && word != "level" {
				t.Errorf("%s: %s", name, data)
			}
		}
	}
	if tail := string(b.Tail()); strings.Count(tail, "\n") != 3 {
		t.Errorf("the tail holds %s", tail)
	}
}

// TestSystemdJournalLines expects lines for systemd's journal to have no time stamp. Lines in memory always have a
// time stamp.
func TestSystemdJournalLines(t *testing.T) {
	for _, plain := range []bool{false, true} {
		var out bytes.Buffer
		b, err := Open(&config.Server{LogLevel: "info"}, &out, "")
		testenv.NoError(t, err)
		b.plain = plain
		b.Logger("text").Info("begins", "time", "not this one")
		if got := strings.HasPrefix(out.String(), "level=INFO msg=begins time="); got != plain {
			t.Errorf("under the journal %t: %q", plain, out.String())
		}
		if tail := string(b.Tail()); !strings.HasPrefix(tail, "time=20") {
			t.Errorf("the tail holds %q", tail)
		}
		b.Logger("json").Info("begins")
		if !strings.Contains(out.String(), `{"time":"20`) {
			t.Errorf("JSON has lost its time: %q", out.String())
		}
	}
}
