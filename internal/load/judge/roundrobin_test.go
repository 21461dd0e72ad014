package judge

import (
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/testenv"
)

// inTurn returns a minute of a check every 10 s, from second 2 on, with this many runs in each interval, and two
// agents.
func inTurn(runs ...byte) (*observe.RoundRobin, []observe.Ledgers) {
	r := observe.Round{Name: "ping about switch", Interval: sec(10), Patience: sec(7), First: sec(2), Stuck: map[int]observe.Stuck{}}
	for _, n := range runs {
		if n > 0 {
			n |= observe.Given
		}
		r.Marks = append(r.Marks, n)
	}
	always := []observe.Stay{{From: sec(-5), To: observe.Lasts}}
	return &observe.RoundRobin{End: sec(60), Rounds: []observe.Round{r}}, []observe.Ledgers{{Sets: []observe.Set{{}}, Agents: []observe.Ledger{{Member: 0, Name: "a", Stays: always}, {Member: 1, Name: "b", Stays: always}}}}
}

// TestIntervalsWithoutARun expects a run in each interval, or a reason for its absence.
func TestIntervalsWithoutARun(t *testing.T) {
	for name, c := range map[string]struct {
		runs   []byte
		change func(x *observe.RoundRobin, agents []observe.Ledger)
		want   report.Turned
	}{
		"all have one":               {[]byte{1, 1, 1, 1, 1, 1}, nil, report.Turned{Due: 6, Ran: 6}},
		"one has two":                {[]byte{1, 2, 1, 1, 1, 1}, nil, report.Turned{Due: 6, Ran: 6, Again: 1}},
		"one has none":               {[]byte{1, 0, 1, 1, 1, 1}, nil, report.Turned{Due: 6, Ran: 5, Missed: 1}},
		"the last ones have none":    {[]byte{1}, nil, report.Turned{Due: 6, Ran: 1, Missed: 5}},
		"not measured from second 2": {[]byte{0, 1, 1, 1, 1, 1}, func(x *observe.RoundRobin, _ []observe.Ledger) { x.From = sec(3) }, report.Turned{Due: 5, Ran: 5}},
		"given, and its agent died": {[]byte{1, 1, 1, 1, 1, 1}, func(x *observe.RoundRobin, _ []observe.Ledger) {
			x.Rounds[0].Marks[2] = observe.Given
			x.Rounds[0].Patience = sec(9.5)
		}, report.Turned{Due: 6, Ran: 5, Passed: 1}},
		"given to struck ones until it was over": {[]byte{1, 0, 1, 1, 1, 1}, func(x *observe.RoundRobin, _ []observe.Ledger) {
			x.Rounds[0].Stuck[1] = observe.Stuck{Since: sec(12), Times: 2}
		}, report.Turned{Due: 6, Ran: 5, Passed: 1}},
		"given to one struck, and nobody took over in time": {[]byte{1, 0, 1, 1, 1, 1}, func(x *observe.RoundRobin, _ []observe.Ledger) {
			x.Rounds[0].Stuck[1] = observe.Stuck{Since: sec(12), Times: 1}
		}, report.Turned{Due: 6, Ran: 5, Missed: 1}},
		"the server was away": {[]byte{1, 0, 1, 1, 1, 1}, func(x *observe.RoundRobin, _ []observe.Ledger) { x.Away = []observe.Stay{{From: sec(5), To: sec(6)}} }, report.Turned{Due: 6, Ran: 5, Unjudged: 1}},
		"all agents were away": {[]byte{1, 0, 1, 1, 1, 1}, func(_ *observe.RoundRobin, agents []observe.Ledger) {
			agents[0].Stays, agents[1].Stays = nil, []observe.Stay{{From: sec(15), To: observe.Lasts}}
		}, report.Turned{Due: 6, Ran: 5, Unjudged: 1}},
		"one agent was there":       {[]byte{1, 0, 1, 1, 1, 1}, func(_ *observe.RoundRobin, agents []observe.Ledger) { agents[0].Stays = nil }, report.Turned{Due: 6, Ran: 5, Missed: 1}},
		"an agent of another class": {[]byte{1, 0, 1, 1, 1, 1}, func(x *observe.RoundRobin, _ []observe.Ledger) { x.Rounds[0].Class = 1 }, report.Turned{Due: 6, Ran: 5, Unjudged: 1}},
		"just before the end":       {[]byte{1, 1, 1, 1, 1, 1}, func(x *observe.RoundRobin, _ []observe.Ledger) { x.End = sec(62.5) }, report.Turned{Due: 7, Ran: 6, Unjudged: 1}},
	} {
		x, loaders := inTurn(c.runs...)
		if c.change != nil {
			c.change(x, loaders[0].Agents)
		}
		got, err := RoundRobin(x, loaders)
		testenv.NoError(t, err)
		if (got.Example != "") != (c.want.Missed > 0) || c.want.Missed > 0 && !strings.HasPrefix(got.Example, "ping about switch, at 1") {
			t.Errorf("%s: example %q", name, got.Example)
		}
		if got.Example = ""; *got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// TestRunsGivenAgain gives a run to a second agent, and expects a fault if the first one had its session all the time.
func TestRunsGivenAgain(t *testing.T) {
	for name, c := range map[string]struct {
		by           int
		stays        []observe.Stay
		twice, taken uint64
	}{
		"with a session":     {1, []observe.Stay{{From: 0, To: observe.Lasts}}, 1, 0},
		"to the same one":    {0, []observe.Stay{{From: 0, To: observe.Lasts}}, 1, 0},
		"its session ended":  {1, []observe.Stay{{From: 0, To: sec(12.5)}}, 0, 1},
		"it had just come":   {1, []observe.Stay{{From: sec(11), To: observe.Lasts}}, 0, 1},
		"the same one again": {0, []observe.Stay{{From: sec(11), To: observe.Lasts}}, 0, 0},
	} {
		x, loaders := inTurn(1, 1, 1, 1, 1, 1)
		loaders[0].Agents[0].Stays = c.stays
		x.Rounds[0].Again = []observe.Again{{First: 0, By: c.by, Since: sec(12), Before: sec(12), At: sec(13)}}
		got, err := RoundRobin(x, loaders)
		if err != nil || got.Twice != c.twice || got.Taken != c.taken || c.taken > 0 && (got.Took.Max < 990 || got.Took.Max > 1010) || (got.Second != "") != (c.twice > 0) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		rep := &report.Report{Balance: &report.Balance{}, Course: report.Course{Turns: got}}
		if rep.Wrong().Of(report.WrongTurns) != c.twice {
			t.Errorf("%s: %v", name, rep.Wrong())
		}
	}
	x, loaders := inTurn()
	x.Rounds[0].Again = []observe.Again{{First: -1, By: 7}}
	if _, err := RoundRobin(x, loaders); err == nil {
		t.Error("a run of nobody is judged")
	}
}
