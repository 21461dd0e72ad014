package app

import (
	"os"
	"runtime/debug"
)

// heapGrowth is how much the heap may grow over what is live before it is collected,
// in per cent: half of Go's default. A server's heap is what it holds (sessions,
// states), so that memory counts for more here than the one or two per cent of CPU.
const heapGrowth = 50

// keepHeapSmall sets heapGrowth for this process, unless GOGC says otherwise.
func keepHeapSmall() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(heapGrowth)
	}
}
