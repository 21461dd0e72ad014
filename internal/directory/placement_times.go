package directory

import (
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/muster-fleet/muster/internal/model"
)

// maxArrivals is the number of recorded assignment times per node. Older times count as the start of the server.
const maxArrivals = 8

// PlacementTimes records when checks and directives were assigned to nodes. It knows no times before the start of the
// server. It is safe for concurrent use.
type PlacementTimes struct {
	directory *Directory
	now       func() time.Time
	start     time.Time

	mu    sync.Mutex
	nodes map[model.NodeID]*placements
}

// placements has the checks and directives that are assigned to one node, with the times of the assignments.
type placements struct {
	units    []model.UnitID // ascending; shared with the snapshot
	arrivals []arrival      // ascending by time
}

// arrival is the time of an assignment, with the checks and directives that a node got then. Nodes with equal changes
// share the list.
type arrival struct {
	at    time.Time
	units []model.UnitID // ascending
}

// NewPlacementTimes returns a PlacementTimes that records, from now on, when checks are assigned to nodes.
func NewPlacementTimes(d *Directory, now func() time.Time) *PlacementTimes {
	p := &PlacementTimes{directory: d, now: now, start: now(), nodes: map[model.NodeID]*placements{}}
	for id, n := range d.now.Load().nodes.All() {
		p.nodes[id] = &placements{units: n.Units}
	}
	d.Subscribe(p.update)
	return p
}

// Since returns the time at which a check or directive was assigned to a node. For an assignment before the server's
// start it returns the start. It takes the present time for a unit without a recorded time, because readers see a
// snapshot before its subscribers.
func (p *PlacementTimes) Since(node model.NodeID, unit model.UnitID) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.nodes[node]
	if n == nil {
		return p.now()
	}
	if _, known := slices.BinarySearch(n.units, unit); !known {
		return p.now()
	}
	for _, a := range slices.Backward(n.arrivals) {
		if _, ok := slices.BinarySearch(a.units, unit); ok {
			return a.at
		}
	}
	return p.start
}

// update records a published change's time for each check and directive that the change assigned to a node.
func (p *PlacementTimes) update(c Change) {
	snapshot, at := p.directory.now.Load(), p.now()
	type list struct { // nodes with equal units share one
		first  *model.UnitID
		length int
	}
	gained := map[[2]list][]model.UnitID{}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range c.Assignments {
		placed, ok := snapshot.nodes.Get(id)
		if !ok {
			delete(p.nodes, id)
			continue
		}
		n := p.nodes[id]
		if n == nil {
			n = &placements{}
			p.nodes[id] = n
		}
		key := [2]list{{unsafe.SliceData(n.units), len(n.units)}, {unsafe.SliceData(placed.Units), len(placed.Units)}}
		units, known := gained[key]
		if !known {
			units = missingIn(n.units, placed.Units)
			gained[key] = units
		}
		n.units = placed.Units
		if len(units) == 0 {
			continue
		}
		if len(n.arrivals) == maxArrivals {
			n.arrivals = slices.Delete(n.arrivals, 0, 1)
		}
		n.arrivals = append(n.arrivals, arrival{at, units})
	}
}

// missingIn returns the ids of the second list that the first list does not have. Both lists are ascending.
func missingIn(first, second []model.UnitID) (missing []model.UnitID) {
	for _, id := range second {
		for len(first) > 0 && first[0] < id {
			first = first[1:]
		}
		if len(first) == 0 || first[0] != id {
			missing = append(missing, id)
		}
	}
	return missing
}
