//go:build race

package testenv

// Race reports that the race detector is on: memory and allocations differ with it.
const Race = true
