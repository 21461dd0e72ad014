//go:build !linux

package sdnotify

// InJournal returns false, because only Linux has systemd.
func InJournal(string, any) bool { return false }
