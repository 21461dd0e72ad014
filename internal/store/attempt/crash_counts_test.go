package attempt

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/muster-fleet/muster/internal/testenv"
)

// TestCrashesCountOnlyForWorkInProgress simulates crashes, and expects counts only for work that was in progress.
func TestCrashesCountOnlyForWorkInProgress(t *testing.T) {
	path := filepath.Join(t.TempDir(), "attempts")
	for life := range 5 {
		l := testenv.Value(Open(path))(t)
		if got, ended := l.Crashes("guilty \"1\"\n"), l.Crashes("ended"); got != life || ended != 0 {
			t.Errorf("life %d: %d crashes, and %d of work that ended", life, got, ended)
		}
		l.Start("guilty \"1\"\n")
		l.Start("ended")()
		twice := l.Start("twice")
		l.Start("twice")()
		if life == 4 {
			twice()
			l.Forget("guilty \"1\"\n")
		}
		testenv.NoError(t, l.Close())
	}
	l := testenv.Value(Open(path))(t)
	if len(l.crashes) != 0 {
		t.Errorf("%v", l.crashes)
	}
	golden := header + "1 \"a\"\n0 \"a\"\n1 \"b/c\"\n"
	l.Start("a")()
	l.Start("b/c")
	if got := testenv.Value(os.ReadFile(path))(t); string(got) != golden {
		t.Errorf("%q, want %q", got, golden)
	}
	for i := range 80_000 {
		l.Start(fmt.Sprint(i))()
	}
	info := testenv.Value(os.Stat(path))(t)
	testenv.NoError(t, l.Close())
	if l = testenv.Value(Open(path))(t); info.Size() > maxFile+100 || !maps.Equal(l.crashes, map[string]int{"b/c": 1}) {
		t.Errorf("%d bytes, %v", info.Size(), l.crashes)
	}
	testenv.NoError(t, l.Close())
}

// FuzzParseLog parses random bytes as a file of crash counts, and expects no negative count.
func FuzzParseLog(f *testing.F) {
	f.Add([]byte(header + "1 \"a\"\n0 \"a\"\n3 \"b\"\n1 \"c"))
	f.Add([]byte(header[:5]))
	f.Fuzz(func(t *testing.T, data []byte) {
		for key, n := range parseCrashes(data) {
			if n <= 0 {
				t.Errorf("%q: %d", key, n)
			}
		}
	})
}
