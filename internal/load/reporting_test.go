package load

import (
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/load/report"
)

// A run whose generator fell behind says who had the cores.
func TestWhyTheGeneratorFellBehind(t *testing.T) {
	for _, c := range []struct {
		loader, server, others float64
		want                   string
	}{
		{0.6, 1.3, 0.05, "the machine was full (loader 0.60, server 1.30, others 0.05 of 2 cores)"},
		{0.3, 0.4, 1.2, "something else used the machine"},
		{0.3, 0.4, 0.1, "the machine had room"},
		{0.3, 0, 0, "--server-pid"},
	} {
		rep := &reporting{Report: &report.Report{Machine: report.Machine{Cores: 2}, Loader: report.Usage{Cores: c.loader}, Server: report.Usage{Cores: c.server}, Others: c.others,
			Lag: report.Latency{P99: 80}, Balance: &report.Balance{}}}
		rep.judge(Config{MaxLag: 50e6})
		if rep.OK() || len(rep.Verdict) != 1 || !strings.Contains(rep.Verdict[0], c.want) || !strings.Contains(rep.Verdict[0], "p99 80.0 ms") {
			t.Errorf("%+v: %q, want %q", c, rep.Verdict, c.want)
		}
	}
}

func TestParseKept(t *testing.T) {
	for text, want := range map[string]Kept{
		"7 8 9 18446744073709551615 11":                {Node: 7, Check: 8, Results: 9, Stream: 1<<64 - 1, Number: 11},                           // of a server before digests
		"7 8 9 18446744073709551615 11 5 1":            {Node: 7, Check: 8, Results: 9, Stream: 1<<64 - 1, Number: 11, Digest: 5, Expired: true}, // … before orders
		"7 8 9 18446744073709551615 11 5 0 4294967295": {Node: 7, Check: 8, Results: 9, Stream: 1<<64 - 1, Number: 11, Digest: 5, Order: 1<<32 - 1},
	} {
		if k, ok := parseKept(text); !ok || k != want {
			t.Errorf("%s: %+v %t", text, k, ok)
		}
	}
	for _, text := range []string{"", "end", "1 2 3 4", "1 2 3 4 5 6", "1 2 3 4 5 6 7 8 9", "1 2 3 4 x", "1 2 3 4 -5"} {
		if k, ok := parseKept(text); ok {
			t.Errorf("%q became %+v", text, k)
		}
	}
}
