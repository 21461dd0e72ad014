package shares

import (
	"maps"
	"slices"
	"testing"
)

// TestFairShare computes the bytes that each node may keep, and expects small nodes to keep all their bytes. Holders
// that use less than the limit keep all their bytes.
func TestFairShare(t *testing.T) {
	for _, c := range []struct {
		held  []int64
		total int64
		want  int64
	}{
		{[]int64{10, 10}, 10, 5},
		{[]int64{100, 1, 2}, 53, 50},
		{[]int64{100, 90, 2}, 52, 25},
		{[]int64{5}, 0, 0},
		{[]int64{5, 5}, -1, 0},
	} {
		if got := fairShare(slices.Clone(c.held), c.total); got != c.want {
			t.Errorf("%v in %d: %d, want %d", c.held, c.total, got, c.want)
		}
	}
	quotas := Quotas(map[Holder]int64{{1, "a"}: 100, {2, "a"}: 10, {3, "b"}: 40, {4, "c"}: 60}, 150)
	if want := (map[Holder]int64{{1, "a"}: 55, {4, "c"}: 5}); !maps.Equal(quotas, want) {
		t.Errorf("quotas %v, want %v", quotas, want)
	}
}
