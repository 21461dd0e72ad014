//go:build !linux && !darwin && !freebsd

package load

func openFiles() (uint64, bool) { return 0, false }

func freeDisk(string) (int64, bool) { return 0, false }
