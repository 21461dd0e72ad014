package play

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"

	"github.com/muster-fleet/muster/internal/load/plan"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/model"
)

// PlanDigest returns a hash of the plan of all loaders together: the machines and their names, when each check runs, the
// first statuses and outputs, the agents that each fault strikes, the first churn, and the speed of virtual time. It is
// in run.json, where it shows whether two versions of this program play the same plan.
func (f *Fleet) PlanDigest() (string, error) {
	h := sha256.New()
	base := uint64(0)
	for member, m := range f.cfg.Members {
		class := f.classes[m.Class]
		fmt.Fprintf(h, "%s %s\n", m.Name, m.UID)
		for c, k := range class.checks[:class.own] {
			seq := f.sequence(base+uint64(c), 0)
			status := k.says.Status(m.Number, c, nil, seq, 0, true)
			numbers(h, uint64(f.offset(class, m.Number, c)*float64(k.interval)), uint64(k.interval), uint64(status))
		}
		for c := class.own; c < len(class.checks); c++ {
			k := &class.checks[c]
			for i := range k.places() {
				numbers(h, uint64(f.offsetAbout(class, m.Number, c, i+1)*float64(k.interval)), uint64(k.interval))
			}
		}
		base += uint64(class.states)
		if x := class.source; x != nil {
			interval, offsets := x.Timetable(member)
			numbers(h, uint64(offsets[0]), uint64(len(offsets)), uint64(interval), uint64(x.Weight(member, 0)))
		}
	}
	for _, x := range simulated.Things(f.cfg.Scenario) {
		fmt.Fprintln(h, x.Name)
	}
	for _, class := range f.classes {
		for c := range class.checks {
			class.checks[c].hash(h, c)
		}
	}
	for _, c := range f.classes {
		if c.tape == nil {
			continue
		}
		for i := range c.tape.times {
			s := &c.tape.times[i]
			numbers(h, uint64(s.at), uint64(s.node)<<16|uint64(s.check), uint64(s.output)<<2|uint64(s.status))
		}
		for copy := range (c.spec.Count-1)/c.tape.nodes + 1 {
			numbers(h, uint64(c.tape.shift(copy)))
		}
	}
	for _, p := range plan.NewTimetable(f.cfg.Scenario.Phases, 0) {
		numbers(h, uint64(p.From), uint64(p.To), uint64(p.Virtual))
	}
	s, err := f.NewScript()
	if err != nil {
		return "", err
	}
	s.hashChurn(h)
	f.hashWords(h)
	for _, x := range s.strikes {
		fmt.Fprintln(h, What(&x.fault), f.checksOf(x))
		for _, m := range x.members {
			fmt.Fprintln(h, f.cfg.Members[m].Name)
		}
		for _, p := range x.pairs {
			fmt.Fprintln(h, p.Name)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:8]), nil
}

// firstComings is the number of churn events in the hash; later ones follow from the same random numbers.
const firstComings = 50

// hashChurn hashes the first events of churn.
func (s *Script) hashChurn(h hash.Hash) {
	for i, f := range s.flows() {
		f.do = func(_ context.Context, member int) {
			numbers(h, uint64(i), uint64(f.at-s.fleet.Begin()), uint64(member))
		}
		s.flow(f)
	}
	for range firstComings {
		if c, ok := s.pop(plan.Never); ok {
			c.do(context.Background())
		}
	}
}

// hashWords hashes the first output of each check on the first machine of each class.
func (f *Fleet) hashWords(h hash.Hash) {
	for _, c := range f.classes {
		for i := range c.checks[:c.own] {
			if c.tape == nil {
				_, _ = h.Write(c.checks[i].says.Output(nil, 0, i, nil, uint64(i), model.OK))
			}
		}
	}
}

// checksOf returns the checks that a fault strikes, class by class.
func (f *Fleet) checksOf(x *strike) (list []int) {
	for _, c := range f.classes {
		list = append(list, x.checks[c]...)
	}
	return list
}

// numbers hashes some numbers.
func numbers(h hash.Hash, list ...uint64) {
	for _, n := range list {
		_ = binary.Write(h, binary.LittleEndian, n)
	}
}
