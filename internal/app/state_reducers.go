package app

import (
	"maps"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/compliance"
	"github.com/muster-fleet/muster/internal/pipeline/inventory"
	"github.com/muster-fleet/muster/internal/pipeline/metric"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/store/compliancelog"
	"github.com/muster-fleet/muster/internal/store/snapshot"
)

// reducers holds all reducers, the functions that compute state in memory from the journal. The reducer of
// events is apart.
type reducers struct {
	metrics     *metric.View
	compliance  *compliance.View
	inventories *inventory.View
}

// addReducers adds the reducers (functions that compute state from the journal) to each worker of the event
// state. The reducer of events is apart; the workers are of the live view, or of a second view for a replay.
// Both have the same snapshot sections. Only the reducers of the live view write values and history; the
// history of a second view is nil.
func addReducers(to *shard.Shard, values metric.Options, history *compliancelog.Store) reducers {
	return reducers{metrics: metric.New(to, values), compliance: compliance.New(to, history), inventories: inventory.New(to)}
}

// snapshotConditions returns, for each computed state, the condition that must hold before its snapshot. The stores of its reducer,
// the part that computes the state, must have everything before the snapshot. The inventory reducer writes to none.
func (p *pipeline) snapshotConditions() []snapshot.Gate {
	return []snapshot.Gate{{Reducer: "events", Wait: p.waitForHistory}, {Reducer: "metrics", Wait: p.syncValues}, {Reducer: "compliance", Wait: p.flushCompliance}}
}

// usedDefinitions returns the ids of compiled checks, Templates and directives that the state in memory still
// refers to. Checks, Templates and directives have definitions. Inventories refer to none.
func (p *pipeline) usedDefinitions() map[model.DefinitionID]bool {
	used := p.view.Definitions()
	maps.Copy(used, p.metrics.Definitions())
	maps.Copy(used, p.compliance.Definitions()) // also of history
	return used
}
