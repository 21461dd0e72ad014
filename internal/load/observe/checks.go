package observe

import (
	"fmt"
	"slices"

	"github.com/muster-fleet/muster/internal/load/report"
)

// Version is that of the lines of a run of checks.
const Version = 1

// Checks is a run of checks: the lines of its log, put together.
type Checks struct {
	Start      *Checked
	Seconds    []CheckSecond // of a log that was read: a run under way has them in its report
	Faults     []Fault
	Ledgers    []Ledgers // by loader; none: the loader was killed before
	Before     States
	After      States
	Viewed     bool        // After has all event states of the server
	Silence    *Silence    // nil: there was no login
	Alerts     *Alerts     // nil: no fault brings about alerts
	RoundRobin *RoundRobin // nil: no check is run in turn
	Measured   *Measured   // nil: the loader was killed before
}

// Checked is the first line of a run of checks, when the timetable starts.
type Checked struct {
	Version int            `json:"version"`
	Report  *report.Report `json:"report"`  // as far as known; its goals are the objectives
	Seconds float64        `json:"seconds"` // length of the timetable
}

// CheckSecond is one second of the timetable.
type CheckSecond struct {
	Number   int               `json:"number"` // from the start of the timetable
	Measured bool              `json:"measured,omitempty"`
	Sample   report.Sample     `json:"sample"`
	Whole    []byte            `json:"whole,omitempty"`  // packed: from intended to acknowledged
	Beyond   []byte            `json:"beyond,omitempty"` // likewise, beyond the linger
	Lag      []byte            `json:"lag,omitempty"`    // of the generator
	Lost     map[string]uint64 `json:"lost,omitempty"`   // sessions that ended, by cause
}

// Fault is the start, or the end, of a fault of the scenario.
type Fault struct {
	What string  `json:"what"`
	At   float64 `json:"at"` // seconds since the start of the timetable
	Over bool    `json:"over,omitempty"`
}

// Silence has the problems of keepalives on the server. Problems that opened before From are older than the signs of life
// of the run.
type Silence struct {
	From     int64     `json:"from"`
	Problems []Problem `json:"problems,omitempty"`
	Behind   float64   `json:"behind,omitempty"` // seconds of the end that the server's history lacked
	Unread   string    `json:"unread,omitempty"` // reason why they could not be read
}

// Measured is the last line of a run of checks: its figures, before they are judged.
type Measured struct {
	Report  *report.Report `json:"report,omitempty"` // nil: the seconds of the log have the figures
	Late    []string       `json:"late,omitempty"`   // phases that are judged by themselves in which the generator was too late …
	Notes   []string       `json:"notes,omitempty"`  // … and what else is known of them
	Senders int            `json:"senders"`
	Spool   int            `json:"spool"`             // bytes of each agent's
	Intent  string         `json:"intent,omitempty"`  // reason why intent could not be changed
	Fault   string         `json:"fault,omitempty"`   // reason why a fault could not be played
	Renames string         `json:"renames,omitempty"` // failures of renames
	Fell    string         `json:"fell,omitempty"`    // end of the server's process by itself
	Looked  bool           `json:"looked,omitempty"`  // the server's metrics were read
	Unread  string         `json:"unread,omitempty"`  // reason why the event states could not be read
}

// apply adds a line.
func (c *Checks) apply(line *Line) {
	switch {
	case line.Checked != nil:
		c.Start = line.Checked
	case line.Fault != nil:
		c.Faults = append(c.Faults, *line.Fault)
	case line.Set != nil:
		l := c.loader(line.Loader)
		l.Sets = append(l.Sets, *line.Set)
	case line.Ledger != nil:
		l := c.loader(line.Loader)
		l.Agents = append(l.Agents, *line.Ledger)
	case line.Pair != nil:
		l := c.loader(line.Loader)
		l.Pairs = append(l.Pairs, *line.Pair)
	case line.Breaches != nil:
		c.loader(line.Loader).Breaches = *line.Breaches
	case line.Before != nil:
		c.Before = append(c.Before, line.Before)
	case line.After != nil:
		c.After = append(c.After, line.After)
	case line.Silence != nil:
		c.Silence = line.Silence
	case line.Alerts != nil:
		c.Alerts = line.Alerts
	case line.RoundRobin != nil:
		c.RoundRobin = line.RoundRobin
	case line.Measured != nil:
		c.Measured = line.Measured
	}
	c.Viewed = c.Viewed || line.Viewed
}

// mostLoaders bounds the loaders of a log.
const mostLoaders = 1000

func (c *Checks) loader(n int) *Ledgers {
	for len(c.Ledgers) <= min(max(n, 0), mostLoaders) {
		c.Ledgers = append(c.Ledgers, Ledgers{})
	}
	return &c.Ledgers[min(max(n, 0), mostLoaders)]
}

// ReadChecks puts the lines of a log together.
func ReadChecks(list []Line) (*Checks, error) {
	c := &Checks{}
	for i := range list {
		if s := list[i].Check; s != nil {
			c.Seconds = append(c.Seconds, *s)
		}
		c.apply(&list[i])
	}
	switch {
	case c.Start == nil || c.Start.Report == nil:
		return nil, fmt.Errorf("read an observation log: its first line is not that of a run of checks")
	case c.Start.Version != Version:
		return nil, fmt.Errorf("read an observation log: it has version %d, and this program reads version %d", c.Start.Version, Version)
	}
	if c.Measured == nil || c.Measured.Report == nil {
		c.Alerts = nil // the loader was killed before it knew the faults
	}
	if a := c.Alerts; a != nil {
		for _, s := range a.Strikes {
			if s.Fault < 0 || s.Fault >= len(c.Measured.Report.Faults) || slices.ContainsFunc(s.States, func(i int) bool { return i < 0 || i >= len(a.States) }) {
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
	list = append(list, Line{Loader: loader, Breaches: &l.Breaches})
	for i := range l.Sets {
		list = append(list, Line{Loader: loader, Set: &l.Sets[i]})
	}
	for i := range l.Agents {
		list = append(list, Line{Loader: loader, Ledger: &l.Agents[i]})
	}
	for i := range l.Pairs {
		list = append(list, Line{Loader: loader, Pair: &l.Pairs[i]})
	}
	return list
}
