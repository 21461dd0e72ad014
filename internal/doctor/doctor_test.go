package doctor

import (
	"crypto/x509"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
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

func TestHowLongCertificatesLast(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		ca       bool
		left     time.Duration
		verdict  Verdict
		measured string
	}{
		{false, 396 * 24 * time.Hour, Fine, "until 2027-04-01, 396 days"}, {false, 3 * 24 * time.Hour, Warn, "until 2026-03-04, 3 days"},
		{false, 5 * time.Hour, Warn, "until 2026-03-01, 5 hours"}, {false, -time.Hour, Bad, "ended 2026-03-01"},
		{true, 7300 * 24 * time.Hour, Fine, "until 2046-02-24, 7300 days"}, {true, 300 * 24 * time.Hour, Warn, "until 2026-12-26, 300 days"},
	} {
		f := lifeOf(&x509.Certificate{IsCA: c.ca, NotAfter: now.Add(c.left)}, "x.crt", now)
		if f.Verdict != c.verdict || f.Measured != c.measured || f.Verdict != Fine && (f.Mend == "" || f.Needed == "") {
			t.Errorf("%+v: %+v", c, f)
		}
	}
}
