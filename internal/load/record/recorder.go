package record

import (
	"cmp"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/load/stream"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// maxAge is the largest age in ms of a result that is placed at its execution time.
const maxAge = int64(10 * time.Second / time.Millisecond)

// recorder turns batches into signals. Times are Unix milliseconds.
type recorder struct {
	out    *stream.Writer
	head   stream.Head
	nodes  map[model.NodeID]*node
	checks map[model.DefinitionID]uint32
	gaps   [][]int64       // by check: some between two results of one node
	states map[state]int64 // execution time of the last result
	held   []taken         // not yet written: earlier results may arrive
	sorted int64           // time of the last sort
	begun  bool            // a result is written
	begin  int64           // of the recording
	last   int64           // receipt of the last result

	record wire.Record
	reader wire.BatchReader
	signal wire.Signal
	body   wire.Result // of signal
}

// node is one node of the journal.
type node struct {
	index   uint32 // from its first result on
	states  int
	streams []wire.StreamLast // last number of each stream: a repeated number is no new result
}

// state is a check of a node, by its definition: the journal has no other name of it.
type state struct {
	node       model.NodeID
	definition model.DefinitionID
}

// taken is a recorded result that may not be in order yet.
type taken struct {
	at    int64
	order uint64 // among equal times
	stream.Signal
}

// newRecorder returns a recorder that writes to a stream.
func newRecorder(out *stream.Writer) *recorder {
	return &recorder{out: out, nodes: map[model.NodeID]*node{}, checks: map[model.DefinitionID]uint32{}, states: map[state]int64{}}
}

// batch records one frame of an agent.
func (r *recorder) batch(id model.NodeID, body []byte, received int64) error {
	b := &r.reader
	if err := b.Reset(body); err != nil {
		return err
	}
	n := r.nodes[id]
	if n == nil {
		n = &node{}
		r.nodes[id] = n
	}
	known := n.stream(b.StreamKey)
	for number := b.First; b.Next(&r.signal); number++ {
		if number > known.Last && r.signal.Kind == wire.SignalResult {
			if err := r.body.Decode(r.signal.Body); err != nil {
				return err
			}
			r.result(n, id, &r.signal, received/1e6)
		}
	}
	known.Last = max(known.Last, b.Last())
	return b.Err()
}

// maxStreams bounds the streams of a node, as the server does: a machine has one, and another one after the loss of its
// spool.
const maxStreams = 8

// stream returns the last number of a stream, and adds a new stream.
func (n *node) stream(key wire.StreamKey) *wire.StreamLast {
	i := slices.IndexFunc(n.streams, func(s wire.StreamLast) bool { return s.StreamKey == key })
	if i < 0 {
		if len(n.streams) == maxStreams {
			n.streams = slices.Delete(n.streams, 0, 1)
		}
		i = len(n.streams)
		n.streams = append(n.streams, wire.StreamLast{StreamKey: key})
	}
	return &n.streams[i]
}

// maxGaps bounds the number of gaps that are kept of a check. Their median is its interval.
const maxGaps = 99

// result records one result of a node.
func (r *recorder) result(n *node, id model.NodeID, s *wire.Signal, received int64) {
	check, found := r.checks[s.Definition]
	if !found {
		check = uint32(len(r.checks))
		r.checks[s.Definition] = check
		r.head.Checks = append(r.head.Checks, stream.Check{})
		r.gaps = append(r.gaps, nil)
	}
	age := int64(0)
	if s.AtMs < r.reader.NowMs {
		age = int64(min(r.reader.NowMs-s.AtMs, 1<<40))
	}
	if n.states == 0 {
		n.index = uint32(r.head.Nodes)
		r.head.Nodes++
	}
	t := taken{at: received - age, order: r.head.Signals, Signal: stream.Signal{Node: n.index, Check: check, Output: uint32(min(len(r.body.Output), model.MaxOutputBytes)), Status: r.body.Status}}
	if age > maxAge {
		t.at, t.Late = received, true
	}
	at := state{id, s.Definition}
	before, again := r.states[at]
	t.at = max(t.at, before) // the results of one state keep the order of the journal
	r.states[at] = t.at
	k := &r.head.Checks[check]
	switch {
	case !again:
		k.Nodes++
		n.states++
		r.head.States, r.head.Most = r.head.States+1, max(r.head.Most, n.states)
	case !t.Late && t.at > before && len(r.gaps[check]) < maxGaps:
		r.gaps[check] = append(r.gaps[check], t.at-before)
	}
	k.Signals++
	r.head.Signals++
	if t.Late {
		r.head.Late++
	}
	r.head.Bytes += uint64(t.Output)
	r.head.Longest = max(r.head.Longest, int(t.Output))
	r.held, r.last = append(r.held, t), received
}

// settle writes the results before which no other can arrive.
func (r *recorder) settle(now int64) error {
	if now-r.sorted < maxAge || len(r.held) == 0 {
		return nil
	}
	r.sorted = now
	return r.write(now - maxAge)
}

// write writes the results that were executed before a time.
func (r *recorder) write(before int64) error {
	slices.SortFunc(r.held, func(a, b taken) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.order, b.order)) })
	n := 0
	for ; n < len(r.held) && r.held[n].at < before; n++ {
		t := &r.held[n]
		if !r.begun {
			r.begun, r.begin = true, t.at
		}
		if t.at-r.begin > int64(stream.MaxLength/time.Millisecond) {
			return model.Errorf(model.Invalid, "more than 49 days, the longest that a stream can be").WithHint("--since and --until, or --for, name a part of it")
		}
		t.At = uint32(t.at - r.begin)
		if err := r.out.Add(&t.Signal); err != nil {
			return err
		}
	}
	r.held = append(r.held[:0], r.held[n:]...)
	return nil
}

// end writes the rest, and completes the head.
func (r *recorder) end() (*stream.Head, error) {
	if r.head.Signals == 0 {
		return nil, model.Errorf(model.Invalid, "no result is recorded in that time").WithHint("leave --since and --until out for all that the journal holds, or listen to the server that runs: --for 10m")
	}
	last := r.last
	for i := range r.held {
		last = max(last, r.held[i].at)
	}
	if err := r.write(last + 1); err != nil {
		return nil, err
	}
	h := &r.head
	h.Began, h.Length = time.UnixMilli(r.begin).UTC().Truncate(time.Second), time.Duration(last-r.begin+1)*time.Millisecond
	for i, gaps := range r.gaps {
		h.Checks[i].Interval = interval(gaps)
	}
	return h, nil
}

// interval returns the median of gaps, in whole seconds, at least one; zero without gaps.
func interval(gaps []int64) time.Duration {
	if len(gaps) == 0 {
		return 0
	}
	slices.Sort(gaps)
	return max(time.Second, (time.Duration(gaps[len(gaps)/2]) * time.Millisecond).Round(time.Second))
}
