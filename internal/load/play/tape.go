package play

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/muster-fleet/muster/internal/load/outputs"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/stream"
	"github.com/muster-fleet/muster/internal/model"
)

// tape is a recorded stream as a class plays it, decoded once for all copies of its nodes and all senders. Agent i of
// the class is node i%nodes of the recording, in its copy i/nodes. A node's checks are the class's first ones, in the
// order in which it sent them first.
type tape struct {
	length int64 // ns of virtual time; then it begins anew
	nodes  int
	times  []taped // in order
	within int64   // ns: copies are moved by a share of it
	seed   uint64
}

// taped is one recorded result.
type taped struct {
	at     uint32 // ms
	node   uint32
	output uint32 // bytes
	check  uint16 // of the node
	status model.Status
}

// newTape reads the recorded stream of a class.
func newTape(r *scenario.Recorded, seed uint64, interval time.Duration) (*tape, error) {
	in, file, err := stream.Open(r.File)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.File, err)
	}
	defer file.Close()
	h := &in.Head
	if r.Head() == nil || h.Signals != r.Head().Signals || h.Nodes != r.Head().Nodes || h.Most != r.Head().Most || len(h.Checks) != len(r.Head().Checks) {
		return nil, model.Errorf(model.Conflict, "%s: it became another recording since the scenario was read", r.File)
	}
	t := &tape{length: int64(h.Length), nodes: h.Nodes, times: make([]taped, 0, h.Signals), within: int64(interval), seed: seed}
	own := make([][]uint32, h.Nodes) // checks of each node, by the order of its own
	err = in.Each(func(list []stream.Signal) error {
		for i := range list {
			s := &list[i]
			check := slices.Index(own[s.Node], s.Check)
			if check < 0 {
				check = len(own[s.Node])
				own[s.Node] = append(own[s.Node], s.Check)
			}
			if check >= h.Most {
				return errors.New("a node has more checks than its head says")
			}
			t.times = append(t.times, taped{at: s.At, node: s.Node, output: s.Output, check: uint16(check), status: s.Status})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.File, err)
	}
	return t, nil
}

// shift returns the delay of a copy behind the recording; the first copy has none.
func (t *tape) shift(copy int) int64 {
	if copy == 0 {
		return 0
	}
	return int64(outputs.Share(outputs.Mix(t.seed^0x7a9e^uint64(copy)<<20))*float64(t.within)) % t.length
}

// Status returns the recorded status of the result with this sequence number.
func (t *tape) Status(_, _ int, _ *model.CheckDefinition, seq uint64, _ model.Status, _ bool) model.Status {
	return t.said(seq).status
}

// Output returns an output with the recorded length, limited to the size of a frame.
func (t *tape) Output(dst []byte, a, c int, definition *model.CheckDefinition, seq uint64, status model.Status) []byte {
	d := outputs.Digits{Size: min(int(t.said(seq).output), scenario.MaxOutput), Seed: t.seed}
	return d.Output(dst, a, c, definition, seq, status)
}

// said returns the recorded result of a sequence number.
func (t *tape) said(seq uint64) *taped { return &t.times[seq&(1<<48-1)%uint64(len(t.times))] }

// reel plays a tape for one copy of its nodes, limited to the agents of one sender. A copy that is moved begins with
// what its shift leaves over at the end, so that each plays all of the tape.
type reel struct {
	tape   *tape
	agents []int32 // by node: its place among the sender's; -1: another sender has it
	begin  int64   // virtual time at which this round of the tape began
	next   int
	round  uint64
}

// newReel returns a reel of one copy, or nil if the sender has none of its agents.
func newReel(t *tape, copy int, agents []int32) *reel {
	shift := t.shift(copy)
	r := &reel{tape: t, agents: agents, begin: shift}
	if shift > 0 {
		r.begin -= t.length
		r.next = sort.Search(len(t.times), func(i int) bool { return int64(t.times[i].at)*1e6 >= -r.begin })
	}
	if !slices.ContainsFunc(t.times, func(s taped) bool { return agents[s.node] >= 0 }) {
		return nil
	}
	r.seek()
	return r
}

// seek moves to the next result of an agent that the sender has.
func (r *reel) seek() {
	for {
		if r.next == len(r.tape.times) {
			r.next, r.begin, r.round = 0, r.begin+r.tape.length, r.round+1
		}
		if r.agents[r.tape.times[r.next].node] >= 0 {
			return
		}
		r.next++
	}
}

// due returns the virtual time of the next result.
func (r *reel) due() int64 { return r.begin + int64(r.tape.times[r.next].at)*1e6 }

// take returns the next result and moves on.
func (r *reel) take(s *sender) task {
	at := &r.tape.times[r.next]
	what := task{agent: int(r.agents[at.node]), check: int(at.check), seq: r.round*uint64(len(r.tape.times)) + uint64(r.next)}
	r.next++
	r.seek()
	return what
}

// reels returns one reel for each copy of each class with a tape.
func (s *sender) reels() (list []track) {
	type of struct {
		class *class
		copy  int
	}
	agents := map[of][]int32{}
	var order []of
	for i, a := range s.agents {
		t := a.class.tape
		if t == nil {
			continue
		}
		at := of{a.class, a.index / t.nodes}
		if agents[at] == nil {
			agents[at] = slices.Repeat([]int32{-1}, t.nodes)
			order = append(order, at)
		}
		agents[at][a.index%t.nodes] = int32(i)
	}
	for _, at := range order {
		if r := newReel(at.class.tape, at.copy, agents[at]); r != nil {
			list = append(list, r)
		}
	}
	return list
}
