package load

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/simulated"
)

// churn lets machines come and go at the rates of their classes, at times and in an order drawn from the seed.
type churn struct {
	run   *run
	flows []*flow
	back  []cue // machines that get their network again, the earliest first
}

// flow is one kind of churn of one class, such as its reconnects.
type flow struct {
	members []int
	random  *rand.Rand
	every   float64 // ns, mean
	at      int64
	do      func(ctx context.Context, member int)
}

// newChurn returns a churn with a flow for each rate above zero.
func (s *faultScript) newChurn() *churn {
	r := s.run
	c := &churn{run: r}
	begin := r.begin.Load()
	for _, x := range r.classes {
		members := r.among(func(c *class) bool { return c == x })
		spec := &x.spec.Churn
		for i, k := range []struct {
			rate scenario.Rate
			do   func(ctx context.Context, member int)
		}{
			{spec.Reconnects, r.ifMine(func(a *agent) { a.reconnect(false) })},
			{spec.Restarts, r.ifMine(func(a *agent) { a.reconnect(true) })},
			{spec.Renames, func(ctx context.Context, member int) { s.beside.Go(func() { s.rename(ctx, member) }) }}, // a server that stands still answers late
			{spec.Offline, r.ifMine(c.offline(time.Duration(spec.OfflineFor)))},
		} {
			perSecond := k.rate.PerSecond(len(members))
			if perSecond <= 0 || len(members) == 0 {
				continue
			}
			f := &flow{members: members, random: rand.New(rand.NewPCG(r.cfg.Scenario.Seed^0xc0ffee, uint64(x.number)<<8|uint64(i))), every: 1e9 / perSecond, at: begin, do: k.do}
			f.wait()
			c.flows = append(c.flows, f)
		}
	}
	return c
}

// ifMine returns a function that calls do if this process plays the member.
func (r *run) ifMine(do func(a *agent)) func(context.Context, int) {
	return func(_ context.Context, member int) {
		if a := r.seats[member]; a != nil {
			do(a)
		}
	}
}

// wait moves the time of the next event of the flow, by an exponentially distributed interval.
func (f *flow) wait() { f.at += int64(f.every * f.random.ExpFloat64()) }

// next returns the next event of all flows and its time; never if there is none.
func (c *churn) next() cue {
	first := cue{at: never}
	if len(c.back) > 0 {
		first = c.back[0]
	}
	for _, f := range c.flows {
		if f.at < first.at {
			first = cue{f.at, func(ctx context.Context) { f.do(ctx, f.members[f.random.IntN(len(f.members))]) }}
		}
	}
	return first
}

// step removes the next event and schedules the following one of its flow.
func (c *churn) step() {
	first := c.next().at
	if len(c.back) > 0 && c.back[0].at == first {
		c.back = c.back[1:]
		return
	}
	for _, f := range c.flows {
		if f.at == first {
			f.wait()
			return
		}
	}
}

// offline returns a function that disconnects a machine for a while; it goes on making results, and sends them when it
// is back.
func (c *churn) offline(length time.Duration) func(*agent) {
	return func(a *agent) {
		if a.vanish(false) {
			c.back = append(c.back, cue{c.run.now() + int64(length), func(context.Context) { a.online() }})
			slices.SortStableFunc(c.back, func(a, b cue) int { return cmp.Compare(a.at, b.at) })
		}
	}
}

// over connects all machines that are offline again.
func (c *churn) over() {
	for _, b := range c.back {
		b.do(context.Background())
	}
	c.back = nil
}

// renames counts the renames of nodes and those that failed.
type renames struct {
	asked, failed int
	why           string // the first failure
}

// rename renames a node by the API, or gives it its old name again; only the leading loader does so. The machine's
// session begins anew. A rename that failed while a fault kept the server away does not count.
func (s *faultScript) rename(ctx context.Context, member int) {
	r := s.run
	if r.cfg.follows() {
		return
	}
	r.mu.Lock()
	waits := r.renaming[member]
	r.renaming[member] = true
	r.mu.Unlock()
	if waits {
		return // for the answer to the one before
	}
	from := r.nameOf(member)
	to := observe.OwnName(from)
	if from == to {
		to += observe.RenamedEnd
	}
	began := r.now()
	_, err := r.cfg.API.Nodes.Rename(ctx, simulated.Namespace, from, v1.NodeRename{To: to})
	if err == nil {
		r.call(member, to)
	}
	r.mu.Lock()
	delete(r.renaming, member)
	r.mu.Unlock()
	if err != nil && (ctx.Err() != nil || s.away(began, r.now())) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.renames.asked++
	if err != nil {
		r.renames.failed++
		r.renames.why = cmp.Or(r.renames.why, err.Error())
	}
}

// call records the new name of a member's node, on whatever loader plays it.
func (r *run) call(member int, name string) {
	if r.seats[member] != nil {
		r.renamedTo(member, name)
		return
	}
	r.mu.Lock()
	r.renamed[member] = name
	r.mu.Unlock()
	r.cfg.Joint.Renamed(member, name)
}

// called returns the present name of the agent's node.
func (a *agent) called() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.name
}

// nameOf returns the present name of a member's node.
func (r *run) nameOf(member int) string {
	if a := r.seats[member]; a != nil {
		return a.called()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return cmp.Or(r.renamed[member], r.cfg.Members[member].Name)
}

// String describes the failed renames, or returns an empty text if there are none.
func (n *renames) String() string {
	if n.failed == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d renames failed: %s", n.failed, n.asked, n.why)
}

// away reports whether a fault kept the server away at some time between from and to. A nil receiver returns false.
func (s *faultScript) away(from, to int64) bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.serverAway(from, to)
}
