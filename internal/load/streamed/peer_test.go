package streamed

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/muster-fleet/muster/internal/load/clock"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/pause"
)

// TestLinesAreHeldAgainstResults sends lines before and after their results, and expects counts of missing, repeated
// and misordered lines.
func TestLinesAreHeldAgainstResults(t *testing.T) {
	k := quiet()
	x := k.Machine(0xab, "web-00007", func() Numbers { return Numbers{Given: 9} })
	good := &Result{Node: "web-00007", Check: "http", Status: "OK"}
	line := func(check string, number int) { k.line(lineFor("web-00007", check, "OK", number), int64(number)) }
	for number := range uint64(10) {
		if number%2 == 0 && number > 0 {
			x.Acknowledged(number, good) // before its line
		}
	}
	for number := 1; number < 8; number++ {
		line("http", number)
	}
	for number := uint64(1); number < 8; number += 2 {
		x.Acknowledged(number, good)
	}
	if n, example := k.missing(); n != 1 || !strings.Contains(example, "web-00007: no line of its number 8") || k.sum.Lines != 7 {
		t.Fatalf("%d missing: %s; %+v", n, example, k.sum)
	}
	line("http", 9)
	line("http", 3)                                                               // again
	line("disk", 2)                                                               // again, of whatever check
	line("http", 8)                                                               // behind 9
	k.line([]byte(`{"kind":"result","stream":"0000000000000001","number":1}`), 1) // of another run
	k.line([]byte(`{"kind":"opened"}`), 1)
	if s := k.sum; s.Lines != 8 || s.Twice != 2 || s.Disorder != 1 || s.Unread != 0 || !(&report.Report{Course: report.Course{Streamed: &s}}).Lost() || !strings.Contains(s.Example, "number 8 came behind 9") {
		t.Errorf("%+v", s)
	}
	k.line([]byte(`{"kind":`), 1)
	if k.sum.Unread != 1 {
		t.Errorf("%+v", k.sum)
	}
}

// quiet returns a peer without connections.
func quiet() *Peer {
	return &Peer{machines: map[string]*Machine{}, took: hdrhistogram.New(1, report.MaxLatency, 3), run: Run{Clock: clock.New()}}
}

// lineFor returns a line of the machine with stream 171.
func lineFor(node, check, status string, number int) []byte {
	return fmt.Appendf(nil, `{"kind":"result","node":%q,"check":%q,"status":%q,"stream":"00000000000000ab","number":%d}`+"\n", node, check, status, number)
}

// TestLinesThatNoResultBroughtAbout sends lines without an acknowledged result, or with another status, and expects
// that they count as wrong, except for results without an answer.
func TestLinesThatNoResultBroughtAbout(t *testing.T) {
	for name, c := range map[string]struct {
		lines        [][]byte
		extra, other uint64
		example      string
	}{
		"as they were":    {[][]byte{lineFor("web-00007", "http", "OK", 1), lineFor("web-00007-renamed", "disk", "CRITICAL", 2), lineFor("switch-0001", "ping", "OK", 3)}, 0, 0, ""},
		"never given":     {[][]byte{lineFor("web-00007", "http", "OK", 1<<33)}, 1, 0, "web-00007/http OK: a line of number 8589934592, and 9 was the last that it gave"},
		"refused":         {[][]byte{lineFor("web-00007", "http", "OK", 4)}, 1, 0, "a line of number 4, which no acknowledged result has"},
		"never sent":      {[][]byte{lineFor("web-00007", "http", "OK", 9)}, 1, 0, "a line of number 9, which no acknowledged"},
		"without answer":  {[][]byte{lineFor("web-00007", "http", "OK", 7)}, 0, 0, ""},
		"another check":   {[][]byte{lineFor("web-00007", "disk", "OK", 1)}, 0, 1, "number 1 was web-00007/http OK, and its line says web-00007/disk OK"},
		"another machine": {[][]byte{lineFor("web-00008", "http", "OK", 1)}, 0, 1, "its line says web-00008/http OK"},
		"another status":  {[][]byte{lineFor("web-00007", "disk", "WARNING", 2)}, 0, 1, "number 2 was web-00007/disk CRITICAL, and its line says web-00007/disk WARNING"},
	} {
		for _, first := range []string{"the line", "the acknowledgement"} {
			t.Run(name+", "+first+" first", func(t *testing.T) {
				k := quiet()
				numbers := Numbers{Sent: 8, Given: 9}
				x := k.Machine(0xab, "web-00007", func() Numbers { return numbers })
				settle := func() {
					x.Acknowledged(1, &Result{Node: "web-00007", Check: "http", Status: "OK"})
					x.Acknowledged(2, &Result{Node: "web-00007", Check: "disk", Status: "CRITICAL"})
					x.Acknowledged(3, &Result{Node: "switch-0001", Check: "ping", Status: "OK"})
					numbers.Settled = 6
				}
				if first == "the acknowledgement" {
					settle()
				}
				for _, text := range c.lines {
					k.line(text, 5)
				}
				if first == "the line" {
					settle()
				}
				ctx, end := context.WithCancel(t.Context())
				end() // nobody waits for what is missing
				got := k.Conclude(ctx)
				if got.Extra != c.extra || got.Other != c.other || c.example != "" && !strings.Contains(k.sum.Example+got.Example, c.example) || got.Missing != 3-got.Lines {
					t.Errorf("%+v", got)
				}
				got.Missing = 0
				if wrong := (&report.Report{Balance: &report.Balance{}, Course: report.Course{Streamed: got}}).Wrong(); wrong.Of(report.WrongLines) != c.extra+c.other {
					t.Errorf("%v", wrong)
				}
			})
		}
	}
}

// TestTheEndComes sends repeated lines again and again, and expects that the run still ends.
func TestTheEndComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		k := &Peer{run: Run{Clock: clock.New()}, machines: map[string]*Machine{}, took: hdrhistogram.New(1, report.MaxLatency, 3)}
		k.Machine(0xab, "web-00007", func() Numbers { return Numbers{Settled: 1, Sent: 1, Given: 1} }).Acknowledged(1, &Result{})
		ctx, over := context.WithTimeout(t.Context(), 5*time.Minute)
		defer over()
		go func() {
			for ; ctx.Err() == nil; pause.For(ctx, moment) {
				k.note(k.run.Now(), func(s *report.Streamed) { s.Twice++ })
			}
		}()
		s := k.Conclude(ctx)
		if took := time.Since(began); s.Missing != 1 || s.Twice < 1000 || took > 5*time.Minute+time.Second {
			t.Errorf("after %s: %+v", took, s)
		}
	})
}

// FuzzLine sends random lines, and expects that each is counted.
func FuzzLine(f *testing.F) {
	f.Add([]byte(`{"kind":"result","node":"web-00007","check":"http","stream":"00000000000000ab","number":7}`))
	f.Add([]byte(`{"number":-1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if n, err := parseLine(text); err == nil && !json.Valid(text) {
			t.Errorf("%q became %+v", text, n)
		}
	})
}
