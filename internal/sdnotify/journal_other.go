//go:build !linux

package sdnotify

// InJournal returns false: the variant for systems other than Linux, which have no systemd.
func InJournal(string, any) bool { return false }
