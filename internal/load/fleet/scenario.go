package fleet

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/load/number"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// DefaultClasses is the default limit of classes in a scenario.
const DefaultClasses = 8

// Scenario returns a scenario whose classes, at most this many, have the nodes of the fleet, and the results per second of
// the fleet by the intervals of its checks.
func (f *Fleet) Scenario(most int) (sc *scenario.Scenario, rate float64, err error) {
	classes, nodes := f.classes(max(1, most)), 0
	if len(classes) == 0 {
		return nil, 0, model.Errorf(model.NotFound, "none of the %d nodes was heard of in the last day: there is nothing to describe", len(f.Nodes)).
			WithHint("muster get nodes shows them")
	}
	for _, c := range classes {
		nodes, rate = nodes+len(c.nodes), rate+c.sum
	}
	sc = &scenario.Scenario{Scenario: scenario.Version, Title: fmt.Sprintf("The shape of an installation: %s nodes, %s results/s", number.Count(nodes), number.Rate(rate)), Seed: 1,
		Phases: []scenario.Phase{{Ramp: model.Duration(max(10, (len(f.Nodes)+199)/200)) * model.Duration(time.Second)},
			{Steady: model.Duration(10 * time.Minute), Warmup: model.Duration(time.Minute)}, {Drain: model.Duration(30 * time.Second)}},
		Objectives: map[string]scenario.Limit{"beyond-p99": "500ms"}}
	for i, c := range classes {
		sc.Agents = append(sc.Agents, c.class(i+1))
	}
	return sc, rate, nil
}

// class returns the class in the scenario file.
func (c *class) class(number int) scenario.Class {
	out := scenario.Class{Name: fmt.Sprintf("class-%d", number), Count: len(c.nodes)}
	type times struct{ interval, timeout model.Duration }
	withTLS, keepalives := 0, map[times]int{}
	for _, n := range c.nodes {
		keepalives[times{n.Interval, n.Timeout}]++
		if n.TLS {
			withTLS++
		}
	}
	out.TLS = 2*withTLS >= out.Count
	usual := slices.SortedFunc(maps.Keys(keepalives), func(a, b times) int {
		return cmp.Or(cmp.Compare(keepalives[b], keepalives[a]), cmp.Compare(a.interval, b.interval), cmp.Compare(a.timeout, b.timeout))
	})[0]
	out.Keepalive = &model.Keepalive{Interval: usual.interval, Timeout: usual.timeout}
	for i, l := range c.lines() {
		out.Checks = append(out.Checks, l.check(fmt.Sprintf("check-%d-%d", number, i+1)))
	}
	return out
}

// YAML returns a scenario file of the fleet, with comments about its source and assumptions.
func (f *Fleet) YAML(classes int) ([]byte, *scenario.Scenario, error) {
	sc, rate, err := f.Scenario(classes)
	if err != nil {
		return nil, nil, err
	}
	data, err := sc.YAML()
	if err != nil {
		return nil, nil, err
	}
	var b bytes.Buffer
	for _, line := range f.head(sc, rate) {
		b.WriteString("# " + line + "\n")
	}
	b.Write(data)
	if sc, err = scenario.Parse("the scenario", b.Bytes()); err != nil {
		return nil, nil, fmt.Errorf("the fleet makes no scenario: %w", err)
	}
	return b.Bytes(), sc, nil
}

// head returns the comment with the source of the file, the nodes and states that it leaves out, and the assumptions.
func (f *Fleet) head(sc *scenario.Scenario, rate float64) []string {
	return []string{
		fmt.Sprintf("The shape of an installation with %s, %s and %s, read on %s from a server of version %s", number.Of(len(f.Nodes)-f.Never-f.Gone, "node"), number.Of(len(f.Checks), "check"),
			number.Of(f.States, "event state"), f.At.Format("2 January 2006, 15:04 UTC"), f.Version),
		"by muster load from-fleet. Names are numbers; outputs, labels, commands and groups are not in it.",
		fmt.Sprintf("Results per second: %s in the file, %s in the installation.", number.Rate(sc.Rate()), number.Rate(rate)),
		fmt.Sprintf("Left out: %s that never had an agent, %s without a sign of life for a day, %s of deleted checks.", number.Of(f.Never, "node"), number.Count(f.Gone), number.Of(f.Unknown, "event state")),
		"Assumed: nodes without a session when it was read use TLS.",
		"Changes of status: as many per result as so far. States flap where half of their last results changed the status.",
		"Outputs are digits of the mean length. Machines that come and go, people and notifications are not played: see churn and operators in docs/load-reference.md.",
	}
}
