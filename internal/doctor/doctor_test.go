package doctor

import (
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func find(t *testing.T, findings []Finding, what string) Finding {
	t.Helper()
	for _, f := range findings {
		if f.What == what {
			return f
		}
	}
	t.Fatalf("no finding about %q in %+v", what, findings)
	return Finding{}
}

func TestFindingsNameWhatMendsThem(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("measured on Linux")
	}
	p := Patient{Data: filepath.Join(t.TempDir(), "not", "yet"), Budget: 1 << 60, Agents: 100_000_000, URL: "https://127.0.0.1:1"}
	findings := Examine(t.Context(), p)
	for _, what := range []string{"open files", "free disk", "memory", "server"} {
		if f := find(t, findings, what); f.Verdict == Fine || f.Mend == "" {
			t.Errorf("%s: %+v: want a complaint with the command that mends it", what, f)
		}
	}
	if f := find(t, findings, "fdatasync"); !strings.Contains(f.Measured, "p99") {
		t.Errorf("%+v", f)
	}
}

func TestAHealthyPatient(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("measured on Linux")
	}
	findings := Examine(t.Context(), Patient{Data: t.TempDir(), Budget: 1 << 20, Agents: 10})
	if f := find(t, findings, "open files"); f.Verdict != Fine {
		t.Errorf("%+v", f)
	}
}
