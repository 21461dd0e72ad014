package report

import (
	"fmt"
)

// The results of notifications, stream lines, silent machines and turns.

// Notifications counts the messages about problems of checks with Check.Alert. Each acknowledged result that ends a
// row of good ones, or of bad ones, causes one.
type Notifications struct {
	Due     uint64  `json:"due"` // messages that had to come, warm-up and all
	Missing uint64  `json:"missing,omitempty"`
	Extra   uint64  `json:"extra,omitempty"`
	Example string  `json:"example,omitempty"` // of the first that was missing or too many
	Unclear uint64  `json:"unclear,omitempty"` // states that were not judged: a deadline spoke for them, or they had a problem before the run
	Again   uint64  `json:"again,omitempty"`   // messages that came once more, with the same key: delivery is at least once
	Timed   uint64  `json:"timed"`             // of those that came, how many were meant while something was measured
	Latency Latency `json:"latencyMs"`         // of those: from when the result was meant to be sent until the first byte of the message was here
	Curve   []Point `json:"curve,omitempty"`   // of Latency
}

// Streamed counts the lines of a handler that is notified of every result (Scenario.Stream): each acknowledged result is a line, at least once, those of a state in their
// order.
type Streamed struct {
	Connections int     `json:"connections"` // that were opened
	Lines       uint64  `json:"lines"`       // that came, of acknowledged results
	Missing     uint64  `json:"missing,omitempty"`
	Twice       uint64  `json:"twice,omitempty"`    // lines that came before: allowed after a connection broke
	Disorder    uint64  `json:"disorder,omitempty"` // new lines that came behind a newer one of their state
	Extra       uint64  `json:"extra,omitempty"`    // lines that no acknowledged result brought about
	Other       uint64  `json:"other,omitempty"`    // lines that name another node, check or status than their result
	Unread      uint64  `json:"unread,omitempty"`   // lines that could not be read
	Example     string  `json:"example,omitempty"`  // of the first thing that was wrong
	Timed       uint64  `json:"timed"`              // lines whose result was meant while something was measured
	Latency     Latency `json:"latencyMs"`          // of those: from when the result was meant to be sent until its line was here
	Curve       []Point `json:"curve,omitempty"`    // of Latency
}

// Silent holds the false keepalive problems: those of machines that were on the network with a session.
type Silent struct {
	Machines int     `json:"machines"`           // that were looked at
	Extra    int     `json:"extra,omitempty"`    // alerts that one of them is silent while it had its session
	Example  string  `json:"example,omitempty"`  // the first of them
	Quiet    int     `json:"quiet,omitempty"`    // beside them, alerts of machines whose signs of life the loader sent too late
	Behind   float64 `json:"behind,omitempty"`   // seconds of the end that history did not hold in time: of them only open problems were seen
	Unjudged string  `json:"unjudged,omitempty"` // why what was said could not be read; empty: it could
}

// Labels returns labels about what the judgement of silence leaves out.
func (s *Silent) Labels() (list []string) {
	if s == nil {
		return nil
	}
	if s.Behind > 0 {
		list = append(list, fmt.Sprintf("history was %.0f s behind at the end: a machine that was called silent in that time is not known if that is over", s.Behind))
	}
	if s.Quiet > 0 {
		list = append(list, fmt.Sprintf("alerts that machines are silent: %d are not judged, for the loader sent those machines' signs of life too late", s.Quiet))
	}
	return list
}

// unread returns the reason why the silence problems are unknown, or none.
func (s *Silent) unread() []string {
	if s == nil || s.Unjudged == "" {
		return nil
	}
	return []string{"whether healthy machines were called silent could not be read: " + s.Unjudged}
}

// Turned counts the round-robin runs of the measured intervals.
type Turned struct {
	Due      uint64  `json:"due"`                // intervals, of each check and proxy node
	Ran      uint64  `json:"ran"`                // that had a run which was acknowledged
	Again    uint64  `json:"again,omitempty"`    // runs beyond one: another had taken over, and both ran it
	Passed   uint64  `json:"passed,omitempty"`   // that had none, and were over before another had to have the turn
	Unjudged uint64  `json:"unjudged,omitempty"` // that had none while the script had the server away, or no agent was there
	Missed   uint64  `json:"missed,omitempty"`   // that had none, and should have had one
	Example  string  `json:"example,omitempty"`  // the first of those
	Twice    uint64  `json:"twice,omitempty"`    // turns that were given again, though who had them had his session and time left, or had run them
	Second   string  `json:"second,omitempty"`   // the first of those
	Taken    uint64  `json:"taken,omitempty"`    // turns that another agent had because who was given them first gave no result
	Took     Latency `json:"tookMs,omitzero"`    // from when they were given first until the other had them
}
