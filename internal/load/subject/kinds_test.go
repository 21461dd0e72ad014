package subject

import (
	"slices"
	"testing"

	"github.com/muster-fleet/muster/internal/load/report"
)

const perfTable = `72671,,raw_syscalls:sys_enter,47805311820,100.00,,
16549,,syscalls:sys_enter_write,47805311820,100.00,,
33263,,syscalls:sys_enter_read,47805311820,100.00,,
0,,syscalls:sys_enter_accept4,47805311820,100.00,,
<not counted>,,syscalls:sys_enter_mmap,0,100.00,,
`

func TestParseCounts(t *testing.T) {
	want := []report.SystemCall{{Name: "read", Count: 33263}, {Name: "write", Count: 16549}, {Name: "others", Count: 22859}}
	for table, want := range map[string][]report.SystemCall{
		perfTable:                               want,
		"":                                      nil,
		"5,,syscalls:sys_enter_read,1,100.00,,": nil, // the sum is missing
		"event syntax error: 'x'\n":             nil,
	} {
		if got := parseCounts(table); !slices.Equal(got, want) {
			t.Errorf("%q: got %+v\nwant %+v", table, got, want)
		}
	}
}

func FuzzParseCounts(f *testing.F) {
	f.Add(perfTable)
	f.Add("1,,raw_syscalls:sys_enter\n2,,syscalls:sys_enter_x\n\"")
	f.Fuzz(func(t *testing.T, table string) {
		for _, c := range parseCounts(table) {
			if c.Name == "" || c.Count == 0 {
				t.Errorf("%+v", c)
			}
		}
	})
}
