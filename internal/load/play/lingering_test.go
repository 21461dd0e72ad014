package play

import (
	"math/rand/v2"
	"testing"
)

// TestDuesLeaveInOrder pushes frames in random order, and expects that the earliest is popped first.
func TestDuesLeaveInOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var d dues
	waiting := map[int64]int{}
	for range 10_000 {
		if len(d) > 0 && random.IntN(2) == 0 {
			got := d.pop().due
			for due := range waiting {
				if due < got {
					t.Fatalf("%d left before %d", got, due)
				}
			}
			if waiting[got]--; waiting[got] == 0 {
				delete(waiting, got)
			}
			continue
		}
		due := int64(random.IntN(100))
		d.push(lingering{due: due})
		waiting[due]++
	}
}
