package observe

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/load/plan"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/usage"
)

// Version is that of the lines of a run of checks.
const Version = 3

// Checks is a run of checks: the lines of its log, put together.
type Checks struct {
	Start      *Checked
	Score      plan.Timetable
	Steps      map[int]Step    // by part
	Ramp       []report.Sample // seconds before the timetable
	Samples    []report.Sample // seconds of the timetable, of all loaders together
	Loaders    []Loader
	Faults     []Fault
	Ready      []time.Duration // when the server said that it is ready, since the start
	Ledgers    []Ledgers       // by loader; none: the loader was killed before
	Before     States
	After      States
	Viewed     bool        // After has all event states of the server
	Silence    *Silence    // nil: there was no login
	Alerts     *Alerts     // nil: no fault brings about alerts
	RoundRobin *RoundRobin // nil: no check is run in turn
	Intent     []Intent
	State      *State    // nil: there are no values, or nobody could read them
	Runs       *Runs     // nil: there are no directives, or nobody could read them
	Heap       float64   // of the server
	Measured   *Measured // nil: the loader was killed before

	// OnSecond is called with each second that all loaders told; nil: nobody is.
	OnSecond func(*report.Sample)
	pending  map[int]*pending // seconds that some loader has not told yet
}

// pending is a second until all loaders told it.
type pending struct {
	sample report.Sample
	tally  Tally // of all parts
	told   int   // loaders
}

// Loader has what one loader saw. Loader 0 leads.
type Loader struct {
	At     time.Duration // of its last second
	Parts  []*Tally      // by part of the timetable; nil: nothing was due in it
	Edges  []usage.SoFar // use until the start of each part, and until the end of the last one
	Used   usage.SoFar   // use until its last second
	Counts Counts
}

// Part returns the tally of a part.
func (l *Loader) Part(i int) *Tally {
	if i < len(l.Parts) && l.Parts[i] != nil {
		return l.Parts[i]
	}
	return &Tally{}
}

// Use returns the use until the start and until the end of a part; of the part that a killed loader played, until its last
// second.
func (l *Loader) Use(i int) (first, last usage.SoFar, known bool) {
	if i >= len(l.Edges) {
		return first, last, false
	}
	first, last = l.Edges[i], l.Used
	if i+1 < len(l.Edges) {
		last = l.Edges[i+1]
	}
	return first, last, last.At > first.At
}

// Checked is the first line of a run of checks, when the timetable starts.
type Checked struct {
	Version int            `json:"version"`
	Report  *report.Report `json:"report"`           // as far as known; its goals are the objectives, and its loaders all those that play
	Seconds float64        `json:"seconds"`          // length of the timetable
	Opened  float64        `json:"opened"`           // seconds from the first session to the start
	Ready   usage.SoFar    `json:"ready"`            // use until all agents held their checks
	Startup report.Startup `json:"startup,omitzero"` // of a server that the run started
}

// Step is a step that broke.
type Step struct {
	Part  int      `json:"part"`
	Broke []string `json:"broke"`          // reasons
	Over  bool     `json:"over,omitempty"` // it is not played once more
}

// CheckSecond is what a loader saw since its line before.
type CheckSecond struct {
	Number  int            `json:"number"`            // from the start of the timetable; negative: of the ramp
	Sample  *report.Sample `json:"sample,omitempty"`  // nil: the second is not over, or the timetable is
	Parts   map[int]*Tally `json:"parts,omitempty"`   // by the part of the timetable in which results were due; -1: none
	Offered map[int]uint64 `json:"offered,omitempty"` // results that were intended, by second of the timetable
	Used    *usage.SoFar   `json:"used,omitempty"`
	Counts  *Counts        `json:"counts,omitempty"`
}

// Counts are sums since the start of the run.
type Counts struct {
	Resent     uint64            `json:"resent,omitempty"`     // sent again after a reconnect
	Repeated   uint64            `json:"repeated,omitempty"`   // acknowledged, and sent again on purpose
	Wrong      uint64            `json:"wrong,omitempty"`      // results that must be refused, sent …
	WrongTaken uint64            `json:"wrongTaken,omitempty"` // … and acknowledged
	Slowed     int64             `json:"slowed,omitempty"`     // times that an agent became slow
	Refusals   map[string]uint64 `json:"refusals,omitempty"`   // by code
	Failures   map[string]uint64 `json:"failures,omitempty"`   // connections that could not be opened, by cause
	Losses     map[string]uint64 `json:"losses,omitempty"`     // sessions that ended, by cause
	Late       time.Duration     `json:"late,omitempty"`       // delay of the order to end the timetable
}

// NewCounts returns counts that can be increased.
func NewCounts() Counts {
	return Counts{Refusals: map[string]uint64{}, Failures: map[string]uint64{}, Losses: map[string]uint64{}}
}

// Add adds other counts.
func (c *Counts) Add(o *Counts) {
	c.Resent += o.Resent
	c.Repeated += o.Repeated
	c.Wrong += o.Wrong
	c.WrongTaken += o.WrongTaken
	c.Slowed += o.Slowed
	for _, m := range [][2]map[string]uint64{{c.Refusals, o.Refusals}, {c.Failures, o.Failures}, {c.Losses, o.Losses}} {
		for cause, n := range m[1] {
			m[0][cause] += n
		}
	}
}

// Edge is the use of the loader, and of the server, until a part starts.
type Edge struct {
	Part int `json:"part"` // the number of parts: until the end of the last one
	usage.SoFar
}

// Fault is the start, or the end, of a fault of the scenario.
type Fault struct {
	Number int     `json:"number,omitempty"` // of the scenario's
	What   string  `json:"what"`
	Places int     `json:"places,omitempty"` // agents, or states, that it strikes
	At     float64 `json:"at"`               // seconds since the start of the timetable
	Over   bool    `json:"over,omitempty"`
	Cut    int     `json:"cut,omitempty"`    // agents whose connections it cuts at once
	Server bool    `json:"server,omitempty"` // it may end the server
	Struck []int   `json:"struck,omitempty"` // members of the fleet that get their sessions back from then on
}

// Slack is the time that a server may take beyond a deadline, and an alert to arrive, in ns: deadlines are checked every
// second.
const Slack = int64(5e9)

// Silence has the problems of keepalives on the server. Problems that opened before From are older than the signs of life
// of the run.
type Silence struct {
	From     int64     `json:"from"`
	Problems []Problem `json:"problems,omitempty"`
	Behind   float64   `json:"behind,omitempty"` // seconds of the end that the server's history lacked
	Unread   string    `json:"unread,omitempty"` // reason why they could not be read
}

// Measured is the last line of a run of checks.
type Measured struct {
	Report  *report.Report `json:"report,omitempty"` // what the loader knows beside the seconds; nil: nothing
	Drained float64        `json:"drained"`          // seconds from the start until nothing was on its way
	Senders int            `json:"senders"`
	Spool   int            `json:"spool"`             // bytes of each agent's
	Intent  string         `json:"intent,omitempty"`  // reason why intent could not be changed
	Fault   string         `json:"fault,omitempty"`   // reason why a fault could not be played
	Renames string         `json:"renames,omitempty"` // failures of renames
	Fell    string         `json:"fell,omitempty"`    // end of the server's process by itself
	Unread  string         `json:"unread,omitempty"`  // reason why the event states could not be read
}

// apply adds a line.
func (c *Checks) apply(line *Line) {
	switch {
	case line.Checked != nil:
		c.Start = line.Checked
	case line.Score != nil:
		c.Score = line.Score
	case line.Step != nil:
		if c.Steps == nil {
			c.Steps = map[int]Step{}
		}
		c.Steps[line.Step.Part] = *line.Step
	case line.Edge != nil:
		l := c.Loader(line.Loader)
		for n := line.Edge.Part; len(l.Edges) <= n && n < mostParts; {
			l.Edges = append(l.Edges, usage.SoFar{})
		}
		if n := line.Edge.Part; n >= 0 && n < len(l.Edges) {
			l.Edges[n] = line.Edge.SoFar
		}
	case line.Check != nil:
		c.second(line)
	case line.Mark == MarkReady:
		c.Ready = append(c.Ready, line.At)
	case line.Fault != nil:
		c.Faults = append(c.Faults, *line.Fault)
	case line.Kept != nil:
		c.loader(line.Loader).add(line.Kept)
	case line.View != nil:
		if v := line.View; v.Before != nil {
			c.Before = append(c.Before, v.Before)
		} else if v.After != nil {
			c.After = append(c.After, v.After)
		}
		c.Viewed = c.Viewed || line.View.Whole
	case line.Silence != nil:
		c.Silence = line.Silence
	case line.Alerts != nil:
		c.Alerts = line.Alerts
	case line.Intent != nil:
		c.Intent = append(c.Intent, *line.Intent)
	case line.RoundRobin != nil:
		c.RoundRobin = line.RoundRobin
	case line.Heap > 0:
		c.Heap = line.Heap
	case line.State != nil:
		c.State = line.State
	case line.Runs != nil:
		c.Runs = line.Runs
	case line.Measured != nil:
		c.Measured = line.Measured
	}
}

// add adds a part.
func (l *Ledgers) add(k *Kept) {
	switch {
	case k.Set != nil:
		l.Sets = append(l.Sets, *k.Set)
	case k.Ledger != nil:
		l.Agents = append(l.Agents, *k.Ledger)
	case k.Pair != nil:
		l.Pairs = append(l.Pairs, *k.Pair)
	case k.Breaches != nil:
		l.Breaches = *k.Breaches
	}
}

// Bounds of a log.
const (
	mostLoaders = 1000
	mostParts   = 100_000
	mostAhead   = 10_000 // seconds of one loader that another has not told
)

// loader returns the ledgers of a loader, and extends the list if it is new.
func (c *Checks) loader(n int) *Ledgers {
	for len(c.Ledgers) <= min(max(n, 0), mostLoaders) {
		c.Ledgers = append(c.Ledgers, Ledgers{})
	}
	return &c.Ledgers[min(max(n, 0), mostLoaders)]
}

// Loader returns what a loader saw.
func (c *Checks) Loader(n int) *Loader {
	for len(c.Loaders) <= min(max(n, 0), mostLoaders) {
		c.Loaders = append(c.Loaders, Loader{})
	}
	return &c.Loaders[min(max(n, 0), mostLoaders)]
}

// second adds a line of a loader.
func (c *Checks) second(line *Line) {
	l, s := c.Loader(line.Loader), line.Check
	l.At = max(l.At, line.At)
	if s.Used != nil {
		l.Used = *s.Used
	}
	if s.Counts != nil {
		l.Counts = *s.Counts
	}
	if s.Number < 0 {
		if s.Sample != nil {
			c.Ramp = append(c.Ramp, *s.Sample)
		}
		return
	}
	x := c.pending[s.Number]
	if x == nil && len(c.pending) < mostAhead {
		x = &pending{}
		if c.pending == nil {
			c.pending = map[int]*pending{}
		}
		c.pending[s.Number] = x
	}
	if x == nil {
		return
	}
	for i, t := range s.Parts {
		if t == nil {
			continue
		}
		for len(l.Parts) <= i && i < mostParts {
			l.Parts = append(l.Parts, nil)
		}
		if i >= 0 && i < len(l.Parts) {
			if l.Parts[i] == nil {
				l.Parts[i] = &Tally{}
			}
			l.Parts[i].Merge(t)
		}
		x.tally.Merge(t)
	}
	for n, offered := range s.Offered {
		switch {
		case n >= 0 && n < len(c.Samples):
			c.Samples[n].Offered += offered
		case c.pending[n] != nil:
			c.pending[n].sample.Offered += offered
		case n >= 0 && len(c.pending) < mostAhead:
			c.pending[n] = &pending{sample: report.Sample{Offered: offered}}
		}
	}
	if s.Sample == nil {
		return
	}
	x.add(s.Sample, line.Loader == 0, c.isHere(line.Loader))
	if x.told++; x.told == max(1, c.known()) {
		c.told(s.Number)
	}
}

// known returns the number of loaders.
func (c *Checks) known() int {
	if c.Start == nil || c.Start.Report == nil {
		return 1
	}
	return len(c.Start.Report.Loaders)
}

// isHere reports whether a loader is on the machine of the one that leads.
func (c *Checks) isHere(n int) bool { return n < c.known() && n > 0 && c.Start.Report.Loaders[n].Here }

// add adds the sample of a loader to those of others.
func (x *pending) add(s *report.Sample, leads, here bool) {
	before, sum := x.sample, &x.sample
	if leads {
		*sum = *s
		sum.OthersCPU += before.OthersCPU
	}
	if here {
		sum.OthersCPU -= s.LoaderCPU
	}
	sum.Failed, sum.Offered, sum.Connected = before.Failed+s.Failed, before.Offered, before.Connected+s.Connected
	sum.LoaderCPU, sum.LoaderRSS = before.LoaderCPU+s.LoaderCPU, before.LoaderRSS+s.LoaderRSS
}

// told ends a second.
func (c *Checks) told(number int) {
	x := c.pending[number]
	delete(c.pending, number)
	s := &x.sample
	s.OthersCPU = max(0, s.OthersCPU)
	s.Sent, s.Acked, s.Refused = x.tally.Results, x.tally.Acked, x.tally.Refused
	s.Lag = float64(x.tally.Lag.Buckets().ValueAtQuantile(99)) / 1000
	if x.tally.Whole.Count() > 0 {
		latency := x.tally.Whole.Latency()
		s.Latency, s.Beyond = &latency, x.tally.Beyond.Latency().P99
	}
	for figure, h := range x.tally.Waits {
		if s.Waits == nil {
			s.Waits = map[string]float64{}
		}
		s.Waits[figure] = h.Latency().P99
	}
	c.Samples = append(c.Samples, *s)
	if c.OnSecond != nil {
		c.OnSecond(s)
	}
}

// Finish ends the seconds that some loader did not tell.
func (c *Checks) Finish() {
	for _, n := range slices.Sorted(maps.Keys(c.pending)) {
		if c.pending[n].told > 0 {
			c.told(n)
		}
	}
	c.pending = nil
}

// ReadChecks puts the lines of a log together.
func ReadChecks(list []Line) (*Checks, error) {
	c := &Checks{}
	for i := range list {
		c.apply(&list[i])
	}
	switch {
	case c.Start == nil || c.Start.Report == nil:
		return nil, fmt.Errorf("read an observation log: its first line is not that of a run of checks")
	case c.Start.Version != Version:
		return nil, fmt.Errorf("read an observation log: it has version %d, and this program reads version %d", c.Start.Version, Version)
	}
	c.Finish()
	for _, p := range c.Score {
		phases := len(c.Score)
		if sc := c.Start.Report.Scenario; sc != nil {
			phases = len(sc.Phases)
		}
		if p.Phase < 0 || p.Phase >= phases {
			return nil, fmt.Errorf("read an observation log: a part of phase %d, which its scenario does not have", p.Phase)
		}
	}
	if c.Measured == nil || c.Measured.Report == nil {
		c.Alerts = nil // the loader was killed before it knew the faults
	}
	if a := c.Alerts; a != nil {
		struck := 0
		for _, f := range c.Faults {
			if !f.Over {
				struck++
			}
		}
		for _, s := range a.Strikes {
			if s.Fault < 0 || s.Fault >= struck || slices.ContainsFunc(s.States, func(i int) bool { return i < 0 || i >= len(a.States) }) {
				return nil, fmt.Errorf("read an observation log: alerts of a fault or of a state that it does not have")
			}
		}
	}
	for _, l := range c.Ledgers {
		for _, a := range l.Agents {
			if a.Set >= len(l.Sets) || a.Set >= 0 && len(a.States) > len(l.Sets[a.Set].Checks) {
				return nil, fmt.Errorf("read an observation log: the ledger of agent %s has %d states and no assignment with so many checks", a.Name, len(a.States))
			}
		}
	}
	return c, nil
}

// Lines returns the lines of a loader's ledgers.
func (l *Ledgers) Lines(loader int) (list []Line) {
	list = append(list, Line{Loader: loader, Kept: &Kept{Breaches: &l.Breaches}})
	for i := range l.Sets {
		list = append(list, Line{Loader: loader, Kept: &Kept{Set: &l.Sets[i]}})
	}
	for i := range l.Agents {
		list = append(list, Line{Loader: loader, Kept: &Kept{Ledger: &l.Agents[i]}})
	}
	for i := range l.Pairs {
		list = append(list, Line{Loader: loader, Kept: &Kept{Pair: &l.Pairs[i]}})
	}
	return list
}
