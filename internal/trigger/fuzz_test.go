package trigger

import (
	"bytes"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/item"
)

var fuzzSeeds = []string{
	`last(/host name/system.cpu.load[all,avg1],#2:now-1h)>{$A}K or not -1=2`, `avg(//float,5m:now/d)*2<>1e-3`,
	`count(//text,#5,"regexp","^a\"b\\")>0`, `({TRIGGER.VALUE}=0 and last(//float)<=3m)`, `find(//text,,"like",{$T})=1 and nodata(//a["x,)",[b,c]],{$P})`,
	`min(1,2,"3")>=max(last(//unsigned),.5)`, `percentile(//float,1h,95)`, `baselinedev(//float,1h:now/h,"d",3)>2`,
}

// FuzzParse parses random texts as expressions, and expects an error or a usable program. An error has a position
// inside the text.
func FuzzParse(f *testing.F) {
	for _, s := range fuzzSeeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		e, err := Parse(text)
		if err != nil {
			if fault := err.(*Error); fault.Offset < 0 || fault.Offset > len(text) || fault.Error() == "" {
				t.Fatalf("%q: %v at %d", text, fault.Problem, fault.Offset)
			}
			return
		}
		p, err := Compile(e, testScope)
		if err != nil {
			return
		}
		w := p.NewWindows(start)
		for i, v := range []any{1.5, 2, "a", "b", 1, 3.0} {
			for j := range 3 {
				p.Add(w, i, item.Sample{At: start + int64(j)*int64(time.Minute), Value: valueOf(v)})
			}
		}
		if got, reason := p.Eval(w, start+int64(time.Hour)); (got == Unknown) != (reason != "") {
			t.Fatalf("%q: %v %q", text, got, reason)
		}
		p.Deadline(w)
	})
}

// FuzzPeriod parses random texts as periods, and expects a period's start before its end. A period ends no later than
// the evaluation.
func FuzzPeriod(f *testing.F) {
	for _, s := range append(testPeriods, "1M:now/M-1y", "1d:now/d+3h-1w") {
		f.Add(s, start)
	}
	f.Fuzz(func(t *testing.T, text string, now int64) {
		parseFit(text)
		p, problem := parsePeriod(text, time.UTC)
		if now = now % (1 << 61); problem != "" || now < 1<<60 {
			return // times from 2006 on
		}
		if end := p.end(now); end > now+int64(24*time.Hour) || p.count == 0 && p.span > 0 && p.startOf(end) >= end {
			t.Fatalf("%q at %d: from %d to %d", text, now, p.startOf(end), end)
		}
	})
}

// FuzzDecode decodes random bytes as windows (stored values of function calls), and expects an error or usable
// windows. A decoded state encodes to the same bytes.
func FuzzDecode(f *testing.F) {
	const all = `last(//float)+avg(//float,5m)+min(//unsigned,5m)+count(//text,2h,"like","a")+sum(//unsigned,#3:now-1m)+last(//text,#3)`
	e, _ := Parse(all)
	p, err := Compile(e, testScope)
	if err != nil {
		f.Fatal(err)
	}
	w := p.NewWindows(start)
	f.Add(w.Append(nil))
	for i, v := range []any{1.5, 2, "a", "b", 1, 3.0} {
		for j := range 5 {
			p.Add(w, i, item.Sample{At: start + int64(j)*int64(time.Minute), Value: valueOf(v)})
		}
	}
	f.Add(w.Append(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		w, _, err := p.Decode(data)
		if err != nil {
			return
		}
		encoded := w.Append(nil)
		again, _, err := p.Decode(encoded)
		if err != nil || !bytes.Equal(again.Append(nil), encoded) {
			t.Fatalf("the state changed: %v", err)
		}
		for i, v := range []any{1.5, 2, "a"} {
			p.Add(w, i, item.Sample{At: start, Value: valueOf(v)})
		}
		p.Eval(w, start+int64(time.Hour))
	})
}
