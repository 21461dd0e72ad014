package app

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/muster-fleet/muster/internal/config"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/queue"
	"github.com/muster-fleet/muster/internal/testenv"
)

// settings for a server of a test: everything in a folder, every port chosen by the
// kernel.
func settings(t *testing.T, dir string, args ...string) *config.Server {
	t.Helper()
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	config.Flags(flags)
	args = append([]string{"--data", dir, "--listen", "127.0.0.1:0", "--listen-admin", "127.0.0.1:0", "--journal-reserve", "1MiB"}, args...)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(flags, func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// start runs a server until stop is called.
func start(t *testing.T, cfg *config.Server) (s *Server, stop func()) {
	t.Helper()
	s, err := Open(t.Context(), cfg, slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	t.Cleanup(stop)
	return s, stop
}

func TestOwnEventsSurviveRestart(t *testing.T) {
	cfg := settings(t, filepath.Join(t.TempDir(), "data"))
	s, stop := start(t, cfg)
	testenv.Until(t, "ready", func() bool { return s.NotReady() == nil })
	if err := s.recorder.OwnResult(t.Context(), model.JournalCheck, model.Warning, "a word"); err != nil {
		t.Fatal(err)
	}
	before, ok := s.view.Get(model.ServerNode, model.JournalCheck)
	if !ok || before.Status != model.Warning || before.Output != "a word" {
		t.Fatalf("%+v", before)
	}
	if _, err := Open(t.Context(), cfg, slog.New(slog.DiscardHandler)); err == nil {
		t.Fatal("a second server opened the same folder")
	}
	stop()
	s, _ = start(t, cfg)
	after, ok := s.view.Get(model.ServerNode, model.JournalCheck)
	if !ok || after.Status != before.Status || after.Results < before.Results {
		t.Fatalf("before %+v\nafter %+v", before, after)
	}
}

func TestCollectOldDefinitions(t *testing.T) {
	began := time.Now()
	s, _ := start(t, settings(t, filepath.Join(t.TempDir(), "data")))
	testenv.Until(t, "ready", func() bool { return s.NotReady() == nil })
	held, err := journal.OldestReceived(t.Context(), s.journal)
	if err != nil || held.Before(began.Add(-time.Second)) || held.After(time.Now()) {
		t.Errorf("the journal holds commits since %s, %v", held, err)
	}
	if _, err := s.planner.Collect(t.Context(), s.view.Chunks(), held, time.Now()); err != nil {
		t.Error(err)
	}
}

// What `muster get queues` lists is what docs/reference/queues.md says, and settings
// are in force.
func TestAllQueuesListed(t *testing.T) {
	s, _ := start(t, settings(t, filepath.Join(t.TempDir(), "data"), "--sensu-listen", "127.0.0.1:0", "--queues", "reactions=block,requests=7,journal=9MiB,event-view=40,deliveries=11"))
	testenv.Until(t, "all parts run", func() bool {
		return slices.ContainsFunc(s.queues.List(), func(q queue.Info) bool { return q.Name == "snapshots" })
	})
	listed := map[string]queue.Info{}
	for _, q := range s.queues.List() {
		name := q.Name
		if strings.HasPrefix(name, "event-view-") {
			name = "event-view"
		}
		listed[name] = q
	}
	for _, k := range queue.Kinds() {
		q, ok := listed[k.Name]
		if !ok || q.Unit != k.Unit || !slices.Contains(k.Policies, q.Policy) {
			t.Errorf("%s: %+v", k.Name, q)
		}
		delete(listed, k.Name)
	}
	for name := range listed {
		t.Errorf("%s is listed and not known", name)
	}
	for _, q := range s.queues.List() {
		want, set := map[string]int64{"requests": 7, "journal": 9 << 20, "event-view-0": 40, "deliveries": 11}[q.Name]
		if set && q.Capacity != want || q.Name == "reactions" && q.Policy != queue.Block {
			t.Errorf("%+v", q)
		}
	}
}
