package fleet

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/document"
	"github.com/muster-fleet/muster/internal/load/number"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// DefaultClasses is the default limit of classes in a scenario.
const DefaultClasses = 8

// Shape is a fleet as a scenario.
type Shape struct {
	Scenario *scenario.Scenario

	fleet  *Fleet
	rate   float64 // of the fleet, results per second, by its intervals
	shapes int
	exact  float64 // share of the rate that comes from nodes of the most expensive shape of their class
	away   int     // nodes without a session when it was read
}

// Scenario makes a scenario whose classes, at most this many, have the nodes of the fleet.
func (f *Fleet) Scenario(classes int) (*Shape, error) {
	kinds := f.kinds()
	shapes := f.shapes(kinds)
	if len(shapes) == 0 {
		return nil, model.Errorf(model.NotFound, "none of the %d nodes was heard of in the last day: there is nothing to describe", len(f.Nodes)).
			WithHint("muster get nodes shows them")
	}
	out := &Shape{fleet: f, shapes: len(shapes), exact: 1}
	groups := group(shapes, max(1, classes))
	of := make([]int, len(f.Nodes)) // the class of each
	exact, nodes := 0.0, 0
	for i, group := range groups {
		most := slices.MaxFunc(group, func(a, b *shape) int { return cmp.Compare(a.weight(), b.weight()) })
		exact += most.rate() * float64(len(most.nodes))
		for _, s := range group {
			out.rate += s.rate() * float64(len(s.nodes))
			nodes += len(s.nodes)
			for _, n := range s.nodes {
				if of[n] = i; !f.Nodes[n].Connected {
					out.away++
				}
			}
		}
	}
	if out.rate > 0 {
		out.exact = exact / out.rate
	}
	out.Scenario = &scenario.Scenario{Scenario: scenario.Version, Title: fmt.Sprintf("The shape of an installation: %s nodes, %s results/s", number.Count(nodes), number.Rate(out.rate)), Seed: 1,
		Phases: []scenario.Phase{{Ramp: model.Duration(max(10, (len(f.Nodes)+199)/200)) * model.Duration(time.Second)},
			{Steady: model.Duration(10 * time.Minute), Warmup: model.Duration(time.Minute)}, {Drain: model.Duration(30 * time.Second)}},
		Objectives: map[string]scenario.Limit{"beyond-p99": "500ms"}}
	lines := f.lines(kinds, of, groups)
	for i, group := range groups {
		out.Scenario.Agents = append(out.Scenario.Agents, out.class(group, lines[i], i+1))
	}
	return out, nil
}

// lines returns lines for the checks of each class, and counts every state on its line.
func (f *Fleet) lines(kinds map[model.CheckID]kind, of []int, groups [][]*shape) [][]*line {
	lines := make([][]*line, len(groups))
	at := make([]map[kind]*line, len(groups))
	for i, group := range groups {
		lines[i], at[i] = linesOf(mean(group).counts, model.DefaultStatesPerNode), map[kind]*line{}
		for _, l := range lines[i] {
			for _, k := range l.kinds {
				at[i][k] = l
			}
		}
	}
	for i := range f.States {
		state := &f.States[i]
		at[of[state.Node]][kinds[state.Check]].add(state)
	}
	return lines
}

// class returns one class of the scenario file.
func (s *Shape) class(group []*shape, lines []*line, number int) scenario.Class {
	out := scenario.Class{Name: fmt.Sprintf("class-%d", number)}
	var churn coming
	type pace struct{ interval, timeout model.Duration }
	withTLS, keepalives := 0, map[pace]int{}
	for _, shape := range group {
		for _, i := range shape.nodes {
			n := &s.fleet.Nodes[i]
			out.Count++
			churn.add(n, s.fleet)
			keepalives[pace{n.Interval, n.Timeout}]++
			if n.TLS {
				withTLS++
			}
		}
	}
	out.TLS, out.Churn = 2*withTLS >= out.Count, churn.churn()
	usual := slices.SortedFunc(maps.Keys(keepalives), func(a, b pace) int {
		return cmp.Or(cmp.Compare(keepalives[b], keepalives[a]), cmp.Compare(a.interval, b.interval), cmp.Compare(a.timeout, b.timeout))
	})[0]
	out.Keepalive = &model.Keepalive{Interval: usual.interval, Timeout: usual.timeout}
	for i, l := range lines {
		out.Checks = append(out.Checks, l.check(fmt.Sprintf("check-%d-%d", number, i+1)))
	}
	return out
}

// check returns the check of this line in the scenario file.
func (l *line) check(name string) scenario.Check {
	out := scenario.Check{Name: name, Count: int(l.count), Interval: l.interval, TTL: l.ttl,
		Output: scenario.Output{Bytes: model.Size(min(max(l.bytes/max(1, l.states), 48), scenario.MaxOutput))}}
	if l.states == 0 {
		return out
	}
	for status, n := range l.status {
		if share := share(float64(n), float64(l.states)); status > 0 && share > 0 {
			if out.Status == nil {
				out.Status = map[string]float64{}
			}
			out.Status[[...]string{"ok", "warning", "critical", "unknown"}[status]] = share
		}
	}
	out.Flapping = share(float64(l.flapping), float64(l.states))
	out.Changes = min(1, share(float64(l.changes), float64(l.results)))
	wrong := 0.0
	for _, share := range out.Status {
		wrong += share
	}
	if least := 0.6 * out.Changes; wrong < least && least <= 1 { // a status can change so often only if as many states are not OK at times
		if out.Status == nil {
			out.Status = map[string]float64{}
		}
		out.Status["critical"] = share(out.Status["critical"]+least-wrong, 1)
	}
	return out
}

// share returns part/whole, rounded to at least four digits.
func share(part, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	digits := 4.0
	if part/whole < 0.001 {
		digits = 6
	}
	return math.Floor(part/whole*math.Pow(10, digits)+1e-9) / math.Pow(10, digits) // down: shares add up to one at most
}

// YAML returns the scenario as a file with comments about its source and assumptions.
func (s *Shape) YAML() ([]byte, error) {
	data, err := json.Marshal(s.Scenario)
	if err == nil {
		data, err = document.YAML(data)
	}
	if err != nil {
		return nil, fmt.Errorf("encode the scenario: %w", err)
	}
	var b bytes.Buffer
	for _, line := range s.head() {
		b.WriteString("# " + line + "\n")
	}
	b.Write(data)
	if _, err := scenario.Parse("the scenario", b.Bytes()); err != nil {
		return nil, fmt.Errorf("the fleet makes no scenario: %w", err)
	}
	return b.Bytes(), nil
}

// head returns the comment with the source of the file, the nodes and states that it leaves out, and the assumptions.
func (s *Shape) head() (list []string) {
	f := s.fleet
	say := func(when bool, format string, args ...any) {
		if when {
			list = append(list, fmt.Sprintf(format, args...))
		}
	}
	known := "unknown, and not played"
	if f.At.After(f.Since) {
		known = fmt.Sprintf("estimated from the ages of sessions and agents in the last %s", f.At.Sub(f.Since).Round(time.Minute))
	}
	say(true, "The shape of an installation with %s, %s and %s, read on %s from a server of version %s", number.Of(len(f.Nodes)-f.Never-f.Gone, "node"), number.Of(len(f.Checks), "check"), number.Of(len(f.States), "event state"),
		f.At.Format("2 January 2006, 15:04 UTC"), f.Version)
	say(true, "by muster load from-fleet. Names are numbers; outputs, labels, commands and groups are not in it.")
	say(true, "%s of checks in %s classes: the most expensive shape of each class sends %s of all results.", number.Of(s.shapes, "shape"), number.Count(len(s.Scenario.Agents)), number.Percent(s.exact))
	say(true, "Results per second: %s in the file, %s in the installation.", number.Rate(s.Scenario.Rate()), number.Rate(s.rate))
	say(f.Never+f.Gone > 0, "Left out: %s that never had an agent, %s without a sign of life for a day.", number.Of(f.Never, "node"), number.Count(f.Gone))
	say(f.Others > 0, "Left out: %s of other namespaces (-A takes all).", number.Of(f.Others, "node"))
	say(f.Unknown > 0, "Left out: %s of deleted checks.", number.Of(f.Unknown, "event state"))
	say(s.away > 0, "Assumed: %s without a session when it was read use TLS.", number.Of(s.away, "node"))
	say(true, "Reconnects and restarts: %s. Outages: problems of keepalives.", known)
	say(true, "Changes of status: as many per result as so far. States flap where half of their last results changed the status.")
	say(true, "Outputs are digits of the mean length. People and notifications are not played: see operators in docs/load-reference.md.")
	return list
}
