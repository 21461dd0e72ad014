//go:build !linux

package inventory

// fileSystemSize returns zero, because the agent reads the size of file systems on Linux only.
func fileSystemSize(string) uint64 { return 0 }
