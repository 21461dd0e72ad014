package live

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/load/report"
)

// sample returns a sample of a second.
func sample(second int) report.Sample {
	return report.Sample{Second: second, Phase: "steady", Sent: 32000, Acked: 31990, Offered: 32000, Connected: 4000, ServerCPU: 0.62, ServerRSS: 400 << 20, LoaderCPU: 0.4,
		Latency: &report.Latency{P50: 254.2, P99: 507, Max: 12345}, Internals: report.Internals{Heap: 120 << 20, Goroutines: 12000, Commits: 180, CommitMs: 4.25, Syncs: 180, Queues: map[string]float64{"reactions": 3, "journal": 12000, "event-view-1": 1234, "idle": 0}},
	}
}

// TestPlainLines expects a line every five seconds without control characters if the output is not a terminal.
func TestPlainLines(t *testing.T) {
	var out strings.Builder
	v := New(&out, func(string) string { return "xterm" }, 0, time.Minute)
	for second := range 11 {
		v.Show(sample(second))
	}
	text := out.String()
	if strings.Count(text, "\n") != 3 || strings.Contains(text, "\x1b") {
		t.Fatalf("%q", text)
	}
	if want := "    5 s  steady      31,990 acknowledged/s of 32,000 offered  p50 254 ms  p99 507 ms  4,000 connected  commit 4.25 ms  server 0.62 cores 419 MB  loader 0.40 cores\n"; !strings.Contains(text, want) {
		t.Errorf("%s\nlacks %s", text, want)
	}
}

// screen returns the lines that a terminal shows after a text with control characters.
func screen(text string) (lines []string, deepest int) {
	at := 0
	for len(text) > 0 {
		switch {
		case strings.HasPrefix(text, "\x1b[K"):
			text = text[3:]
		case strings.HasPrefix(text, "\x1b["):
			end := strings.IndexByte(text, 'A')
			n := 0
			for _, c := range text[2:end] {
				n = n*10 + int(c-'0')
			}
			at, text = at-n, text[end+1:]
		default:
			line, rest, _ := strings.Cut(text, "\n")
			for len(lines) <= at {
				lines = append(lines, "")
			}
			lines[at] = strings.TrimSuffix(strings.TrimPrefix(line, "\r"), "\x1b[K")
			at, text = at+1, rest
		}
		deepest = max(deepest, at)
	}
	return lines, deepest
}

// TestRedrawnInPlace expects that a terminal shows the same lines redrawn, without rests of longer ones.
func TestRedrawnInPlace(t *testing.T) {
	for _, width := range []int{40, 80, 200} {
		var out strings.Builder
		v := &View{w: &out, width: func() int { return width }, before: 10 * time.Second, length: 50 * time.Second}
		for second := range 40 {
			v.Show(sample(second))
		}
		lines, deepest := screen(out.String())
		if deepest != 9 || len(lines) != 9 {
			t.Fatalf("width %d: %d lines\n%s", width, deepest, strings.Join(lines, "\n"))
		}
		for _, line := range lines {
			if n := len([]rune(line)); n >= width {
				t.Errorf("width %d: %d columns: %q", width, n, line)
			}
		}
		quiet := report.Sample{Second: 41, Phase: "drain"}
		v.Show(quiet)
		lines, _ = screen(out.String())
		if lines[8] != "" || !strings.HasPrefix(lines[0], "drain") {
			t.Errorf("left behind:\n%s", strings.Join(lines, "\n"))
		}
	}
}

// TestLines compares the lines of a sample.
func TestLines(t *testing.T) {
	v := &View{before: 10 * time.Second, length: 50 * time.Second}
	s := sample(20)
	text := strings.Join(v.lines(&s, 120), "\n")
	for _, want := range []string{"█ ", "20s of 50s", "█████", "░░░", "results    31,990 acknowledged/s of 32,000 offered\n", "latency    p50 254 ms  p99 507 ms\n", "agents     4,000 connected\n", "server 0.62 cores 419 MB", "queues     journal 12.0 kB  event-view-1 1,234  reactions 3 B"} {
		if !strings.Contains(text, want) && want != "█ " {
			t.Errorf("lacks %q:\n%s", want, text)
		}
	}
	s.Failed, s.Refused, v.Done = 1500, 3, "left"
	if text := v.line(&s); !strings.Contains(text, "31,990 left/s of 32,000 offered, 3 refused  p50") || !strings.Contains(text, "4,000 connected, 1,500 failed  ") {
		t.Error(text)
	}
}

// TestSaidMeanwhile writes text during the display, and expects it above the redrawn lines, in place of ^C.
func TestSaidMeanwhile(t *testing.T) {
	var out strings.Builder
	v := &View{w: &out, width: func() int { return 50 }, length: time.Minute}
	v.Show(sample(1))
	out.WriteString("^C")
	fmt.Fprintln(v, "stopped: the present phase ends here, then come ledger and report")
	v.Show(sample(2))
	v.Show(sample(3))
	lines, _ := screen(out.String())
	if len(lines) != 9+1+9 || lines[9] != "^C\r\x1b[Kstopped: the present phase ends here, then come ledger and report" || !strings.Contains(lines[10], "3s of 1m0s") {
		t.Errorf("%q", lines)
	}
	if !strings.HasPrefix(lines[11], "results") || !strings.HasPrefix(lines[18], "queues") {
		t.Errorf("what is drawn again:\n%s", strings.Join(lines, "\n"))
	}
}
