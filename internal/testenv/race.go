//go:build race

package testenv

// Race says that the race detector is on: memory and allocations are not what they are
// without it.
const Race = true
