package load

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"time"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/usage"
	"github.com/muster-fleet/muster/internal/model"
)

// A loader that leads others asks all for what they counted and adds it to its own: tallies
// add bucket by bucket, and the agents' ledgers stand beside its own agents' when they are
// compared with the view. Alone, all of this is nothing.

// connectOthers has the agents of the others connect, once all would play the same.
func (r *run) connectOthers(ctx context.Context, plan string) error {
	if r.cfg.Others == nil {
		return nil
	}
	r.joined = r.cfg.Others.Loaders()
	return r.cfg.Others.Connect(ctx, plan)
}

// awaitOthers waits until their agents hold their checks.
func (r *run) awaitOthers(ctx context.Context, rep *reporting) (err error) {
	if r.cfg.Others == nil {
		return nil
	}
	if r.arrived, err = r.cfg.Others.Ready(ctx); err != nil {
		return err
	}
	for _, a := range r.arrived {
		rep.ConnectSeconds, rep.ReadySeconds = max(rep.ConnectSeconds, a.Connect), max(rep.ReadySeconds, a.Ready)
	}
	return nil
}

// beginning is when the timetable begins: soon, and known to all by then.
func (r *run) beginning() int64 {
	if r.cfg.Others == nil {
		return r.now() + int64(100*time.Millisecond)
	}
	return int64(r.cfg.Others.Begin().Sub(r.epoch))
}

// awaitMeasured takes what the others measured.
func (r *run) awaitMeasured(ctx context.Context) (err error) {
	if r.cfg.Others == nil {
		return nil
	}
	if r.measured, err = r.cfg.Others.Finish(ctx); err != nil {
		return err
	}
	for i, m := range r.measured {
		agents, err := r.ledgersOf(r.joined[i].Number, m)
		if err != nil {
			return fmt.Errorf("loader %d (%s): %w", r.joined[i].Number+1, r.joined[i].Name, err)
		}
		r.theirs = append(r.theirs, agents...)
		r.breaches.merge(&m.Breaches)
		r.slowed.Add(m.Slowed)
		r.wrong.Add(m.Wrong)
	}
	return nil
}

// stretches are what the others did in a part of the plan; nil entries are not known yet.
func (r *run) stretches(part int) []*Stretch {
	switch {
	case r.cfg.Others == nil:
		return nil
	case r.measured == nil:
		return r.cfg.Others.Stretch(part)
	}
	list := make([]*Stretch, len(r.measured))
	for i, m := range r.measured {
		if part < len(m.Stretches) {
			list[i] = &m.Stretches[part]
		}
	}
	return list
}

// usedElsewhere is what the others used in a part of the plan, so far as it is known.
func (r *run) usedElsewhere(part int) (list []usage.Other) {
	for i, s := range r.stretches(part) {
		if s != nil {
			list = append(list, usage.Other{Here: r.joined[i].Here, CPU: s.CPU, RSS: s.RSS})
		}
	}
	return list
}

// shareOf is how many agents one of the others has.
func (r *run) shareOf(i int) int {
	return Part{Number: r.joined[i].Number, Of: r.cfg.Part.Of}.share(len(r.cfg.Members))
}

// presence sums up who of the others' agents is there; acknowledged is what was so after an
// instant.
func (r *run) presence(since int64) (sum Presence) {
	if r.cfg.Others == nil {
		return sum
	}
	for _, p := range r.cfg.Others.Present() {
		sum.Connected += p.Connected
		sum.Lost += p.Lost
		sum.Most += p.Most
		sum.Away = sum.Away || p.Away
		if at := r.begin.Load() + p.Acked; p.Acked > 0 && at > since && (sum.Acked == 0 || at < sum.Acked) {
			sum.Acked = at
		}
	}
	return sum
}

// ledgersOf makes agents of what a loader handed over: they have ledgers, and nothing else.
func (r *run) ledgersOf(number int, m *Measured) ([]*agent, error) {
	part := Part{Number: number, Of: r.cfg.Part.Of}
	sets := make([]*checkSet, len(m.Sets))
	for i, s := range m.Sets {
		if s.Class < 0 || s.Class >= len(r.classes) || len(s.Checks) != len(r.classes[s.Class].checks) {
			return nil, model.Errorf(model.Invalid, "an assignment of %d checks for class %d", len(s.Checks), s.Class)
		}
		sets[i] = &checkSet{definitions: make([]*model.CheckDefinition, len(s.Checks))}
		for name, c := range r.classes[s.Class].index {
			sets[i].definitions[c] = &model.CheckDefinition{Definition: model.Definition{Unit: s.Checks[c], Name: name}}
		}
	}
	if want := part.share(len(r.cfg.Members)); len(m.Ledgers) != want {
		return nil, model.Errorf(model.Invalid, "%d ledgers of %d agents", len(m.Ledgers), want)
	}
	seen, begin := make(map[int]bool, len(m.Ledgers)), r.begin.Load()
	list := make([]*agent, len(m.Ledgers))
	for i := range m.Ledgers {
		x := &m.Ledgers[i]
		if x.Member < 0 || x.Member >= len(r.cfg.Members) || !part.owns(x.Member) || seen[x.Member] || x.Set < 0 || x.Set >= len(sets) ||
			m.Sets[x.Set].Class != r.cfg.Members[x.Member].Class {
			return nil, model.Errorf(model.Invalid, "a ledger of machine %d, which is not its own", x.Member)
		}
		seen[x.Member] = true
		states, err := decodeEntries(x.States, len(sets[x.Set].definitions))
		if err != nil {
			return nil, err
		}
		staysOf := func(list [][2]int64) (out []stay) {
			for _, s := range list {
				out = append(out, stay{begin + s[0], begin + s[1]})
			}
			return out
		}
		here := int64(0)
		if x.Here != 0 {
			here = max(1, begin+x.Here)
		}
		list[i] = &agent{here: here, stays: staysOf(x.Stays), quiet: staysOf(x.Quiet), run: r, class: r.classes[m.Sets[x.Set].Class], name: x.Name, node: x.Node, stream: x.Stream, set: sets[x.Set],
			ledger: ledger{sent: x.Sent, acked: x.Acked, refused: x.Refused, gone: x.Gone, open: x.Open, states: states}}
	}
	return list, nil
}

// entrySize is what one state takes on its way.
const entrySize = 20

func appendEntries(dst []byte, states []entry) []byte {
	for _, e := range states {
		dst = binary.BigEndian.AppendUint32(dst, e.results)
		dst = binary.BigEndian.AppendUint32(dst, e.number)
		dst = binary.BigEndian.AppendUint32(dst, e.digest)
		dst = binary.BigEndian.AppendUint32(dst, uint32(e.order))
		dst = binary.BigEndian.AppendUint16(dst, e.unheard)
		dst = binary.BigEndian.AppendUint16(dst, e.refused)
	}
	return dst
}

func decodeEntries(data []byte, n int) ([]entry, error) {
	if len(data) != n*entrySize {
		return nil, model.Errorf(model.Invalid, "a ledger of %d bytes for %d states", len(data), n)
	}
	states := make([]entry, n)
	for i := range states {
		b := data[i*entrySize:]
		states[i] = entry{binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:]),
			model.ResultDigest(binary.BigEndian.Uint32(b[12:])), binary.BigEndian.Uint16(b[16:]), binary.BigEndian.Uint16(b[18:])}
	}
	return states, nil
}

// merge adds what the server said to another loader's agents and should not have said.
func (l *breaches) merge(o *report.Balance) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b.Imbalances += o.Imbalances
	if l.b.Kinds == nil {
		l.b.Kinds = map[string]uint64{}
	}
	addTo(l.b.Kinds, o.Kinds)
	for _, x := range o.Examples {
		if len(l.b.Examples) < report.MostExamples {
			l.b.Examples = append(l.b.Examples, x)
		}
	}
}

func addTo(sum, more map[string]uint64) {
	for k, n := range more {
		sum[k] += n
	}
}

// told are why connections could not be opened and why sessions ended, of all loaders, and who of
// them ended late.
func (r *run) told(rep *reporting) {
	rep.Failures, rep.Losses = r.causes()
	for i, m := range r.measured {
		addTo(rep.Failures, m.Failures)
		addTo(rep.Losses, m.Losses)
		if m.Late > 0 {
			rep.Label = append(rep.Label, fmt.Sprintf("loader %d (%s) heard %.1f s late that the timetable ends: what it sent meanwhile is compared, and not measured",
				r.joined[i].Number+1, r.joined[i].Name, time.Duration(m.Late).Seconds()))
		}
	}
}

// causes are those that this loader knows of. Its agents live on while a report is made: the maps
// are copies.
func (r *run) causes() (failures, losses map[string]uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.failures), maps.Clone(r.losses)
}

// hostname is how this machine calls itself.
func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return "this machine"
	}
	return name
}
