//go:build linux

package test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/load/subject"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// The server under test is prepared, killed, stopped and started again as a scenario asks; it can be read, and
// nothing of it is left.
func TestSubject(t *testing.T) {
	t.Parallel()
	sc := &scenario.Scenario{Name: "tiny", Agents: []scenario.Class{{Name: "web", Count: 3, Checks: []scenario.Check{{Name: "ping", Count: 2, Interval: model.Duration(time.Second)}}}}}
	base := t.TempDir()
	s, err := subject.Start(t.Context(), subject.Options{Binary: harness.Binary(), Dir: base, Flags: []string{"--journal-reserve", "1MiB"},
		Prepare: func(ctx context.Context, service *intent.Service) error {
			return simulated.PrepareScenario(ctx, service, sc)
		}})
	testenv.NoError(t, err)
	defer s.Stop()
	nodes, err := s.API.Nodes.States(t.Context(), v1.NodeFilter{Namespace: simulated.Namespace, Group: "web", Limit: 10})
	require(t, err == nil && len(nodes.Items) == 3, "%d nodes in the class's group, %v", len(nodes.Items), err)
	if _, err := s.Authority(); err != nil {
		t.Error(err)
	}
	if e := s.Environment(t.Context()); e.Server["version"] == "" || e.Server["flags"] != "--journal-reserve 1MiB" || e.Fsync.Max <= 0 {
		t.Errorf("environment %+v", e)
	}
	profiles := filepath.Join(base, "profiles")
	files, err := s.Profile(t.Context(), profiles, "steady", 1)
	assert(t, err == nil && len(files) == 7, "profiles %v, %v", files, err)
	for name := range files {
		data, err := os.ReadFile(filepath.Join(base, name))
		if gzip := bytes.HasPrefix(data, []byte{0x1f, 0x8b}); err != nil || gzip != (filepath.Ext(name) == ".pprof") || len(data) == 0 {
			t.Errorf("%s: %d bytes, %v", name, len(data), err)
		}
	}

	first := s.PID()
	for i, again := range []func(context.Context) error{s.Kill, s.Restart} {
		if err := again(t.Context()); err != nil || s.PID() == first || s.PID() == 0 {
			t.Fatalf("%d: process %d, before %d: %v", i, s.PID(), first, err)
		}
		first = s.PID()
	}
	if err := errors.Join(s.Pause(), s.Continue()); err != nil {
		t.Error(err)
	}
	if err := s.Pause(); err != nil { // one that stands still is ended all the same
		t.Error(err)
	}
	s.Stop()
	if err := syscall.Kill(first, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d: %v", first, err)
	}
	if _, err := os.Stat(s.Data); !errors.Is(err, fs.ErrNotExist) || s.PID() != 0 {
		t.Errorf("the data folder is still there (%v), process %d", err, s.PID())
	}
	if err := s.Kill(t.Context()); err == nil {
		t.Error("it was started after its end")
	}
}

// System calls are counted by kind, and the server goes on.
func TestSubjectSystemCalls(t *testing.T) {
	t.Parallel()
	testenv.Program(t, "strace", "strace")
	s, err := subject.Start(t.Context(), subject.Options{Binary: harness.Binary(), Dir: t.TempDir(), Flags: []string{"--journal-reserve", "1MiB"}})
	testenv.NoError(t, err)
	defer s.Stop()
	calls, err := s.SystemCalls(t.Context(), 1)
	if err != nil && strings.Contains(err.Error(), "not permitted") {
		testenv.LeftOut(t, "strace may not look at another process here", "sudo scripts/nightly.sh blackbox")
	}
	share := 0.0
	for _, c := range calls {
		share += c.Share
	}
	assert(t, err == nil && len(calls) != 0 && calls[0].Count != 0 && share >= 0.9 && share <= 1.1,
		"%+v, %v", calls, err)
	calls, err = s.CountCalls(t.Context(), 1)
	assert(t, err == nil && (len(calls) == 0 || calls[0].Count != 0 && slices.ContainsFunc(calls, func(c report.SystemCall) bool { return c.Name == "futex" })),
		"as the kernel counts: %+v, %v", calls, err)
	if _, err := s.API.Nodes.States(t.Context(), v1.NodeFilter{Limit: 1}); err != nil {
		t.Errorf("the server afterwards: %v", err)
	}
}

// A server that cannot start says why.
func TestSubjectDoesNotStart(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	s, err := subject.Start(t.Context(), subject.Options{Binary: harness.Binary(), Dir: base, Flags: []string{"--max-frame", "1"}})
	assert(t, s == nil && model.ClassOf(err) == model.Unavailable && bytes.Contains([]byte(err.Error()), []byte("max-frame")),
		"got %v", err)
	left, _ := os.ReadDir(base)
	assert(t, len(left) == 0, "%v is left", left)
}
