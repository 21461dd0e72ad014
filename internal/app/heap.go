package app

import (
	"os"
	"runtime/debug"
)

// heapGrowth is GOGC: the heap may grow by this share of its live bytes, in per cent, before it is
// collected. It is half of Go's default: a server's heap is mostly live (sessions, states), and memory
// is worth more here than the one or two per cent of CPU.
const heapGrowth = 50

// keepHeapSmall sets heapGrowth for this process, unless GOGC says otherwise.
func keepHeapSmall() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(heapGrowth)
	}
}
