//go:build unix

package disk

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// TestLockWaitsForEndedProcess stores an ended process as lock owner, and expects Lock to wait until the lock
// is free. The child still shares its parent's lock. Lock fails at once while the holder lives.
func TestLockWaitsForEndedProcess(t *testing.T) {
	name := filepath.Join(t.TempDir(), "LOCK")
	held, err := OS{}.Lock(name)
	if err != nil {
		t.Fatal(err)
	}
	var other *LockedError
	if _, err := (OS{}).Lock(name); !errors.As(err, &other) || other.PID != os.Getpid() {
		t.Fatalf("held by a process that lives: %v", err)
	}
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Skip("no true: ", err)
	}
	if err := os.WriteFile(name, []byte(strconv.Itoa(ended.Process.Pid)), 0o600); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(50*time.Millisecond, func() { _ = held.Close() })
	again, err := OS{}.Lock(name)
	if err != nil {
		t.Fatalf("after its holder ended: %v", err)
	}
	_ = again.Close()
}

// TestLockOutlivesItsFile deletes the lock file of a locked folder, and expects the lock to stay
func TestLockOutlivesItsFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "LOCK")
	held, err := OS{}.Lock(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	var other *LockedError
	if _, err := (OS{}).Lock(name); !errors.As(err, &other) {
		t.Fatalf("locked twice, after the file was deleted: %v", err)
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := OS{}.Lock(name)
	if err != nil {
		t.Fatalf("after the first holder released it: %v", err)
	}
	_ = again.Close()
}
