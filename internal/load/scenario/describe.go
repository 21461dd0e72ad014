package scenario

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/load/number"
	"github.com/muster-fleet/muster/internal/model"
)

// Describe describes the plan: rates, length, and the resources that it needs.
func (s *Scenario) Describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s, %s event states.\n", s.FullTitle(), s.Brief(), number.Count(s.States()))
	for i := range s.Agents {
		if r := s.Agents[i].Recorded; r != nil && r.head != nil {
			fmt.Fprintf(&b, "%s: %s.\n", s.Agents[i].Name, r.describe())
		}
	}
	fmt.Fprintf(&b, "Server and loader need about %s of memory and %s cores together, and %s open files each.\n",
		model.Size(baseMemory/2+s.memory()).Approximate(), s.cores(), number.Count(Files(s.Nodes(""), true)))
	return b.String()
}

// cores returns the estimated use of cores by server and loader, at the highest rate; of steps: at the first.
func (s *Scenario) cores() string {
	most := 0.0
	for i := range s.Phases {
		most = max(most, s.Phases[i].Rates()[0])
	}
	return strconv.FormatFloat(max(0.1, (s.Rate()*most+s.KeepaliveRate())*usualMicros/1e6), 'f', 1, 64)
}

// Signals returns the signals per second, in words.
func (s *Scenario) Signals() string {
	var list []string
	add := func(rate float64, what string) {
		if rate > 0 {
			list = append(list, number.Rate(rate)+" "+what)
		}
	}
	add(s.Rate(), "results/s")
	add(s.ValueRate(), "values/s")
	add(s.ComponentRate(), "components/s")
	if len(list) == 0 {
		add(s.KeepaliveRate(), "keepalives/s")
	}
	return strings.Join(list, ", ")
}

// String returns the fault in words: at 30s, for 60s: stop 5 of web.
func (f *Fault) String() string {
	text := "at " + f.At.String()
	if f.For > 0 {
		text += " for " + f.For.String()
	}
	return text + ": " + f.What()
}

// What returns the fault in words, without its time: stop 5 of web.
func (f *Fault) What() string {
	switch {
	case f.Fail != nil:
		return fmt.Sprintf("%s is %s on %s", f.Fail.Check, f.Fail.Status, f.Fail.Pick.String())
	case f.Wrong != nil:
		return "wrong frames from " + f.Wrong.String()
	}
	for _, x := range f.strikes() {
		if x.pick != nil {
			return x.kind + " " + x.pick.String()
		}
	}
	return "server " + f.Server
}

// String returns the change in words, with its time.
func (c *Change) String() string {
	text := "at " + c.At.String()
	if c.Every > 0 {
		text += " and every " + c.Every.String()
	}
	return text + ": " + c.What()
}

// What returns the change in words, without its time: create 5 and delete 5 checks of web.
func (c *Change) What() string {
	var parts []string
	for _, n := range [...]struct {
		what string
		n    int
	}{{"create", c.Create}, {"change", c.Change}, {"delete", c.Delete}} {
		if n.n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", n.what, n.n))
		}
	}
	text := strings.Join(parts, " and ") + " " + c.Kind
	if c.Create+c.Change+c.Delete != 1 {
		text += "s"
	}
	if of := groupOrClass(c.Class, c.Group); of != "" {
		text += " of " + of
	}
	return text
}

func clock(d time.Duration) string { return model.Duration(d).String() }

// Brief returns the plan in one line: 4,000 agents, 32,000 results/s, 10m50s.
func (s *Scenario) Brief() string {
	return fmt.Sprintf("%s agents, %s, %s at most", number.Count(s.Nodes("")), s.Signals(), clock(s.Duration()))
}
