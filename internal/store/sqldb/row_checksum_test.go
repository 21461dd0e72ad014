package sqldb

import "testing"

// TestRowChecksumEqualsEarlierBuilds compares row checksums with the checksums of earlier builds of Muster. A changed checksum
// would make rows look damaged.
func TestRowChecksumEqualsEarlierBuilds(t *testing.T) {
	for _, c := range []struct {
		values []any
		want   int64
	}{
		{[]any{"Check", "default", "disk", int64(7), []byte("body")}, 8801471525480800110},
		{[]any{"Check", "defaultdisk", "", int64(7), []byte("body")}, 7401253984596092972},
		{[]any{nil}, 3803688792395291579},
		{[]any{[]byte{}}, 3803688792395291579},
	} {
		if got := RowChecksum(c.values...); got != c.want {
			t.Errorf("the checksum of %v is %d, want %d", c.values, got, c.want)
		}
	}
}
