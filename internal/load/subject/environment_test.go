package subject

import (
	"runtime"
	"testing"
)

// TestEnvironment expects the conditions of a run on any Linux machine.
func TestEnvironment(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("limits and mounts are read on Linux")
	}
	s := &Subject{Data: t.TempDir()}
	e := s.Environment(t.Context())
	for _, name := range []string{"open files", "net.ipv4.ip_local_port_range", "net.core.somaxconn", "vm.overcommit_memory"} {
		if e.Limits[name] == "" {
			t.Errorf("no limit %q in %v", name, e.Limits)
		}
	}
	if e.FileSystem == "" || e.Device == "" {
		t.Errorf("the folder lies on file system %q, device %q", e.FileSystem, e.Device)
	}
	if f := e.Fsync; f.P50 <= 0 || f.P99 < f.P50 || f.Max < f.P99 {
		t.Errorf("fsync %+v", f)
	}
	if e := Here(t.Context(), ""); len(e.Limits) == 0 || e.FileSystem != "" || e.Fsync.Max > 0 {
		t.Errorf("where no folder is known: %+v", e)
	}
	if _, err := Fsync(t.Context(), t.TempDir()+"/none", 1); err == nil {
		t.Error("a folder that is not there was measured")
	}
}
