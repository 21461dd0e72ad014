package fleet

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/load/number"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// DefaultClasses is how many classes a scenario has at most, unless more are asked for.
const DefaultClasses = 8

// Shape is a fleet as a scenario, and what has to be said of it.
type Shape struct {
	Scenario *scenario.Scenario

	fleet   *Fleet
	classes []class
	shared  []*shared
	keyed   bool    // the hashes can be made again
	rate    float64 // of the fleet, results per second, by its intervals
	shapes  int
	exact   float64 // share of the rate that is of nodes whose checks are of the shape that costs most in their class
}

// class is what stands behind one class of the scenario.
type class struct {
	lines  []*line
	groups []string // that the file has of it, by their names there
	coming coming
	nodes  int
	alike  int     // of them, those of the shape that costs most …
	others int     // … and the number of other shapes …
	apart  float64 // … with their share of the class's results
	away   int     // without a session when it was read
	odd    int     // whose keepalive is another one
}

// Scenario puts the nodes into at most so many classes.
func (f *Fleet) Scenario(names Names, keyed bool, classes int) (*Shape, error) {
	kinds := f.kinds()
	shapes := f.shapes(kinds)
	if len(shapes) == 0 {
		return nil, model.Errorf(model.NotFound, "none of the %d nodes was heard of in the last day: there is nothing to describe", len(f.Nodes)).
			WithHint("muster get nodes shows them")
	}
	out := &Shape{fleet: f, keyed: keyed, shapes: len(shapes)}
	of := make([]int, len(f.Nodes)) // the class of each
	exact := 0.0
	for i, group := range gather(shapes, max(1, classes)) {
		var c class
		most := slices.MaxFunc(group, func(a, b *shape) int { return cmp.Compare(a.weight(), b.weight()) })
		whole := 0.0
		for _, s := range group {
			whole += s.rate() * float64(len(s.nodes))
			c.nodes += len(s.nodes)
			for _, n := range s.nodes {
				of[n] = i
				c.coming.take(&f.Nodes[n], f)
				if !f.Nodes[n].Connected {
					c.away++
				}
			}
		}
		own := most.rate() * float64(len(most.nodes))
		c.alike, c.others = len(most.nodes), len(group)-1
		if whole > 0 {
			c.apart = 1 - own/whole
		}
		out.rate += whole
		exact += own
		out.classes = append(out.classes, c)
	}
	out.exact = 1
	if out.rate > 0 {
		out.exact = exact / out.rate
	}
	for i := range out.classes {
		out.classes[i].groups = out.groupsOf(i, of, out.classes[i].nodes)
	}
	out.lines(kinds, of)
	out.Scenario = &scenario.Scenario{Scenario: scenario.Version, Title: out.title(), Seed: 1,
		Phases: []scenario.Phase{{Ramp: model.Duration(max(10, (len(f.Nodes)+199)/200)) * model.Duration(time.Second)},
			{Steady: model.Duration(10 * time.Minute), Warmup: model.Duration(time.Minute)}, {Drain: model.Duration(30 * time.Second)}},
		Objectives: map[string]scenario.Limit{"beyond-p99": "500ms"}}
	for i := range out.classes {
		out.Scenario.Agents = append(out.Scenario.Agents, out.class(&out.classes[i], names, of, i))
	}
	for _, x := range out.shared {
		out.Scenario.Checks = append(out.Scenario.Checks, out.groupCheck(x, names))
	}
	return out, nil
}

// lines makes those of several classes, those of each, and counts every state on the one that it
// is of.
func (s *Shape) lines(kinds map[model.CheckID]kind, of []int) {
	common := s.common(kinds, of)
	own := func(state *State) bool {
		x := common[state.Check]
		return x == nil || !x.runs[of[state.Node]]
	}
	counts := make([]map[kind]float64, len(s.classes))
	for i := range counts {
		counts[i] = map[kind]float64{}
	}
	for i := range s.fleet.States {
		if state := &s.fleet.States[i]; own(state) {
			counts[of[state.Node]][kinds[state.Check]]++
		}
	}
	for i := range s.classes {
		c, room := &s.classes[i], float64(model.DefaultStatesPerNode)
		for _, x := range s.shared {
			if x.runs[i] {
				room -= x.line.count
			}
		}
		for k := range counts[i] {
			counts[i][k] /= float64(c.nodes)
		}
		c.lines = linesOf(counts[i], room)
	}
	at := make([]map[kind]*line, len(s.classes))
	for i := range s.classes {
		at[i] = map[kind]*line{}
		for _, l := range s.classes[i].lines {
			for _, k := range l.kinds {
				at[i][k] = l
			}
		}
	}
	for i := range s.fleet.States {
		state := &s.fleet.States[i]
		if own(state) {
			at[of[state.Node]][kinds[state.Check]].take(state)
		} else {
			common[state.Check].line.take(state)
		}
	}
}

// class is one of the file's.
func (s *Shape) class(c *class, names Names, of []int, number int) scenario.Class {
	out := scenario.Class{Count: c.nodes, Churn: c.coming.churn()}
	type pace struct{ interval, timeout model.Duration }
	withTLS, keepalives := 0, map[pace]int{}
	for i := range s.fleet.Nodes {
		if n := &s.fleet.Nodes[i]; of[i] == number && !n.Left {
			keepalives[pace{n.Interval, n.Timeout}]++
			if n.TLS {
				withTLS++
			}
		}
	}
	out.TLS = 2*withTLS >= c.nodes
	usual, most := pace{}, 0
	for k, n := range keepalives {
		if n > most || n == most && (k.interval < usual.interval || k.interval == usual.interval && k.timeout < usual.timeout) {
			usual, most = k, n
		}
	}
	out.Keepalive, c.odd = &model.Keepalive{Interval: usual.interval, Timeout: usual.timeout}, c.nodes-most
	var all []string
	for _, l := range c.lines {
		held := s.held(l)
		all = append(all, held...)
		out.Checks = append(out.Checks, s.check(l, names.of("check", held...)))
	}
	for _, g := range c.groups {
		out.Groups = append(out.Groups, names.of("group", g))
	}
	out.Name = names.of("class", all...)
	if slices.ContainsFunc(s.Scenario.Agents, func(o scenario.Class) bool { return o.Name == out.Name }) {
		out.Name = names.of("class", append(all, fmt.Sprint(number))...)
	}
	return out
}

// held is what a line stands for, of which its name is made: a class may have the same checks on
// two lines only if the rest differs.
func (s *Shape) held(l *line) (list []string) {
	for id := range l.checks {
		list = append(list, s.fleet.Checks[id].Name)
	}
	slices.Sort(list)
	return append(list, fmt.Sprint(l.interval, l.ttl, l.kinds[0].size))
}

// check is one line of a class, or of several.
func (s *Shape) check(l *line, name string) scenario.Check {
	mean, _, _ := l.sizes()
	out := scenario.Check{Name: name, Count: int(l.count), Interval: l.interval, TTL: l.ttl,
		Output: scenario.Output{Bytes: model.Size(min(max(mean, 48), scenario.MaxOutput))}}
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
	out.Changes = min(1, share(l.changed*s.fleet.PerChanged, l.results))
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

// share is a part of a whole, down to a millionth.
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

func (s *Shape) title() string {
	nodes := 0
	for i := range s.classes {
		nodes += s.classes[i].nodes
	}
	return fmt.Sprintf("The shape of an installation: %s nodes, %s results/s", number.Count(nodes), perSecond(s.rate))
}
