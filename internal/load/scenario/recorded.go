package scenario

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/muster-fleet/muster/internal/document"
	"github.com/muster-fleet/muster/internal/load/number"
	"github.com/muster-fleet/muster/internal/load/stream"
	"github.com/muster-fleet/muster/internal/model"
)

// Recorded is a recorded stream (muster load record). Each agent of the class plays one of its nodes. Count and checks of
// the class follow from it.
type Recorded struct {
	File  string `json:"file"`                            // relative to the scenario's; absolute once that is read
	Times int    `json:"times,omitempty" check:"1..1000"` // agents for each recorded node; default 1

	head *stream.Head // of the file; nil: it could not be read
}

// Head returns the head of the file.
func (r *Recorded) Head() *stream.Head { return r.head }

// RecordedCheck is the name of the checks of a class with a recorded stream: as many as the node with most of them has.
const RecordedCheck = "check"

const (
	maxTimes  = 1000
	minOutput = 48 // bytes of the head of an output; heads are unique
)

// recordings reads the heads of recorded streams, relative to the scenario's file, and fills in count and checks of their
// classes.
func (s *Scenario) recordings(file string) model.Flaws {
	v := &checker{Scenario: s}
	for i := range s.Agents {
		c, at := &s.Agents[i], fmt.Sprintf("agents[%d]", i)
		r := c.Recorded
		if r == nil {
			continue
		}
		before := len(v.flaws)
		v.when(len(c.Checks) > 0, at+".checks", "leave them out", "the checks of a recorded stream come from its file")
		c.Checks = nil
		v.head(at+".recorded.file", filepath.Dir(file), r)
		if len(v.flaws) > before || r.Times < 0 || r.Times > maxTimes {
			continue
		}
		r.Times = cmp.Or(r.Times, 1)
		c.Count = cmp.Or(c.Count, min(maxAgents+1, r.head.Nodes*r.Times))
		c.Checks = []Check{{Name: RecordedCheck, Count: r.head.Most, Interval: r.interval(),
			Output: Output{Bytes: model.Size(min(max(r.head.Longest, minOutput), MaxOutput))}}}
	}
	return v.flaws
}

// head reads the head of one stream.
func (v *checker) head(field, dir string, r *Recorded) {
	if r.File == "" {
		v.lacks(true, field, "muster load record --out FILE makes one", "missing")
		return
	}
	if !filepath.IsAbs(r.File) {
		r.File = filepath.Join(dir, r.File)
	}
	if whole, err := filepath.Abs(r.File); err == nil {
		r.File = whole // the scenario may be shown, and read again from another folder
	}
	in, closer, err := stream.Open(r.File)
	if err != nil {
		text, hint := err.Error(), ""
		if known := (*model.Error)(nil); errors.As(err, &known) {
			text, hint = known.Message, known.Hint
		}
		v.flaw(field, hint, "%s: %s", r.File, text)
		return
	}
	_ = closer.Close()
	r.head = &in.Head
	v.when(r.head.Most > model.DefaultStatesPerNode, field, "record a shorter time, in which fewer checks change", "a node with %d checks; a server takes %d", r.head.Most, model.DefaultStatesPerNode)
}

// Verify reads all recorded streams to their ends. The error names the damage.
func (s *Scenario) Verify() error {
	for i := range s.Agents {
		r := s.Agents[i].Recorded
		if r == nil {
			continue
		}
		in, closer, err := stream.Open(r.File)
		if err == nil {
			err = in.Each(func([]stream.Signal) error { return nil })
			_ = closer.Close()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", r.File, err)
		}
	}
	return nil
}

// interval returns the interval of most results: of the checks on the server, and the range in which copies of a node
// are moved.
func (r *Recorded) interval() model.Duration {
	var most uint64
	d := time.Duration(0)
	for i := range r.head.Checks {
		if k := &r.head.Checks[i]; k.Interval > 0 && k.Signals > most {
			most, d = k.Signals, k.Interval
		}
	}
	return min(max(model.Duration(cmp.Or(d, r.head.Length)), minInterval), maxTime)
}

// rate returns the results per second of so many of its agents.
func (r *Recorded) rate(agents int) float64 {
	if r.head == nil {
		return 0
	}
	return r.head.Rate() * float64(agents) / float64(r.head.Nodes)
}

// states returns the number of their event states.
func (r *Recorded) states(agents int) int {
	if r.head == nil {
		return 0
	}
	return agents * r.head.States / r.head.Nodes
}

// label returns the label of figures from a recorded stream.
func (r *Recorded) label() string { return fmt.Sprintf("recorded stream × %d", max(1, r.Times)) }

// describe describes the recorded stream in one line.
func (r *Recorded) describe() string { return r.label() + ": " + StreamInWords(r.head) }

// StreamInWords describes a recorded stream.
func StreamInWords(h *stream.Head) string {
	text := fmt.Sprintf("%s nodes, %d checks (at most %d of a node), %s results in %s", number.Count(h.Nodes), len(h.Checks), h.Most, number.Count(h.Signals), clock(h.Length.Round(time.Second)))
	var low, high time.Duration
	for i := range h.Checks {
		if d := h.Checks[i].Interval; d > 0 {
			low, high = min(cmp.Or(low, d), d), max(high, d)
		}
	}
	switch {
	case low == high && low > 0:
		text += ", every " + clock(low)
	case low > 0:
		text += fmt.Sprintf(", every %s to %s", clock(low), clock(high))
	}
	if h.Late > 0 {
		text += fmt.Sprintf(", %s after outages", number.Percent(float64(h.Late)/float64(h.Signals)))
	}
	return text + fmt.Sprintf(", outputs of %s, up to %s, recorded from %s on", model.Size(h.Bytes/h.Signals).Approximate(), model.Size(h.Longest).Approximate(), h.Began.Format("2006-01-02 15:04 MST"))
}

// File returns the scenario as a person would write it: without the checks of recorded streams.
func (s *Scenario) File() *Scenario {
	out := s.clone()
	for i := range out.Agents {
		if out.Agents[i].Recorded != nil {
			out.Agents[i].Checks = nil
		}
	}
	return out
}

// YAML returns the scenario as a file.
func (s *Scenario) YAML() ([]byte, error) {
	data, err := json.Marshal(s)
	if err == nil {
		data, err = document.YAML(data)
	}
	if err != nil {
		return nil, fmt.Errorf("encode the scenario: %w", err)
	}
	return data, nil
}

// Played returns the played part as JSON, to compare it with that of another scenario: without texts, objectives and
// the folders of recorded streams.
func (s *Scenario) Played() []byte {
	played := s.clone()
	played.Name, played.Title, played.Answers, played.Objectives = "", "", "", nil
	for i := range played.Agents {
		if r := played.Agents[i].Recorded; r != nil {
			r.File = filepath.Base(r.File)
		}
	}
	data, err := json.Marshal(played)
	if err != nil {
		panic("BUG: a scenario that cannot be written: " + err.Error())
	}
	return data
}
