package report

import (
	"github.com/muster-fleet/muster/internal/load/scenario"
)

// What a scenario adds to a report. Times are seconds since the first steady phase began
// (before it: negative), -1 where it did not come to that; latencies are milliseconds.

// Played holds the results of one phase. Its figures are of what was meant to be sent in it.
type Played struct {
	Name         string             `json:"name"`
	Kind         string             `json:"kind"` // ramp, steady, step, fault, drain
	From         float64            `json:"from"`
	To           float64            `json:"to"`
	Rate         float64            `json:"rate,omitempty"`         // of the scenario's own
	Faster       map[string]float64 `json:"faster,omitempty"`       // pipelines that were sped up, and how much
	Again        bool               `json:"again,omitempty"`        // the step before it broke, and this is it once more
	Short        bool               `json:"short,omitempty"`        // the run was stopped in it: it is not judged
	Apart        bool               `json:"apart,omitempty"`        // its figures are its own, and no part of the run's: it had faults, was meant to break, or broke
	Offered      float64            `json:"offered,omitempty"`      // per second
	Acknowledged float64            `json:"acknowledged,omitempty"` // per second, while it lasted; in reports without inTime: of what was due in it, whenever that was
	Refused      uint64             `json:"refused,omitempty"`
	Span
	Assessment
}

// Assessment has the objectives of a phase, and the waits and misses by which it is judged.
type Assessment struct {
	Settled   float64                   `json:"settled,omitempty"`   // until it was as before the phase before it; asked with settle
	Beside    []Beside                  `json:"beside,omitempty"`    // what shared the server with the results
	Missed    []string                  `json:"missed,omitempty"`    // objectives, in sentences
	Starved   []string                  `json:"starved,omitempty"`   // whom, being faster, it starved: what sentences of Missed begin with
	NotJudged []string                  `json:"notJudged,omitempty"` // of whom there were too few answers to say whether it starved them
	Asked     map[string]scenario.Limit `json:"asked,omitempty"`     // objectives of this phase alone
}

// Struck holds one fault, its expected alerts and the received ones.
type Struck struct {
	What     string  `json:"what"` // as in the scenario: stop 10 of web
	At       float64 `json:"at"`
	Until    float64 `json:"until,omitempty"`
	Places   int     `json:"places"`              // agents, or states, that it struck
	Alerts   int     `json:"alerts,omitempty"`    // that had to come …
	Missing  int     `json:"missing,omitempty"`   // … and did not
	Extra    int     `json:"extra,omitempty"`     // alerts of what it did not strike, and repeated ones
	Example  string  `json:"example,omitempty"`   // of the first that was missing or too many
	Detected Latency `json:"detectedMs,omitzero"` // from the fault to its alerts
	Cleared  Latency `json:"clearedMs,omitzero"`  // from its end to their resolution
	Back     float64 `json:"back,omitempty"`      // until all that it struck was as before
}

// Held holds one change of intent, with the times until agents held it.
type Held struct {
	What   string  `json:"what"` // create 5 checks of web
	At     float64 `json:"at"`
	Agents int     `json:"agents"`             // concerned
	Holds  Latency `json:"holdsMs"`            // from the answer of the API until each of them held it
	Never  int     `json:"never,omitempty"`    // of them, when the run ended
	All    Latency `json:"allHoldMs,omitzero"` // of each change that all of them held: until the last one did

	Answered Latency `json:"answeredMs,omitzero"` // from when a change was meant until the API had answered: what late answers before it made it wait is in it
	Changes  int     `json:"changes,omitempty"`   // that were made
	Unasked  int     `json:"unasked,omitempty"`   // changes that were meant and not made: the run was over before those before were answered. In Answered they count with what they had waited

	UnaskedAway int `json:"unaskedAway,omitempty"` // of Unasked, those that were meant while the script had the server away
}

// Worked counts the requests of one kind of operator.
type Worked struct {
	What     string  `json:"what"` // list, watch, apply, silence, run, fact
	Requests uint64  `json:"requests"`
	Failed   uint64  `json:"failed,omitempty"`
	Why      string  `json:"why,omitempty"` // the first failure
	Latency  Latency `json:"latencyMs"`     // of an answer, from when it was meant to be asked for; of a watch: from the change to its arrival

	FailedAway     uint64 `json:"failedAway,omitempty"`     // of Failed, those that were asked while the script had the server away …
	UnansweredAway uint64 `json:"unansweredAway,omitempty"` // … and of Unanswered

	Unanswered uint64 `json:"unanswered,omitempty"` // beside Requests: given up, late by a second or more, when the run ended or too many waited. In Latency they count with what they had waited
}

// Environment holds the conditions of the run besides the machine's figures.
type Environment struct {
	Virtual    string            `json:"virtual,omitempty"` // kind of virtual machine or container
	Limits     map[string]string `json:"limits,omitempty"`  // ulimits and sysctls that bound a run, by name
	FileSystem string            `json:"fileSystem,omitempty"`
	Device     string            `json:"device,omitempty"`
	Fsync      Latency           `json:"fsyncMs,omitzero"`   // of a 4 kB append on the server's data folder, measured before the run
	Server     map[string]string `json:"server,omitempty"`   // version, commit, flags
	Packages   map[string]string `json:"packages,omitempty"` // versions of other programs that took part
}

// Point is one point of a latency curve: this share of all results took at most this long.
type Point struct {
	Percentile float64 `json:"percentile"`
	Ms         float64 `json:"ms"`
}

// Kinds of phases.
const (
	KindRamp  = "ramp"
	KindStep  = "step"
	KindFault = "fault"
	KindDrain = "drain"
)

// Outage is a time in which not all agents had a session. Times are in seconds from its beginning; -1: not before the run's
// end. It begins when the first session is lost, or with the fault of the server that causes it.
type Outage struct {
	Second  float64 `json:"second"`            // when it began, since the measurement began
	Lost    int     `json:"lost"`              // most agents away at once
	Serving float64 `json:"serving,omitempty"` // until the server said that it is ready
	Acked   float64 `json:"acknowledging"`     // until a session opened since then had something acknowledged
	Seconds float64 `json:"seconds"`           // until the last agent was back
	Storm   bool    `json:"storm,omitempty"`   // all were cut by the run itself
	Command bool    `json:"command,omitempty"` // a fault of the server caused it
}

// Beside holds the waits of one user or pipeline in a phase.
type Beside struct {
	Figure string  `json:"figure"`          // list-p99, apply-p99, silence-p99, run-p99, fact-p99, watch-p99, holds-p99, tell-p99, history-behind, beyond-p99, or held
	Class  string  `json:"class,omitempty"` // of held; empty: of all results
	Count  uint64  `json:"count"`           // answers, arrivals, seconds looked at, results
	Value  float64 `json:"value"`           // in the figure's unit
}

const (
	HistoryBehind = "history-behind"
	HeldShare     = "held"
	BeyondLinger  = "beyond-p99"
)

// Counting returns the phases of the run's figures: all that were measured, without those that are judged apart, and
// without one that was cut short, unless it is the only one.
func (rep *Report) Counting() (list []Played) {
	for _, p := range rep.Phases {
		if p.Offered > 0 && !p.Apart && (!p.Short || rep.Stopped == nil || rep.Stopped.Whole == 0) {
			list = append(list, p)
		}
	}
	return list
}

// Lasted returns the seconds of the figures.
func (rep *Report) Lasted() (seconds float64) {
	for _, p := range rep.Counting() {
		seconds += p.To - p.From
	}
	if seconds == 0 {
		return rep.Plan.Duration
	}
	return seconds
}

// Offered returns the least, the greatest and the mean rate of the phases that count, in results per second.
func (rep *Report) Offered() (low, high, mean float64) {
	length := 0.0
	for _, p := range rep.Counting() {
		if length == 0 {
			low = p.Offered
		}
		low, high = min(low, p.Offered), max(high, p.Offered)
		mean += p.Offered * (p.To - p.From)
		length += p.To - p.From
	}
	if length == 0 {
		return rep.Plan.Offered, rep.Plan.Offered, rep.Plan.Offered
	}
	if high-low < 0.02*high { // the chance of a stretch
		low, high = rep.Plan.Offered, rep.Plan.Offered
	}
	return low, high, mean / length
}
