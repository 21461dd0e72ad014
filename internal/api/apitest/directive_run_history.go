package apitest

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/compliancelog"
	"github.com/muster-fleet/muster/internal/testenv"
)

// runHistory is the history of policy directive runs on a test server. All runs are in partition 0. The first request
// fills it.
type runHistory struct {
	server *Server
	store  *compliancelog.Store
	once   sync.Once
}

// newRunHistory opens a store for the runs of policy directives in a test. The store closes at the end of the test.
func newRunHistory(r *Server) *runHistory {
	store := testenv.Value(compliancelog.Open(r.T.Context(), filepath.Join(r.T.TempDir(), "compliance.db"), compliancelog.Options{Now: r.Now, Logger: slog.New(slog.DiscardHandler)}))(r.T)
	r.T.Cleanup(func() { testenv.NoError(r.T, store.Close()) })
	return &runHistory{server: r, store: store}
}

// filledStore returns the history store, filled with all directive runs of the test server. The first call writes all runs
// of the server to it.
func (h *runHistory) filledStore() *compliancelog.Store {
	h.once.Do(func() {
		var changes []compliancelog.Change
		for node, runs := range h.server.Runs {
			for _, r := range runs {
				changes = append(changes, compliancelog.Change{After: compliancelog.State{
					Node: node, Unit: r.Unit, Definition: r.Definition, Executed: r.Executed / int64(time.Millisecond), Changed: r.Changed / int64(time.Millisecond),
					Enforced: r.Enforced, Components: r.Components, Codes: r.Codes,
				}})
			}
		}
		if len(changes) > 0 {
			h.store.Append(0, journal.Position{Log: 1, Number: 1}, changes)
		}
	})
	return h.store
}

// RunsAt returns the last runs of policy directives on a node up to a time. Interface compliance.History requires it.
func (h *runHistory) RunsAt(ctx context.Context, node model.NodeID, at time.Time) ([]compliancelog.State, error) {
	return h.filledStore().StatesAt(ctx, compliancelog.Selection{Node: node}, at)
}

// Changes calls visit for each change of runs of policy directives in a period. Interface compliance.History requires
// it.
func (h *runHistory) Changes(ctx context.Context, node model.NodeID, since, until time.Time, visit func(*compliancelog.Change)) error {
	return h.filledStore().Changes(ctx, compliancelog.Selection{Node: node}, since, until, visit)
}

// Entries calls visit for each entry of a node's history of policy directive runs in a period. Entries are changes of
// runs and signatures of the node's chain of runs. Interface compliance.History requires it.
func (h *runHistory) Entries(ctx context.Context, node model.NodeID, since, until time.Time, visit func(*compliancelog.Change)) error {
	return h.filledStore().Entries(ctx, compliancelog.Selection{Node: node}, since, until, visit)
}

// Certificate returns the stored certificate with the given hash, in DER form, or nil. Interface compliance.History
// requires it.
func (h *runHistory) Certificate(ctx context.Context, sum compliancelog.CertificateSum) ([]byte, error) {
	return h.filledStore().Certificate(ctx, sum)
}

// OldestEntryTime returns the time of the oldest stored entry. Interface compliance.History requires it.
func (h *runHistory) OldestEntryTime(ctx context.Context) (time.Time, error) {
	return h.filledStore().OldestEntry(ctx)
}
