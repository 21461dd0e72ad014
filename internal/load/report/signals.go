package report

import (
	"strings"

	"github.com/muster-fleet/muster/internal/load/scenario"
)

// Signals has the parts of a report that only runs with values or directives have. Where agents send nothing else, rates,
// latencies and costs of the report are of these in place of results.
type Signals struct {
	Unit     Unit      `json:"unit,omitempty"`     // in place of results; empty: the figures are of results
	Items    int       `json:"items"`              // or directives, of all nodes
	Compared string    `json:"compared,omitempty"` // values or runs that were compared with the plan; empty: none
	Findings []Finding `json:"findings,omitempty"`
	Flows    []Flow    `json:"flows,omitempty"`  // values and components beside results
	Startup  Startup   `json:"startup,omitzero"` // of the server, which plans all nodes from cold
	Heap     float64   `json:"heap,omitempty"`   // bytes in use on the server behind a collection, before the first fault
}

// Flow holds the figures of values or components that agents send in addition to results.
type Flow struct {
	Unit    Unit    `json:"unit"`
	Rate    float64 `json:"perSecond"` // acknowledged
	Latency Latency `json:"latencyMs"` // from the intended time to the acknowledgement
}

// Unit is the unit of the figures of a run.
type Unit string

// The units beside results.
const (
	Value     Unit = "value"
	Component Unit = "component"
)

// SoleUnit returns the unit of a scenario whose agents send only values, or only directives, or an empty text.
func SoleUnit(sc *scenario.Scenario) Unit {
	switch values, components := sc.ValueRate() > 0, sc.ComponentRate() > 0; {
	case sc.States() > 0 || values == components:
		return ""
	case values:
		return Value
	}
	return Component
}

// alone reports whether the figures are of values or components in place of results.
func (rep *Report) alone() bool { return rep.Signals != nil && rep.Signals.Unit != "" }

// Finding is one kind of fault of the server, counted.
type Finding struct {
	Kind    Kind   `json:"kind"`
	Count   int    `json:"count"`
	Example string `json:"example"` // the first one
}

// Kind names a kind of findings.
type Kind string

// Startup is the start of a server.
type Startup struct {
	Seconds float64 `json:"seconds"`
	CPU     float64 `json:"cpu"` // seconds
	RSS     int64   `json:"rss"`
}

// InUnit returns a text about results in the unit of the run.
func (rep *Report) InUnit(text string) string {
	if !rep.alone() {
		return text
	}
	unit := string(rep.Signals.Unit)
	return strings.NewReplacer("results", unit+"s", "result", unit).Replace(text)
}

// Offers names the things that agents send: results, values or components.
func (rep *Report) Offers() string {
	if rep.Signals == nil || rep.alone() {
		return rep.InUnit("results")
	}
	names := []string{"results"}
	for _, f := range rep.Signals.Flows {
		names = append(names, string(f.Unit)+"s")
	}
	return strings.Join(names, " or ")
}

// sent names the things that the ledger counts: results, or all signals of a run with values or directives.
func (rep *Report) sent() string {
	if rep.Signals != nil {
		return "signals"
	}
	return "results"
}

// source names one of the things on a node that signals come from.
func (rep *Report) source() string {
	switch s := rep.Signals; {
	case !rep.alone():
		return "check"
	case s.Unit == Component:
		return "directive"
	}
	return "item"
}

// inUnit writes the texts of findings in the unit of the run.
func (rep *Report) inUnit(f *Findings) {
	each := func(texts []string) {
		for i := range texts {
			texts[i] = rep.InUnit(texts[i])
		}
	}
	f.Shape, f.Because = rep.InUnit(f.Shape), rep.InUnit(f.Because)
	each(f.Remarks)
	for i := range f.Objectives {
		o := &f.Objectives[i]
		o.What, o.Asked, o.Got = rep.InUnit(o.What), rep.InUnit(o.Asked), rep.InUnit(o.Got)
	}
	for _, s := range f.Sections {
		if s.ID == "environment" || s.ID == "metrics" {
			continue
		}
		each(s.Notes)
		for _, t := range s.Tables {
			each(t.Head)
			for _, row := range t.Rows {
				each(row)
			}
		}
	}
}
