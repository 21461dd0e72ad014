//go:build linux

package test

import (
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/test/harness"
)

// A journal damaged in its middle stops the start with file, offset and what to type;
// a torn end is cut, and the server starts with what was whole.
func TestDamagedJournal(t *testing.T) {
	s := harness.NewServer(t)
	fleet := harness.Fleet{Agents: 5, Checks: 4, Interval: 200 * time.Millisecond}
	s.Prepare(fleet)
	s.Start()
	rep, err := load.Run(t.Context(), s.Load(fleet, 3*time.Second))
	if err != nil || !rep.OK() {
		t.Fatalf("load run: %v %+v", err, rep)
	}
	before := s.FleetStates()
	s.Kill() // the journal alone holds what came since the last snapshots

	segments, _ := filepath.Glob(filepath.Join(s.Data, "journal", "*.log"))
	sort.Strings(segments)
	if len(segments) == 0 {
		t.Fatal("no segment")
	}
	last := segments[len(segments)-1]
	whole, err := os.ReadFile(last)
	if err != nil {
		t.Fatal(err)
	}
	end := len(whole)
	for end > 0 && whole[end-1] == 0 {
		end-- // room that was set aside
	}

	damaged := append([]byte{}, whole...)
	damaged[end/2] ^= 0x10
	if err := os.WriteFile(last, damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	s.Launch()
	if code := s.Wait(30 * time.Second); code == 0 {
		t.Error("a damaged journal did not stop the start")
	}
	for _, want := range []string{filepath.Base(last), "offset", "muster doctor repair --data"} {
		if !strings.Contains(s.Log(), want) {
			t.Errorf("the refusal does not name %q:\n%s", want, s.Log())
		}
	}

	// Whole again, with a torn commit at its end.
	torn := append(append([]byte{}, whole[:end]...), whole[end/2:end/2+20]...)
	if err := os.WriteFile(last, torn, 0o600); err != nil {
		t.Fatal(err)
	}
	s.Start()
	for place, was := range before {
		if now := s.FleetStates()[place]; now != was {
			t.Errorf("state %+v was %+v, is %+v", place, was, now)
		}
	}
	s.Stop()
}
