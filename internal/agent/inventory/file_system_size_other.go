//go:build !linux

package inventory

// fileSystemSize returns zero: the size is unknown on this system.
func fileSystemSize(string) uint64 { return 0 }
