//go:build !unix

package load

func openFiles() (uint64, bool) { return 0, false }
