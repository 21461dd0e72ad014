//go:build !linux

package sdnotify

// InJournal returns false: other systems have no systemd.
func InJournal(string, any) bool { return false }
