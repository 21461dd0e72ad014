package subject

import (
	"slices"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/load/report"
)

func TestCountLog(t *testing.T) {
	text := `time=2026-11-22T02:53:54.346Z level=INFO msg="event view is up to date" partitions=0 replayed=0 took=200.703µs
time=2026-11-22T02:53:54.666Z level=INFO msg=ready address=127.0.0.1:18001 took=384.456397ms
time=2026-11-22T02:53:54.667Z level=WARN msg="it said \"no\"" part=x
{"time":"2026-11-22T02:53:54Z","level":"INFO","msg":"ready","took":1}
user admin, password x (shown once)

goroutine 1 [running]:
time=2026-11-22T02:53:54.667Z level=INFO
` + "time=x level=INFO msg=ready " + strings.Repeat("long", maxLine)
	got, err := CountLog(strings.NewReader(text))
	want := []report.LogLine{{Level: "INFO", Message: "ready", Count: 3}, {Level: "other", Message: "lines of another form", Count: 3},
		{Level: "INFO", Message: "event view is up to date", Count: 1}, {Level: "WARN", Message: `it said "no"`, Count: 1}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v\n got %+v\nwant %+v", err, got, want)
	}
}

// A log holds what others wrote: any line has at most one level and message, and is counted once.
func FuzzCountLog(f *testing.F) {
	for _, seed := range []string{"time=x level=INFO msg=a", `time=x level=INFO msg="a\"b" c=d`, `{"level":"INFO","msg":"a"}`, "time=", `time="`, "\n\n", "{", "time=x level=\"\" msg=b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		list, err := CountLog(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		counted, lines := uint64(0), uint64(0)
		for _, l := range list {
			counted += l.Count
		}
		for line := range strings.SplitSeq(text, "\n") {
			if strings.TrimRight(line, "\r") != "" {
				lines++
			}
		}
		if counted != lines {
			t.Errorf("%d lines counted of %d", counted, lines)
		}
	})
}
