package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/inventory"
	"github.com/muster-fleet/muster/internal/load/outputs"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/policy"
)

// Directives is the directives of a scenario, computed: those of each node of its class with policies, with their modes, and the
// codes of each run. Nodes are numbered within the class.
//
// A node sends one signal at each tick. A round is one interval of the directives: the node runs each directive once, one after
// the other, and, if its class has inventories, sends a change of its inventory.
type Directives struct {
	Class      string
	First      int // number of its first node among all of the fleet
	Nodes      int
	Components int           // of each directive
	Every      time.Duration // interval of the directives
	spec       scenario.Policy
	inventory  int // entries of a node; zero: none
	seed       uint64
	held       [][]uint16 // directives of each node, ascending; the others are overridden, or no policy puts them there
}

// NewDirectives computes the directives of a scenario; it returns nil if it has none.
func NewDirectives(sc *scenario.Scenario) *Directives {
	first := 0
	for i := range sc.Agents {
		if c := &sc.Agents[i]; len(c.Policies) > 0 {
			return newDirectives(sc, c, first)
		}
		first += sc.Agents[i].Count
	}
	return nil
}

// newDirectives computes the directives of the class with policies.
func newDirectives(sc *scenario.Scenario, c *scenario.Class, first int) *Directives {
	p := &Directives{Class: c.Name, First: first, Nodes: c.Count, spec: c.Policies[0], Every: time.Duration(c.Policies[0].Interval), seed: sc.Seed}
	p.spec.Directives, p.spec.Policies = max(1, p.spec.Directives), max(1, p.spec.Policies)
	for size := 0; size < int(c.Inventory); p.inventory++ {
		size += len(p.Entry(0, p.inventory, 0))
	}
	held := 0
	for node := range p.Nodes {
		p.held = append(p.held, p.heldBy(node))
		held += len(p.held[node])
	}
	p.Components = max(1, (p.spec.Components*p.Nodes+held/2)/held)
	return p
}

// DirectiveName returns the name of a directive.
func DirectiveName(d int) string { return numbered("directive", d) }

// numbered returns the name of a directive, technique, policy or group.
func numbered(thing string, n int) string { return fmt.Sprintf("%s-%03d", thing, n) }

// groupLabels is the number of labels that groups read; a node has each of them, and is in about one group by each.
const groupLabels = 6

// groupValue returns the number of the group that selects a node by a label; there may be no such group.
func groupValue(groups, node, label int) int {
	return int(outputs.Mix(uint64(node)<<3|uint64(label)) % uint64((groups+groupLabels-1)/groupLabels))
}

// GroupLabels returns the labels of a node of a class that the groups of its policies read.
func GroupLabels(c *scenario.Class, node int) map[string]string {
	labels := map[string]string{}
	for _, p := range c.Policies {
		for k := 0; k < groupLabels && p.Groups > 0; k++ {
			labels[fmt.Sprintf("set%d", k)] = fmt.Sprint(groupValue(p.Groups, node, k))
		}
	}
	return labels
}

// isMember reports whether a node is in a group.
func (p *Directives) isMember(node, group int) bool {
	return groupValue(p.spec.Groups, node, group%groupLabels) == group/groupLabels
}

// targets returns the groups of a policy; none means all nodes.
func (p *Directives) targets(of int) []int {
	if p.spec.Groups == 0 || of < (p.spec.Policies+3)/4 {
		return nil
	}
	return []int{of * 7 % p.spec.Groups, (of*11 + 3) % p.spec.Groups}
}

// technique returns the technique of a directive: about every third directive shares it with another one, so that one of both
// overrides the other.
func (p *Directives) technique(d int) int { return d % p.techniques() }

// techniques returns the number of techniques.
func (p *Directives) techniques() int { return (p.spec.Directives*10 + 12) / 13 }

// priority returns the priority of a directive. Nothing overrides the first one.
func priority(d int) int { return d % 11 }

// policyOf returns the policy of a directive.
func (p *Directives) policyOf(d int) int { return d % p.spec.Policies }

// heldBy returns the directives of a node, ascending, without overridden ones.
func (p *Directives) heldBy(node int) (list []uint16) {
	best := map[int]int{} // directive by technique
	for d := range p.spec.Directives {
		groups := p.targets(p.policyOf(d))
		if len(groups) > 0 && !slices.ContainsFunc(groups, func(g int) bool { return p.isMember(node, g) }) {
			continue
		}
		t := p.technique(d)
		if other, rivals := best[t]; !rivals || cmp.Or(cmp.Compare(priority(d), priority(other)), cmp.Compare(p.policyOf(d), p.policyOf(other)), cmp.Compare(d, other)) < 0 {
			best[t] = d
		}
	}
	for _, d := range best {
		list = append(list, uint16(d))
	}
	slices.Sort(list)
	return list
}

// Held returns the directives of a node, ascending.
func (p *Directives) Held(node int) []uint16 { return p.held[node] }

// Number returns the number of a directive by its name.
func (p *Directives) Number(name string) (d int, ok bool) {
	n, err := fmt.Sscanf(name, "directive-%d", &d)
	return d, n == 1 && err == nil
}

// Runs returns how many directives all nodes have.
func (p *Directives) Runs() (n int) {
	for _, held := range p.held {
		n += len(held)
	}
	return n
}

// Rate returns how many components all nodes report in a second.
func (p *Directives) Rate() float64 {
	return float64(p.Runs()*p.Components) / time.Duration(p.spec.Interval).Seconds()
}

// mode returns the mode of a directive, or an empty text if the node's mode applies.
func mode(d int) string { return [...]string{"", model.ModeAudit, model.ModeEnforce}[d%3] }

// nodeMode returns the mode of a node: a tenth has one.
func nodeMode(node int) string {
	return map[int]string{0: model.ModeAudit, 1: model.ModeEnforce}[node%20]
}

// Enforces reports whether a directive repairs a node.
func (p *Directives) Enforces(node, d int) bool {
	return nodeMode(node) != model.ModeAudit && cmp.Or(mode(d), nodeMode(node)) == model.ModeEnforce
}

// round returns the number of signals that a node sends in an interval.
func (p *Directives) round(node int) int { return len(p.held[node]) + min(p.inventory, 1) }

// RunTime is the time that each run of a directive takes.
const RunTime = 20 * time.Millisecond

// Offsets returns the times of a node's signals within a round. The runs follow each other in at most a quarter of the interval.
func (p *Directives) Offsets(node int) []time.Duration {
	list := make([]time.Duration, p.round(node))
	step := min(RunTime, p.Every/4/time.Duration(len(list)))
	list[0] = time.Duration(outputs.Share(outputs.Mix(p.seed^uint64(node)<<20)) * float64(p.Every-time.Duration(len(list))*step))
	for i := range list[1:] {
		list[i+1] = list[i] + step
	}
	return list
}

// Signal returns the round of a tick, and the place of its directive among those of the node; -1: the inventory, which has another
// place in the round on each node.
func (p *Directives) Signal(node int, tick uint64) (round uint64, place int) {
	n := uint64(p.round(node))
	round, place = tick/n, int(tick%n)
	if p.inventory == 0 {
		return round, place
	}
	switch at := node % int(n); {
	case place == at:
		return round, -1
	case place > at:
		place--
	}
	return round, place
}

// Rounds returns how many runs of each directive of a node the first ticks have.
func (p *Directives) Rounds(node int, ticks uint64) []uint64 {
	n := uint64(p.round(node))
	runs := make([]uint64, len(p.held[node]))
	for i := range runs {
		runs[i] = ticks / n
	}
	for tick := ticks / n * n; tick < ticks; tick++ {
		if _, place := p.Signal(node, tick); place >= 0 {
			runs[place]++
		}
	}
	return runs
}

// Changes returns how many changes of a node's inventory the first ticks have.
func (p *Directives) Changes(node int, ticks uint64) uint64 {
	if p.inventory == 0 {
		return 0
	}
	n := uint64(p.round(node))
	if ticks%n > uint64(node)%n {
		return ticks/n + 1
	}
	return ticks / n
}

// draw returns a random number of a directive, or of one of its components, on a node.
func (p *Directives) draw(node, d, component int) uint64 {
	return outputs.Mix(p.seed ^ uint64(node)<<36 ^ uint64(d)<<20 ^ uint64(component))
}

// Version returns how often the codes of a directive have changed up to a round.
func (p *Directives) Version(node, d int, round uint64) uint64 {
	return uint64(float64(round)*p.spec.Changes + outputs.Share(p.draw(node, d, 1<<16)))
}

// Codes returns the codes of a run. A component that complies has another code in each version; half of the components of a
// directive fail for good, or none, so that a directive has a problem for long, as on real machines.
func (p *Directives) Codes(node, d int, version uint64) policy.Codes {
	codes, enforced := policy.NewCodes(p.Components), p.Enforces(node, d)
	good, bad := [...]policy.Status{policy.Compliant, policy.NotApplicable}[version%2], policy.NonCompliant
	if enforced {
		good, bad = [...]policy.Status{policy.Success, policy.Repaired}[version%2], policy.Error
	}
	fails := outputs.Share(p.draw(node, d, 1<<16+1)) < 2*p.spec.Failing
	for i := range p.Components {
		status := good
		if fails && outputs.Share(p.draw(node, d, i)) < max(0.5, p.spec.Failing) {
			status = bad
		}
		codes.Set(i, status)
	}
	return codes
}

// Entry returns an entry of a node's inventory. The first one has another version after each change.
func (p *Directives) Entry(node, i int, change uint64) inventory.Entry {
	release := outputs.Mix(uint64(i))
	version := fmt.Sprintf("%d.%d.%d-%d+deb12u%d", release%7, release>>8%31, release>>16%11, release>>24%3, p.draw(node, 1<<15, i)%3)
	if i == 0 {
		version = fmt.Sprintf("1.%d", change)
	}
	return inventory.New(inventory.Packages, fmt.Sprintf("lib-%04d-%x", i, release>>40), version, "amd64", "dpkg")
}

// Entries returns how many entries the inventory of a node has.
func (p *Directives) Entries() int { return p.inventory }

// properties is the number of properties that directives read.
const properties = 40

// text returns the parameter of a directive after some changes; every tenth directive reads a property.
func text(d, edits int) model.ParameterValue {
	value := fmt.Sprintf("text %d of %d", edits, d)
	if d%10 == 0 {
		value += fmt.Sprintf(" {{ .props.p%02d }}", d/10%properties)
	}
	return model.TextValue(value)
}

// EditsOf returns how often the directive that all nodes have was changed, by its parameter; ok is false for another directive.
func EditsOf(d *model.DirectiveDefinition) (edits int, ok bool) {
	if d.Name != DirectiveName(0) {
		return 0, false
	}
	_, err := fmt.Sscanf(d.Parameters["text"], "text %d", &edits)
	return edits, err == nil
}

// directive returns a directive after some changes.
func (p *Directives) directive(d, edits int) *model.DirectiveSpec {
	order := priority(d)
	return &model.DirectiveSpec{Technique: numbered("technique", p.technique(d)), Parameters: map[string]model.ParameterValue{"text": text(d, edits)}, Mode: mode(d),
		Trusted: "facts", Priority: &order, Interval: p.spec.Interval}
}

// Resource makes a resource of a name and a spec.
type Resource func(name string, spec model.Spec) model.Resource

// Edited returns the directive that all nodes have, after some changes.
func (p *Directives) Edited(edits int, of Resource) model.Resource {
	return of(DirectiveName(0), p.directive(0, edits))
}

// Resources returns the techniques, directives, policies, groups and properties.
func (p *Directives) Resources(of Resource) (list []model.Resource) {
	number := func(n int) json.RawMessage { return json.RawMessage(fmt.Sprint(n)) }
	for i := range properties {
		list = append(list, of(fmt.Sprintf("p%02d", i), &model.PropertySpec{Value: number(-i)}))
	}
	for t := range p.techniques() {
		technique := &model.TechniqueSpec{Parameters: []model.Parameter{{Name: "text"}}}
		for k := range p.Components {
			technique.Methods = append(technique.Methods, model.Method{Component: fmt.Sprint("component ", k),
				FileContent: &model.FileContentMethod{Path: fmt.Sprintf("/etc/load/file%d.%d", t, k), Content: "{{ .params.text }}"}})
		}
		list = append(list, of(numbered("technique", t), technique))
	}
	for g := range p.spec.Groups {
		list = append(list, of(numbered("group", g), &model.GroupSpec{Where: fmt.Sprintf(`node.labels.set%d == "%d"`, g%groupLabels, g/groupLabels)}))
	}
	names := make([][]string, p.spec.Policies)
	for d := range p.spec.Directives {
		list = append(list, of(DirectiveName(d), p.directive(d, 0)))
		names[p.policyOf(d)] = append(names[p.policyOf(d)], DirectiveName(d))
	}
	for i := range names {
		groups := []string{p.Class}
		if targets := p.targets(i); targets != nil {
			groups = []string{numbered("group", targets[0]), numbered("group", targets[1])}
		}
		slices.Sort(groups)
		list = append(list, of(numbered("policy", i), &model.PolicySpec{Directives: names[i], Targets: &model.Targets{Groups: slices.Compact(groups)}}))
	}
	return list
}

// Node returns a node with its mode and properties.
func (p *Directives) Node(node int) *model.NodeSpec {
	spec := &model.NodeSpec{PolicyMode: nodeMode(node)}
	if node%10 == 3 {
		spec.Properties = map[string]json.RawMessage{fmt.Sprintf("p%02d", node/10%properties): json.RawMessage(fmt.Sprint(node))}
	}
	return spec
}
