//go:build linux

package test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/test/harness"
)

// History's store is away until its queue has overflowed and the journal is full. People are
// told why; once the store answers the server goes on by itself, and history misses nothing.
func TestHistoryUnavailableUntilJournalFull(t *testing.T) {
	if testing.Short() {
		t.Skip("fills a journal")
	}
	t.Parallel()
	s := harness.NewServer(t, "--journal-budget", "64MiB", "--snapshot-cycle", "2s", "--queues", "reactions=1048576")
	fleet := harness.Fleet{Agents: 8, Checks: 4, Interval: 100 * time.Millisecond}
	s.Prepare(fleet)
	s.Start()
	api := s.Client()
	release := holdHistory(t, s)
	cfg := s.Load(fleet, 8*time.Second)
	cfg.Output, cfg.Changes = 60_000, 0.5
	type end struct {
		rep *report.Report
		err error
	}
	ended := make(chan end, 1)
	go func() {
		rep, err := load.Run(t.Context(), cfg)
		ended <- end{rep, err}
	}()
	harness.Until(t, 60*time.Second, "readyz says what keeps the journal from being cut", func() (string, bool) {
		why, _ := s.Ready()
		return why, strings.Contains(why, "size budget") && strings.Contains(why, "It cannot be cut: history is ") && strings.Contains(why, "changes are made again from there")
	})
	st, err := api.Status(t.Context(), "")
	if r := st.Reactions; err != nil || !r.Rederiving || r.BehindBytes < 16<<20 || r.BehindCommits == 0 {
		t.Errorf("status: %+v, %v", r, err)
	}
	release()
	e := <-ended
	if e.err != nil || !nothingLost(e.rep) {
		t.Errorf("load run: %v, %+v", e.err, e.rep)
	}
	s.WaitReady(30 * time.Second)
	harness.Until(t, 60*time.Second, "history has all", func() (string, bool) {
		st, err := api.Status(t.Context(), "")
		return fmt.Sprint(st.Reactions, err), err == nil && st.Reactions.Waiting == 0 && !st.Reactions.Rederiving && st.Reactions.BehindSeconds == 0
	})
	if s.Metric("muster_react_rederived_total") == 0 {
		t.Error("nothing was made again from the journal: nothing is shown")
	}
	compareChangesWithHistory(t, api, 200)
	s.Stop()
}
