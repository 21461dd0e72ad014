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

	"github.com/muster-fleet/muster/internal/load/report"
)

// Each result has its line, whichever comes first; what is missing, twice or out of order is
// counted as that.
func TestLinesAreHeldAgainstResults(t *testing.T) {
	k := &Peer{run: Run{Measured: func(int64) bool { return false }, Since: func(int64) float64 { return 0 }}, machines: map[string]*Machine{}, took: hdrhistogram.New(1, report.MaxLatency, 3)}
	x := k.Machine(0xab, "web-00007")
	line := func(check string, number int) {
		k.line(fmt.Appendf(nil, `{"kind":"result","node":"web-00007","check":%q,"stream":"00000000000000ab","number":%d}`+"\n", check, number), int64(number))
	}
	for number := range uint64(10) {
		if number%2 == 0 && number > 0 {
			x.Result(number, 0) // before its line
		}
	}
	for number := 1; number < 8; number++ {
		line("http", number)
	}
	for number := uint64(1); number < 8; number += 2 {
		x.Result(number, 0)
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
	if s := k.sum; s.Lines != 8 || s.Twice != 2 || s.Disorder != 1 || s.Unread != 0 || !(&report.Report{Streamed: &s}).Lost() || !strings.Contains(s.Example, "number 8 came behind 9") {
		t.Errorf("%+v", s)
	}
	k.line([]byte(`{"kind":`), 1)
	if k.sum.Unread != 1 {
		t.Errorf("%+v", k.sum)
	}
	(*Machine)(nil).Result(1, 2)
}

// Lines that come again and again do not keep a run from its end.
func TestTheEndComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		k := &Peer{run: Run{Now: func() int64 { return int64(time.Since(began)) }, Since: func(int64) float64 { return 0 }}, machines: map[string]*Machine{}, took: hdrhistogram.New(1, report.MaxLatency, 3)}
		k.Machine(0xab, "web-00007").Result(1, 0)
		ctx, over := context.WithTimeout(t.Context(), 5*time.Minute)
		defer over()
		go func() {
			for ; ctx.Err() == nil; pause(ctx) {
				k.note(k.run.Now(), func(s *report.Streamed) { s.Twice++ })
			}
		}()
		s := k.Conclude(ctx)
		if took := time.Since(began); s.Missing != 1 || s.Twice < 1000 || took > 5*time.Minute+time.Second {
			t.Errorf("after %s: %+v", took, s)
		}
	})
}

// Whatever comes, it is a line or is counted as none.
func FuzzLine(f *testing.F) {
	f.Add([]byte(`{"kind":"result","node":"web-00007","check":"http","stream":"00000000000000ab","number":7}`))
	f.Add([]byte(`{"number":-1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if n, err := parseLine(text); err == nil && !json.Valid(text) {
			t.Errorf("%q became %+v", text, n)
		}
	})
}
