package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// NotOrdered counts a state of which it was not compared which results it holds in which order.
func (b *Balance) NotOrdered(why string) {
	if b.Unordered == nil {
		b.Unordered = map[string]int{}
	}
	b.Unordered[why]++
}

// OrderNotCompared says of how many states that is so, and why; empty: of none.
func (b *Balance) OrderNotCompared() string {
	var list []string
	for _, why := range slices.Sorted(maps.Keys(b.Unordered)) {
		list = append(list, fmt.Sprintf("%d (%s)", b.Unordered[why], why))
	}
	return strings.Join(list, ", ")
}
