package subject

import (
	"slices"
	"testing"

	"github.com/muster-fleet/muster/internal/load/report"
)

const straceTable = `% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 61.20    0.123456          12     10000      1234 futex
 38.80    0.078000          39      2000           write
  0.00    0.000000           0         1           getpid
------ ----------- ----------- --------- --------- ----------------
100.00    0.201456          16     12001      1234 total
`

func TestParseCalls(t *testing.T) {
	want := []report.SystemCall{{Name: "futex", Count: 10000, Errors: 1234, Share: 0.612}, {Name: "write", Count: 2000, Share: 0.388}, {Name: "getpid", Count: 1}}
	got := parseCalls([]byte(straceTable))
	for i := range got {
		got[i].Share = float64(int(got[i].Share*1000+0.5)) / 1000
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

func FuzzParseCalls(f *testing.F) {
	f.Add([]byte(straceTable))
	f.Add([]byte("1 2 3 4 5\n1 2 3 4 5 6\n-1 2 3 4 x\nNaN 1 1 1 x"))
	f.Fuzz(func(t *testing.T, table []byte) {
		for _, c := range parseCalls(table) {
			if c.Name == "" || c.Name == "total" || !(c.Share >= 0 && c.Share <= 1) {
				t.Errorf("%+v", c)
			}
		}
	})
}
