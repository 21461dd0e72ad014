//go:build !linux && !darwin && !freebsd

package preflight

func freeDisk(string) (int64, bool) { return 0, false }
