package loadcmd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/load/folder"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// Neither side always goes first, and both are as early on average.
func TestLegsTakeTurns(t *testing.T) {
	for _, c := range []struct {
		sides, runs int
		want        string
	}{{2, 1, "ab"}, {2, 4, "ab ba ab ba"}, {3, 3, "abc cba abc"}} {
		var text strings.Builder
		next := map[int]int{}
		for i, l := range order(c.sides, c.runs) {
			if i > 0 && i%c.sides == 0 {
				text.WriteByte(' ')
			}
			text.WriteByte("abc"[l.side])
			if next[l.side]++; next[l.side] != l.run {
				t.Errorf("leg %d is run %d of its side, want %d", i, l.run, next[l.side])
			}
		}
		if text.String() != c.want {
			t.Errorf("%d sides, %d runs: %q, want %q", c.sides, c.runs, text.String(), c.want)
		}
	}
}

func TestSides(t *testing.T) {
	sh, err := filepath.Abs("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]side{
		"":                       {name: "a"},
		"old:":                   {name: "old"},
		"/bin/sh":                {name: "a", program: sh},
		"old: /bin/sh":           {name: "old", program: sh},
		"--snapshot-cycle=30s":   {name: "a", flags: []string{"--snapshot-cycle=30s"}},
		" v1.2: /bin/sh --x  y ": {name: "v1.2", program: sh, flags: []string{"--x", "y"}},
		"new: --x=1 /bin/sh":     {name: "new", flags: []string{"--x=1", "/bin/sh"}},
	} {
		got, err := newSide(text, "a")
		if err != nil || got.name != want.name || got.program != want.program || !slices.Equal(got.flags, want.flags) {
			t.Errorf("%q: %+v, %v; want %+v", text, got, err, want)
		}
	}
	for text, class := range map[string]model.Class{"old: no-such-program": model.NotFound, "a/b: --x": model.Invalid, ": --x": model.Invalid, "..: --x": model.Invalid} {
		if _, err := newSide(text, "a"); model.ClassOf(err) != class {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, i := range []interleave{{a: "x:", b: "x:", runs: 5}, {a: "invalid:", runs: 5}, {runs: 0}} {
		if _, err := i.sides(); model.ClassOf(err) != model.Invalid {
			t.Errorf("%+v: %v", i, err)
		}
	}
	i := interleave{a: "old: /bin/sh --x", runs: 5}
	sides, err := i.sides()
	if err != nil || fmt.Sprint(sides) != "[old: /bin/sh --x b: this program]" {
		t.Errorf("%v, %v", sides, err)
	}
}

// A run whose generator fell behind is put aside and repeated once; the second one stays,
// whatever it is. So does the first where it lost something: nobody may miss that.
func TestInvalidLegIsRepeated(t *testing.T) {
	out := t.TempDir()
	judged := func(valid bool, missing uint64) *report.Report {
		return &report.Report{Schema: report.Schema, Balance: &report.Balance{Missing: missing}, Valid: valid, Verdict: []string{"invalid: behind"}}
	}
	for _, c := range []struct {
		name  string
		valid []bool
		lost  uint64
		aside bool
	}{{"a/1", []bool{true}, 0, false}, {"b/1", []bool{false, true}, 0, true}, {"b/2", []bool{false, false}, 0, true}, {"b/3", []bool{false}, 1, false}} {
		var said strings.Builder
		played := 0
		rep, err := playLeg(nil, out, c.name, func(format string, args ...any) { fmt.Fprintf(&said, format, args...) }, func(kept *folder.Folder) (*report.Report, error) {
			r := judged(c.valid[played], c.lost)
			played++
			return r, kept.Save(t.Context(), r)
		})
		if err != nil || played != len(c.valid) || rep.Valid != c.valid[played-1] {
			t.Errorf("%s: played %d times, %+v, %v", c.name, played, rep, err)
		}
		back, err := report.Read(filepath.Join(out, c.name, "run.json"))
		if err != nil || back.Valid != rep.Valid {
			t.Errorf("%s: %v", c.name, err)
		}
		_, err = os.Stat(filepath.Join(out, "invalid", c.name, "run.json"))
		if (err == nil) != c.aside || c.aside != strings.Contains(said.String(), c.name+" is kept as ") {
			t.Errorf("%s: put aside: %v; said %q", c.name, err, said.String())
		}
	}
	wrong := errors.New("no server")
	if rep, err := playLeg(nil, out, "c/1", nil, func(*folder.Folder) (*report.Report, error) { return nil, wrong }); rep != nil || !errors.Is(err, wrong) {
		t.Errorf("%+v, %v", rep, err)
	}
	if _, err := os.Stat(filepath.Join(out, "c", "1")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a leg that came to nothing left %v", err)
	}
	if _, err := playLeg(nil, out, "a/1", nil, nil); model.ClassOf(err) != model.Conflict {
		t.Errorf("over a run that is there: %v", err)
	}
}

// A run that somebody stopped ends what it is a part of with 22; with 21 where it had lost something
// until then.
func TestStoppedLeg(t *testing.T) {
	for missing, code := range map[uint64]int{0: exitStopped, 1: exitLost} {
		_, err := playLeg(nil, t.TempDir(), "a/1", nil, func(kept *folder.Folder) (*report.Report, error) {
			r := &report.Report{Schema: report.Schema, Balance: &report.Balance{Missing: missing}, Valid: true, Stopped: &report.Stopped{After: 1, Of: 2}}
			return r, kept.Save(t.Context(), r)
		})
		if f, ok := err.(*failed); !ok || f.code != code {
			t.Errorf("%d missing: %v", missing, err)
		}
	}
}

func TestLeft(t *testing.T) {
	sc := &scenario.Scenario{Phases: []scenario.Phase{{Steady: model.Duration(time.Minute)}}}
	began := time.Now()
	if d := left(sc, began, 0, 10, began); d != 10*time.Minute {
		t.Errorf("before the first: %s", d)
	}
	if d := left(sc, began, 4, 10, began.Add(8*time.Minute)); d != 12*time.Minute {
		t.Errorf("after four: %s", d)
	}
}
