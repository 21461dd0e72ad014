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

// AssignmentTimes records when checks and directives were assigned to nodes. It knows no times before the start of the
// server. It is safe for concurrent use.
type AssignmentTimes struct {
	directory *Directory
	now       func() time.Time
	start     time.Time

	mu    sync.Mutex
	nodes map[model.NodeID]*nodeAssignmentTimes
}

// nodeAssignmentTimes has the checks and directives that are assigned to one node, with the times of the assignments.
type nodeAssignmentTimes struct {
	units    []model.UnitID   // ascending; shared with the snapshot
	arrivals []assignmentTime // ascending by time
}

// assignmentTime is the time at which a node was assigned checks and directives, with the ids of both. Nodes
// with equal changes share the list.
type assignmentTime struct {
	at    time.Time
	units []model.UnitID // ascending
}

// NewAssignmentTimes returns an AssignmentTimes that records, from now on, when checks are assigned to nodes.
func NewAssignmentTimes(d *Directory, now func() time.Time) *AssignmentTimes {
	p := &AssignmentTimes{directory: d, now: now, start: now(), nodes: map[model.NodeID]*nodeAssignmentTimes{}}
	for id, n := range d.now.Load().nodes.All() {
		p.nodes[id] = &nodeAssignmentTimes{units: n.Units}
	}
	d.Subscribe(p.update)
	return p
}

// Since returns the time at which a check or directive was assigned to a node. For an assignment before the server's
// start it returns the start. It takes the present time for a unit without a recorded time, because readers see a
// snapshot before its subscribers.
func (p *AssignmentTimes) Since(node model.NodeID, unit model.UnitID) time.Time {
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
func (p *AssignmentTimes) update(c Change) {
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
			n = &nodeAssignmentTimes{}
			p.nodes[id] = n
		}
		key := [2]list{{unsafe.SliceData(n.units), len(n.units)}, {unsafe.SliceData(placed.Units), len(placed.Units)}}
		units, known := gained[key]
		if !known {
			units = idsMissingIn(n.units, placed.Units)
			gained[key] = units
		}
		n.units = placed.Units
		if len(units) == 0 {
			continue
		}
		if len(n.arrivals) == maxArrivals {
			n.arrivals = slices.Delete(n.arrivals, 0, 1)
		}
		n.arrivals = append(n.arrivals, assignmentTime{at, units})
	}
}

// idsMissingIn returns the ids of the second list that are absent from the first list. Both lists are
// ascending.
func idsMissingIn(first, second []model.UnitID) (missing []model.UnitID) {
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
