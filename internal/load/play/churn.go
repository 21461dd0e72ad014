package play

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/simulated"
)

// flow is one kind of churn of one class, such as its reconnects: machines come and go at a rate, at times and in an order drawn
// from the seed.
type flow struct {
	members []int
	random  *rand.Rand
	every   float64 // ns, mean
	at      int64   // of its present event
	do      func(ctx context.Context, member int)
}

// flows returns a flow for each rate of the classes above zero.
func (s *Script) flows() (list []*flow) {
	fleet := s.fleet
	for _, x := range fleet.classes {
		members := fleet.among(func(c *class) bool { return c == x })
		spec := &x.spec.Churn
		for i, k := range []struct {
			rate scenario.Rate
			do   func(ctx context.Context, member int)
		}{
			{spec.Reconnects, fleet.ifMine(func(a *agent) { a.reconnect(false) })},
			{spec.Restarts, fleet.ifMine(func(a *agent) { a.reconnect(true) })},
			{spec.Renames, func(ctx context.Context, member int) { s.beside.Go(func() { s.rename(ctx, member) }) }}, // a server that stands still answers late
			{spec.Offline, fleet.ifMine(func(a *agent) { s.offline(a, time.Duration(spec.OfflineFor)) })},
		} {
			if perSecond := k.rate.PerSecond(len(members)); perSecond > 0 && len(members) > 0 {
				list = append(list, &flow{members: members, random: rand.New(rand.NewPCG(fleet.cfg.Scenario.Seed^0xc0ffee, uint64(x.number)<<8|uint64(i))), every: 1e9 / perSecond, at: fleet.Begin(), do: k.do})
			}
		}
	}
	return list
}

// ifMine returns a function that calls do if this process plays the member.
func (f *Fleet) ifMine(do func(a *agent)) func(context.Context, int) {
	return func(_ context.Context, member int) {
		if a := f.seats[member]; a != nil {
			do(a)
		}
	}
}

// flow adds the next event of a flow, after an exponentially distributed interval; that event adds the one after it.
func (s *Script) flow(f *flow) {
	f.at += int64(f.every * f.random.ExpFloat64())
	s.add(cue{at: f.at, do: func(ctx context.Context) {
		f.do(ctx, f.members[f.random.IntN(len(f.members))])
		s.flow(f)
	}})
}

// offline disconnects a machine for a while; it goes on making results, and sends them when it is back.
func (s *Script) offline(a *agent, length time.Duration) {
	if a.vanish(false) {
		s.add(cue{s.fleet.Now() + int64(length), func(context.Context) { a.online() }, true})
	}
}

// renames holds the new names of nodes, and counts the renames.
type renames struct {
	asked, failed int
	why           string         // the first failure
	waiting       map[int]bool   // nodes that the API was asked to rename, by member: it has not answered yet
	others        map[int]string // nodes of other processes that have another name now, by member
}

// rename renames a node by the API, or gives it its old name again; only the leading loader does so. The machine's
// session begins anew. A rename that failed while a fault kept the server away does not count.
func (s *Script) rename(ctx context.Context, member int) {
	fleet := s.fleet
	if fleet.cfg.Follows() {
		return
	}
	fleet.mu.Lock()
	waits := fleet.renames.waiting[member]
	fleet.renames.waiting[member] = true
	fleet.mu.Unlock()
	if waits {
		return // for the answer to the one before
	}
	from := fleet.Called(member)
	to := observe.OwnName(from)
	if from == to {
		to += observe.RenamedEnd
	}
	began := fleet.Now()
	_, err := fleet.cfg.API.Nodes.Rename(ctx, simulated.Namespace, from, v1.NodeRename{To: to})
	if err == nil {
		fleet.call(member, to)
	}
	fleet.mu.Lock()
	delete(fleet.renames.waiting, member)
	fleet.mu.Unlock()
	if err != nil && (ctx.Err() != nil || s.Away(began, fleet.Now())) {
		return
	}
	fleet.mu.Lock()
	defer fleet.mu.Unlock()
	fleet.renames.asked++
	if err != nil {
		fleet.renames.failed++
		fleet.renames.why = cmp.Or(fleet.renames.why, err.Error())
	}
}

// call records the new name of a member's node, on whatever process plays it.
func (f *Fleet) call(member int, name string) {
	if f.seats[member] != nil {
		f.Rename(member, name)
		return
	}
	f.mu.Lock()
	f.renames.others[member] = name
	f.mu.Unlock()
	f.Renamed(member, name)
}

// Rename sets the present name of a member's node, if this process plays it.
func (f *Fleet) Rename(member int, name string) {
	if member < 0 || member >= len(f.seats) || f.seats[member] == nil {
		return
	}
	a := f.seats[member]
	a.mu.Lock()
	a.name = name
	a.mu.Unlock()
}

// Renaming reports whether the API was asked to rename a member's node, and has not answered yet.
func (f *Fleet) Renaming(member int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.renames.waiting[member]
}

// Renames describes the failed renames, or returns an empty text if there are none.
func (f *Fleet) Renames() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.renames.failed == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d renames failed: %s", f.renames.failed, f.renames.asked, f.renames.why)
}

// called returns the present name of the agent's node.
func (a *agent) called() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.name
}

// Called returns the present name of a member's node.
func (f *Fleet) Called(member int) string {
	if a := f.seats[member]; a != nil {
		return a.called()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return cmp.Or(f.renames.others[member], f.cfg.Members[member].Name)
}

// Away reports whether a fault kept the server away at some time between from and to. A nil receiver returns false.
func (s *Script) Away(from, to int64) bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.serverAway(from, to)
}
