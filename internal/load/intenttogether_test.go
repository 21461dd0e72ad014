package load

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/model"
)

// reforming is one loader's run of the towns, whose intent changes.
func reforming(t *testing.T, p Part) *run {
	t.Helper()
	sc := towns(scenario.Phase{Steady: sec(60)})
	sc.Intent = []scenario.Change{{At: sec(1), Every: sec(2), Create: 2, Change: 1, Delete: 1, Kind: "check"}, {At: sec(3), Every: sec(4), Change: 1, Kind: "group", Class: sc.Agents[0].Name}}
	cfg, err := Config{Server: "127.0.0.1:1", Scenario: sc, Part: p, follows: true}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	r, err := newRun(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r.follow(forever(0, int64(time.Hour)))
	for _, a := range r.agents {
		a.session = silent{}
	}
	return r
}

// holding is an assignment with all that exists of both entries now.
func (f *reform) holding() *link.Assignment {
	h := &link.Assignment{}
	for _, x := range f.held {
		for _, name := range x.pool {
			if interval := f.interval(x, name); interval > 0 {
				h.Definitions = append(h.Definitions, (&model.CheckDefinition{Definition: model.Definition{Name: name}, Interval: interval}).Seal())
			}
		}
	}
	return h
}

// Each change takes as long as its last agent does, whoever plays it: what several loaders timed
// apart is, merged over the wire, what one would have timed, bucket by bucket.
func TestHoldsOfPartsMergeToTheWhole(t *testing.T) {
	const turns = 40
	members := reforming(t, Part{}).cfg.Members
	away := slices.IndexFunc(members, func(m simulated.Member) bool { return m.Class == 0 })
	never := slices.IndexFunc(members, func(m simulated.Member) bool { return m.Class != 0 })
	takes := func(member, turn int) int64 { // ns after the answer; some are before it
		return int64(rand.New(rand.NewPCG(uint64(member), uint64(turn))).ExpFloat64()*3e8) - 1e8
	}
	// played has one loader's agents hold each change at their times, but for one of no
	// concern to the last, that never holds the one before it, and one that is away during the last.
	played := func(p Part) *run {
		r := reforming(t, p)
		for turn := range turns {
			entry, opened := turn%2, time.Duration(1+turn)*time.Second
			if err := r.ordered(Order{Entry: entry}, r.epoch.Add(opened)); err != nil {
				t.Fatal(err)
			}
			answered, held := int64(opened)+2e8, r.reform.holding()
			hold := func(late bool) {
				for member, a := range r.seats {
					at := answered + takes(member, turn)
					if a == nil || (at > answered) != late || member == never && turn >= turns-2 || member == away && turn == turns-1 {
						continue
					}
					r.reform.assigned(a, held, at)
				}
			}
			hold(false)
			if err := r.ordered(Order{Entry: entry, Answered: true}, r.epoch.Add(time.Duration(answered))); err != nil {
				t.Fatal(err)
			}
			hold(true)
		}
		if a := r.seats[away]; a != nil {
			a.session = nil
		}
		if err := r.ordered(Order{Over: true}, r.epoch); err != nil {
			t.Fatal(err)
		}
		r.awaitOrders(shortly(t))
		return r
	}
	whole := played(Part{})
	want := whole.reform.sums()
	if x := whole.reform.held[0]; x.lasts[turns/2-1] != -1 || x.lasts[0] < 3e8 || want[0].Never != 1 || want[1].Never != 0 || want[0].All.Max < want[0].Holds.P99 || want[1].All.Max != want[1].Holds.Max {
		t.Fatalf("%+v, %v", want, x.lasts)
	}
	for _, n := range []int{2, 3, 5} {
		lead := played(Part{Of: n})
		for i := 1; i < n; i++ {
			m := &Measured{}
			played(Part{Number: i, Of: n}).handOverHolds(m)
			text, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			var arrived Measured
			if err := json.Unmarshal(text, &arrived); err != nil {
				t.Fatal(err)
			}
			if err := lead.mergeHolds(&arrived); err != nil {
				t.Fatal(err)
			}
		}
		if got := lead.reform.sums(); !slices.Equal(got, want) {
			t.Errorf("%d loaders:\n%+v\n%+v", n, got, want)
		}
		for i, x := range lead.reform.held {
			one := whole.reform.held[i]
			if !x.took.Equals(one.took) || !slices.Equal(x.lasts, one.lasts) {
				t.Errorf("%d loaders: entry %d: %v, want %v", n, i, x.lasts, one.lasts)
			}
		}
		if got := lead.beside.took[besideKey{holdsFigure, 0}]; !got.Equals(whole.beside.took[besideKey{holdsFigure, 0}]) {
			t.Errorf("%d loaders: the phase has other figures", n)
		}
	}
}

// Who holds a change before its loader heard of it, holds it since it does; what came before it
// was asked for is not it.
func TestAnOrderThatIsHeardLate(t *testing.T) {
	r := reforming(t, Part{Number: 1, Of: 2})
	x, a, b := r.reform.held[1], r.agents[0], r.agents[1]
	x.other[x.pool[0]] = true // as it will be
	as := r.reform.holding()
	x.other[x.pool[0]] = false
	a.keep(as, nil, 900)
	b.keep(as, nil, 1_500_000)
	if err := r.ordered(Order{Entry: 1}, r.epoch.Add(1000)); err != nil {
		t.Fatal(err)
	}
	if err := r.ordered(Order{Entry: 1, Answered: true}, r.epoch.Add(500_000)); err != nil {
		t.Fatal(err)
	}
	o := r.reform.orders[0]
	if _, waits := o.waiting[a]; !waits || x.took.TotalCount() != 1 || x.took.Max() != 1000 {
		t.Errorf("waits: %t, %d of 1, at most %d µs", waits, x.took.TotalCount(), x.took.Max())
	}
}

// What a lead cannot mean is refused.
func TestOrdersThatDoNotFit(t *testing.T) {
	for name, orders := range map[string][]Order{
		"of no entry":     {{Entry: 2}},
		"before all":      {{Entry: -1}},
		"not asked":       {{Entry: 1, Answered: true}},
		"another's":       {{Entry: 0}, {Entry: 1, Answered: true}},
		"answered twice":  {{Entry: 0}, {Entry: 0, Answered: true}, {Entry: 0, Answered: true}},
		"after the last":  {{Over: true}, {Entry: 0}},
		"over once again": {{Over: true}, {Over: true}},
	} {
		r, last := reforming(t, Part{Number: 1, Of: 2}), len(orders)-1
		for i, o := range orders {
			if err := r.ordered(o, r.epoch.Add(1)); (err != nil) != (i == last) {
				t.Errorf("%s: order %d: %v", name, i, err)
			}
		}
	}
	lead := reforming(t, Part{Of: 2})
	for name, m := range map[string]*Measured{
		"no entry":         {},
		"one too few":      {Reformed: make([]Reformed, 1)},
		"another number":   {Reformed: []Reformed{{Lasts: []int64{1}}, {}}},
		"no histogram":     {Reformed: []Reformed{{Took: []byte{255}}, {}}},
		"not a part of it": {Reformed: make([]Reformed, 2), Holds: map[int][]byte{0: {255}}},
	} {
		if err := lead.mergeHolds(m); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

// shortly has ended: nobody is given time.
func shortly(t *testing.T) context.Context {
	ctx, end := context.WithCancel(t.Context())
	end()
	return ctx
}
