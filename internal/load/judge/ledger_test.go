package judge

import (
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// numbers returns the digest of the results with these numbers in stream 7.
func numbers(list ...uint64) (o model.ResultDigest) {
	for _, n := range list {
		o = o.Append(7, n)
	}
	return o
}

// loader returns the log of a loader with one agent: node web, which had 4, 5 and 9 of check disk acknowledged, and one
// keepalive.
func loader(change ...func(l *observe.Ledgers)) observe.Ledgers {
	l := observe.Ledgers{Sets: []observe.Set{{Checks: []observe.Check{{ID: 10, Name: "disk"}}}},
		Agents: []observe.Ledger{{Name: "web", Node: 3, Stream: 7, Sent: 4, Acked: 4, States: observe.Entries{{Results: 3, Number: 9, Digest: 6, Order: numbers(4, 5, 9)}}}}}
	for _, do := range change {
		do(&l)
	}
	return l
}

// held returns the event state of a server that stored all results.
func held(change ...func(s *observe.EventState)) *observe.EventState {
	s := &observe.EventState{Node: 3, Check: 10, Results: 3, Stream: 7, Number: 9, Digest: 6, Order: numbers(4, 5, 9)}
	for _, do := range change {
		do(s)
	}
	return s
}

// compare compares the ledgers of loaders with the event state of a server, and with one from before the run; nil: there is none.
func compare(t *testing.T, before, state *observe.EventState, loaders ...observe.Ledgers) *report.Balance {
	t.Helper()
	var old observe.States
	if before != nil {
		old.Add(*before)
	}
	c, err := Compare(loaders, old)
	testenv.NoError(t, err)
	c.State(observe.EventState{Node: 3, Check: 1, Results: 99}) // a keepalive, which no ledger has
	if state != nil {
		c.State(*state)
	}
	return c.Balance()
}

// TestLedger compares the ledger of a loader with servers that lie and with correct ones, and expects the kind of imbalance with the
// node and the number, or the reason why the order is unknown.
func TestLedger(t *testing.T) {
	type log = func(l *observe.Ledgers)
	breach := func(kind string) log {
		return func(l *observe.Ledgers) {
			l.Breaches.Add(observe.Breach{Kind: kind, Node: 3, Name: "web", Number: 8, Problem: kind})
		}
	}
	refused := func(unheard uint16) log {
		return func(l *observe.Ledgers) {
			l.Agents = append(l.Agents, observe.Ledger{Name: "db", Node: 4, Sent: 1, Refused: 1, States: observe.Entries{{Refused: 1}}})
			l.Agents[0].States[0].Unheard = unheard
		}
	}
	open := func(l *observe.Ledgers) {
		l.Agents[0].Sent, l.Agents[0].Stopped, l.Agents[0].Open = 5, true, map[int16]uint64{0: 1}
	}
	has := func(results uint64, list ...uint64) *observe.EventState { // with these numbers; none: it tells no order
		return held(func(s *observe.EventState) { s.Results, s.Order = results, numbers(list...) })
	}
	for name, c := range map[string]struct {
		log           log
		before, state *observe.EventState
		want          string // kind of imbalance; empty: none
		why           string // the order is unknown
		unsure        uint64
	}{
		"acknowledges before it commits, and is killed":                 {breach(observe.TakenBack), nil, held(), observe.TakenBack, "", 0},
		"acknowledges numbers that were never sent":                     {breach(observe.NeverSent), nil, held(), observe.NeverSent, "", 0},
		"refuses what it acknowledged":                                  {breach(observe.RefusedLate), nil, held(), observe.RefusedLate, "", 0},
		"drops one result":                                              {nil, nil, has(2, 4, 9), ResultsLost, "", 0},
		"drops all results of a state":                                  {nil, nil, nil, ResultsLost, "", 0},
		"lost results from before the run":                              {nil, has(5), held(), ResultsLost, "", 0},
		"applies one result twice":                                      {nil, nil, has(4, 4, 5, 5, 9), Overdone, "", 0},
		"keeps another output":                                          {nil, nil, held(func(s *observe.EventState) { s.Digest = 5 }), Garbled, "", 0},
		"names another last number":                                     {nil, nil, held(func(s *observe.EventState) { s.Number = 5 }), Misnumbered, "", 0},
		"names another stream":                                          {nil, nil, held(func(s *observe.EventState) { s.Stream = 8 }), Misnumbered, "", 0},
		"applies two results in the wrong order":                        {nil, nil, has(3, 5, 4, 9), Reordered, "", 0},
		"applies two in the wrong order, and the deadline judged since": {nil, nil, held(func(s *observe.EventState) { s.Order, s.Expired = numbers(5, 4, 9), true }), Reordered, "", 0},
		"drops one result and applies another of the same state twice":  {nil, nil, has(3, 4, 4, 9), Reordered, "", 0},
		"turns results round behind those from before the run":          {nil, has(2, 1, 2), has(5, 1, 2, 5, 4, 9), Reordered, "", 0},
		"is correct": {nil, nil, held(), "", "", 0},
		"is correct, with results from before the run": {nil, has(2, 1, 2), has(5, 1, 2, 4, 5, 9), "", "", 0},
		"is correct, and the deadline judged since":    {nil, nil, held(func(s *observe.EventState) { s.Expired, s.Number, s.Digest = true, 0, 1 }), "", "", 0},
		"tells no order": {nil, nil, has(3), "", orderUntold, 0},
		"tells no order of results from before the run": {nil, has(2), has(5, 4, 5, 9), "", orderUntold, 0},
		"does not answer for one result":                {open, nil, held(func(s *observe.EventState) { s.Results, s.Number = 4, 11 }), "", orderOpen, 0},
		"may have refused one result":                   {refused(1), nil, has(2, 4, 9), "", orderUnsure, 1},
		"may have refused all results":                  {refused(3), nil, nil, "", "", 3},
		"gave an agent no assignment":                   {func(l *observe.Ledgers) { l.Agents = append(l.Agents, observe.Ledger{Node: 5, Set: -1}) }, nil, held(), "", "", 0},
	} {
		log := loader()
		if c.log != nil {
			c.log(&log)
		}
		b := compare(t, c.before, c.state, log)
		if b.OK() != (c.want == "") || c.want != "" && (b.Kinds[c.want] != 1 || b.Imbalances != 1 || b.Examples[0].Name != "web" || b.Examples[0].Number == 0) || b.Unsure != c.unsure {
			t.Errorf("the server %s: %+v", name, b)
		}
		if text := strings.Join(b.Sentences(), "; "); c.want != "" && (!strings.Contains(text, c.want) || !strings.Contains(text, "node web (3)")) {
			t.Errorf("the server %s: %q", name, text)
		}
		if why := b.OrderNotCompared(); (why != "") != (c.why != "") || !strings.Contains(why, c.why) {
			t.Errorf("the server %s: the order is unknown because %q", name, why)
		}
	}
	silent := loader(func(l *observe.Ledgers) { l.Agents[0].Sent++ })
	if b := compare(t, nil, held(), silent); b.OK() || b.Missing != 1 {
		t.Errorf("the server never answers for one result of a machine that lives: %+v", b)
	}
	other := loader(breach(observe.TakenBack), func(l *observe.Ledgers) {
		l.Sets[0].Checks[0] = observe.Check{ID: 11, Name: "load"}
		l.Agents[0].Node, l.Agents[0].Name = 4, "db"
	})
	b := compare(t, nil, held(), loader(), other)
	if b.Sent != 8 || b.Acknowledged != 8 || b.Compared != 2 || b.Differ != 1 || b.Kinds[ResultsLost] != 1 || b.Kinds[observe.TakenBack] != 1 || b.Examples[1].Name != "db" || b.Examples[1].CheckName != "load" {
		t.Errorf("two loaders: %+v", b)
	}
}

// TestOneLostOfAMillion compares a million results with a server that lost one, and expects one imbalance of one state.
func TestOneLostOfAMillion(t *testing.T) {
	const agents, checks, results = 100, 40, 250
	order := make([]uint64, results)
	for i := range order {
		order[i] = uint64(i + 1)
	}
	all, log := numbers(order...), observe.Ledgers{Sets: make([]observe.Set, 1)}
	for k := range checks {
		log.Sets[0].Checks = append(log.Sets[0].Checks, observe.Check{ID: 10 + model.CheckID(k), Name: "disk"})
	}
	for i := range agents {
		a := observe.Ledger{Name: "web", Node: 100 + model.NodeID(i), Stream: 7, Sent: checks * results, Acked: checks * results}
		for range checks {
			a.States = append(a.States, observe.Entry{Results: results, Number: results, Digest: 6, Order: all})
		}
		log.Agents = append(log.Agents, a)
	}
	c, err := Compare([]observe.Ledgers{log}, observe.States{})
	testenv.NoError(t, err)
	for i := range agents {
		for k := range checks {
			s := observe.EventState{Node: 100 + model.NodeID(i), Check: 10 + model.CheckID(k), Results: results, Stream: 7, Number: results, Digest: 6, Order: all}
			if i == 57 && k == 31 {
				s.Results, s.Order = results-1, numbers(order[1:]...)
			}
			c.State(s)
		}
	}
	b := c.Balance()
	if b.Sent != agents*checks*results || b.Acknowledged != b.Sent || b.Compared != agents*checks || b.Differ != 1 || b.Imbalances != 1 || b.Kinds[ResultsLost] != 1 || b.Examples[0].Node != 157 {
		t.Errorf("%+v", b)
	}
}

// TestPairs compares results about a proxy node, of which one of several may be the last, and whose order may be
// unknown.
func TestPairs(t *testing.T) {
	for name, c := range map[string]struct {
		change func(p *observe.Pair, s *observe.EventState)
		want   string // kind
		why    string // the order is unknown
	}{
		"as it should be":  {func(*observe.Pair, *observe.EventState) {}, "", ""},
		"another may be":   {func(_ *observe.Pair, s *observe.EventState) { s.Stream, s.Number, s.Digest = 8, 2, 5 }, "", ""},
		"none of them":     {func(_ *observe.Pair, s *observe.EventState) { s.Number = 4 }, Misnumbered, ""},
		"another output":   {func(_ *observe.Pair, s *observe.EventState) { s.Digest = 5 }, Garbled, ""},
		"turned round":     {func(_ *observe.Pair, s *observe.EventState) { s.Order = numbers(5, 4, 9) }, Reordered, ""},
		"at the same time": {func(p *observe.Pair, s *observe.EventState) { p.AtOnce, s.Order = true, numbers(5, 4, 9) }, "", orderAtOnce},
		"one too many":     {func(_ *observe.Pair, s *observe.EventState) { s.Results = 4 }, Overdone, ""},
		"one is open":      {func(p *observe.Pair, s *observe.EventState) { p.Open, s.Results = 1, 4 }, "", orderOpen},
		"lost":             {func(_ *observe.Pair, s *observe.EventState) { s.Results = 2 }, ResultsLost, ""},
		"not there":        {func(_ *observe.Pair, s *observe.EventState) { s.Node = 99 }, ResultsLost, ""},
		"refused ones":     {func(p *observe.Pair, s *observe.EventState) { p.Entry.Refused, p.Entry.Unheard, s.Results = 1, 1, 2 }, "", orderUnsure},
	} {
		l := observe.Ledgers{Pairs: []observe.Pair{{Node: 3, Name: "switch", Check: observe.Check{ID: 10, Name: "ping"}, Entry: observe.Entry{Results: 3, Order: numbers(4, 5, 9)},
			Last: []observe.Final{{Stream: 8, Number: 2, Digest: 5}, {Stream: 7, Number: 9, Digest: 6}}}}}
		s := held()
		c.change(&l.Pairs[0], s)
		b := compare(t, nil, s, l)
		if b.OK() != (c.want == "") || c.want != "" && (b.Kinds[c.want] != 1 || b.Examples[0].Name != "switch" || b.Examples[0].Number != 9) {
			t.Errorf("%s: %+v", name, b)
		}
		if why := b.OrderNotCompared(); (why != "") != (c.why != "") || !strings.Contains(why, c.why) {
			t.Errorf("%s: the order is unknown because %q", name, why)
		}
	}
}

// TestSilence judges keepalive problems of machines: web has a session all the time, away none from second 100 to 200,
// gone none since 300; the loader sends nothing of web from 400 to 460. All sent signs of life from second 12 on.
func TestSilence(t *testing.T) {
	sec := func(n int64) int64 { return n * int64(time.Second) }
	loaders := []observe.Ledgers{
		{Agents: []observe.Ledger{{Name: "web" + observe.RenamedEnd, Stays: []observe.Stay{{From: -5, To: observe.Lasts}}, Quiet: []observe.Stay{{From: sec(400), To: sec(460)}}}}},
		{Agents: []observe.Ledger{{Name: "away", Stays: []observe.Stay{{From: -5, To: sec(100)}, {From: sec(200), To: observe.Lasts}}}, {Name: "gone", Stays: []observe.Stay{{From: -5, To: sec(300)}}}}},
	}
	at := func(second int64, node string) observe.Problem {
		return observe.Problem{ID: node, Node: node, At: sec(second)}
	}
	for name, c := range map[string]struct {
		problems     []observe.Problem
		extra, quiet int
	}{
		"none":                                 {nil, 0, 0},
		"with a session":                       {[]observe.Problem{at(50, "web")}, 1, 0},
		"by another name":                      {[]observe.Problem{at(50, "web"+observe.RenamedEnd)}, 1, 0},
		"one, told by history and by the view": {[]observe.Problem{at(590, "web"), at(590, "web")}, 1, 0},
		"two":                                  {[]observe.Problem{at(60, "away"), at(50, "web")}, 2, 0},
		"before it went":                       {[]observe.Problem{at(99, "away")}, 1, 0},
		"after it came":                        {[]observe.Problem{at(210, "away")}, 1, 0},
		"while it was away":                    {[]observe.Problem{at(150, "away")}, 0, 0},
		"when it came":                         {[]observe.Problem{at(203, "away")}, 0, 0},
		"a machine that is gone":               {[]observe.Problem{at(320, "gone")}, 0, 0},
		"before all sent signs of life":        {[]observe.Problem{at(12, "web")}, 0, 0},
		"the loader sent nothing of it":        {[]observe.Problem{at(450, "web")}, 0, 1},
		"the loader sent again":                {[]observe.Problem{at(470, "web")}, 1, 0},
		"a machine of somebody else":           {[]observe.Problem{at(50, "other")}, 0, 0},
	} {
		if s := Silence(loaders, c.problems, sec(12)); s.Machines != 3 || s.Extra != c.extra || s.Quiet != c.quiet || (s.Example != "") != (c.extra > 0) {
			t.Errorf("%s: %+v", name, s)
		}
	}
}
