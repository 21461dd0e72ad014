package intent

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

// EnforceRetentionNow deletes expired audit records, tokens, tombstones and silences once, for tests.
func (s *Service) EnforceRetentionNow(ctx context.Context) error { return s.deleteExpired(ctx) }

// WriteReportsNow writes the pending agents' reports to the database once, for tests.
func (s *Service) WriteReportsNow(ctx context.Context) error { return s.writePending(ctx) }

// ForgetAbsentNow removes ephemeral nodes that are absent for too long at a given time, for tests.
func (s *Service) ForgetAbsentNow(ctx context.Context, away map[uuid.UUID]time.Duration, passed time.Duration) error {
	return s.Nodes.forgetAbsent(ctx, away, passed)
}

// IndexSizes returns how many entries each in-memory index of the service has, for tests. The indexes have
// nodes, keys, ephemeral nodes and tombstones.
func (s *Service) IndexSizes() (nodes, keys, ephemeral, tombstones int) {
	s.nodes.mu.RLock()
	defer s.nodes.mu.RUnlock()
	return len(s.nodes.byUID) + len(s.nodes.keys), len(s.nodes.byKey) + len(s.tombstones.byKey), len(s.nodes.ephemeral), len(s.tombstones.byRow)
}

// RefillReportBudgets resets the rate limit for changed reports of every node, for tests.
func (s *Service) RefillReportBudgets() {
	s.nodes.mu.Lock()
	defer s.nodes.mu.Unlock()
	clear(s.nodes.paces)
}

// WaitingRequests returns the number of machines' join requests that wait for the running database commit to
// end.
func (s *Service) WaitingRequests() int {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	return len(s.queue.waits)
}

// TestRecordedReportIsNotWrittenAgain sends an agent's report that is already stored, and expects no database query or
// write
func TestRecordedReportIsNotWrittenAgain(t *testing.T) {
	facts, labels := map[string]string{"os": "linux", "arch": "amd64"}, map[string]string{"env": "prod"}
	info := NodeInfo{UID: uuid.New(), Name: "web01", Namespace: "default", report: AgentReport{facts, labels, []string{"canary", "web"}, nil, nil}.fingerprint()}
	s := NewService(Options{})
	s.nodes.byUID[info.UID] = info
	for _, c := range []struct {
		what          string
		facts, labels map[string]string
		groups        string
		waiting       int
	}{
		{"the same", facts, labels, "web canary", 0},
		{"another value", map[string]string{"os": "linux", "arch": "arm64"}, labels, "web canary", 1},
		{"the same after all", facts, labels, "canary web web", 0},
		{"one fact less", map[string]string{"os": "linux"}, labels, "web canary", 1},
		{"a label for a fact", map[string]string{"os": "linux", "arch": "amd64", "env": "prod"}, nil, "web canary", 1},
		{"value and name moved", map[string]string{"os": "linux", "archa": "md64"}, labels, "web canary", 1},
		{"no labels", facts, nil, "web canary", 1},
		{"no groups", facts, labels, "", 1},
		{"another group", facts, labels, "web db", 1},
	} {
		s.RecordReport(info, AgentReport{c.facts, c.labels, strings.Fields(c.groups), nil, nil})
		if len(s.nodes.reports) != c.waiting {
			t.Errorf("%s: %d nodes wait to be written, want %d", c.what, len(s.nodes.reports), c.waiting)
		}
	}
}
