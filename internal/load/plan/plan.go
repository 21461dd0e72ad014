// Package plan computes from a scenario and its seed alone what a run has to be: the timetable of its phases; the value of each item
// of each node at each tick, and which problems its triggers open; the directives of each node, and the codes of each of their runs. It
// opens no connection and reads no clock, so that any series and any run can be computed again and compared with what the
// server returns. A tick is the number of a node's signal.
//
// Goroutines, locks: none. Start reading at NewTimetable, New (values) and NewDirectives.
package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/load/outputs"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// Plan is the values of a scenario, computed. Nodes are numbered as members of the fleet.
type Plan struct {
	Nodes   int     // of all classes
	Classes []Class // also those without items
	seed    uint64
}

// Class has the items of a class; each node of it has all of them.
type Class struct {
	Name     string
	First    int // number of its first node among all
	Nodes    int
	Interval time.Duration // of all its items
	Items    []Item        // ascending by key; none: its nodes send no values
}

// Item is one item of a class.
type Item struct {
	Key    string
	Kind   Kind
	Window int    // its trigger is a problem when so many last values are high; zero: it has no trigger
	Script bool   // a step of JavaScript doubles its values
	From   string // key of the document of which the server makes its values; empty: the agent sends them
}

// Kind is the shape of an item's values.
type Kind uint8

// The kinds. Watched items have a trigger: their values are high for a tenth of the time.
const (
	Constant Kind = iota
	Counter
	Gauge
	Percent
	Text
	Document // a JSON text with the values of the items that are made of it
	Watched
)

// IsText reports whether the series store has no values of this kind.
func (k Kind) IsText() bool { return k == Text || k == Document }

// New computes the values of a scenario; it returns nil if it has none.
func New(sc *scenario.Scenario) *Plan {
	if sc.ValueRate() == 0 {
		return nil
	}
	p := &Plan{seed: sc.Seed}
	for i := range sc.Agents {
		c := &sc.Agents[i]
		class := Class{Name: c.Name, First: p.Nodes, Nodes: c.Count}
		for _, v := range c.Values {
			class.Interval = time.Duration(v.Interval)
			for n := range max(1, v.Count) {
				class.Items = append(class.Items, newItem(&v, n))
				for k := range v.Dependents {
					class.Items = append(class.Items, Item{Key: fmt.Sprintf("%s.%02d[%03d]", v.Name, k, n), Kind: Percent, From: class.Items[len(class.Items)-1-k].Key})
				}
			}
		}
		slices.SortFunc(class.Items, func(a, b Item) int { return cmp.Compare(a.Key, b.Key) })
		p.Nodes += c.Count
		p.Classes = append(p.Classes, class)
	}
	return p
}

// newItem returns item n of a group of values.
func newItem(v *scenario.Values, n int) Item {
	of := Item{Key: fmt.Sprintf("%s[%03d]", v.Name, n), Kind: Kind(n % 4)}
	switch {
	case v.Dependents > 0:
		of.Kind = Document
	case v.Type == "text":
		of.Kind = Text
	case v.TriggerEvery > 0 && n%v.TriggerEvery == 0:
		of.Kind, of.Window = Watched, 1
		if n/v.TriggerEvery%2 == 1 {
			of.Window = 3
		}
	case v.Type == "integer":
		of.Kind = Counter
	}
	of.Script = v.ScriptEvery > 0 && (n+1)%v.ScriptEvery == 0 && of.Window == 0 && !of.Kind.IsText()
	return of
}

// Class returns the class of a node.
func (p *Plan) Class(node int) *Class {
	for i := range p.Classes {
		if c := &p.Classes[i]; node < c.First+c.Nodes {
			return c
		}
	}
	panic(fmt.Sprintf("BUG: node %d of %d", node, p.Nodes))
}

// Items returns how many items all nodes have.
func (p *Plan) Items() (n int) {
	for _, c := range p.Classes {
		n += c.Nodes * len(c.Items)
	}
	return n
}

// Offset returns the time of a node's first values within its interval.
func (p *Plan) Offset(c *Class, node int) time.Duration {
	return time.Duration(outputs.Share(outputs.Mix(p.seed^uint64(node)<<20)) * float64(c.Interval))
}

// The wave of watched items, in ticks.
const (
	wavePeriod = 600
	waveHigh   = 60
)

// isHigh reports whether a watched item has a high value at a tick.
func (p *Plan) isHigh(node, of int, tick uint64) bool {
	return (tick+p.draw(node, of, 0)%wavePeriod)%wavePeriod < waveHigh
}

// draw returns the random number of an item at a tick.
func (p *Plan) draw(node, of int, tick uint64) uint64 {
	return outputs.Mix(p.seed ^ uint64(node)<<40 ^ uint64(of)<<28 ^ tick)
}

// Stored returns the number that the server stores of an item's value at a tick.
func (p *Plan) Stored(c *Class, node, of int, tick uint64) float64 {
	v := p.Value(c, node, of, tick).Float()
	if c.Items[of].Script {
		v *= 2
	}
	return v
}

// documentBytes is the least size of a document.
const documentBytes = 1000

// document returns a JSON text with the values of the items that are made of it, by their keys.
func (p *Plan) document(c *Class, node, of int, tick uint64) string {
	b := append(make([]byte, 0, documentBytes+16), '{')
	for i := range c.Items {
		if c.Items[i].From == c.Items[of].Key {
			b = append(strconv.AppendQuote(b, c.Items[i].field()), ':')
			b = append(strconv.AppendFloat(b, p.float(c.Items[i].Kind, node, i, tick), 'g', -1, 64), ',')
		}
	}
	b = append(b, `"text":"`...)
	for len(b) < documentBytes {
		b = append(b, 'x')
	}
	return string(append(b, `"}`...))
}

// field returns the name under which a document has the value of an item.
func (i *Item) field() string {
	name, _, _ := strings.Cut(i.Key, "[")
	return name[strings.LastIndexByte(name, '.')+1:]
}

// Value returns the value of an item of a node at a tick, as the agent sends it.
func (p *Plan) Value(c *Class, node, of int, tick uint64) item.Value {
	switch kind := c.Items[of].Kind; kind {
	case Counter:
		return item.FromUnsigned(p.draw(node, of, 0)%1_000_000 + tick*(uint64(node+of)%1000+1))
	case Document:
		return item.FromText(p.document(c, node, of, tick))
	case Text:
		return item.FromText(fmt.Sprintf("service-%d request %016x took %d ms and was answered with status 200 by worker %d", of, p.draw(node, of, tick), tick%977, node))
	default:
		return item.FromFloat(p.float(kind, node, of, tick))
	}
}

// float returns the value of an item that is neither a counter nor a text.
func (p *Plan) float(kind Kind, node, of int, tick uint64) float64 {
	switch kind {
	case Constant:
		return float64(p.draw(node, of, 0) % 1000)
	case Gauge:
		return float64(p.draw(node, of, tick+1) % 100)
	case Watched:
		if r := p.draw(node, of, tick+1); p.isHigh(node, of, tick) {
			return float64(90 + r%10)
		} else {
			return float64(r % 40)
		}
	}
	return float64(p.draw(node, of, tick+1)%10_000) / 100
}

// limit is the threshold of the triggers. Fewer high values than the window has never reach it on average: (99+99+39)/3 < 80.
const limit = 80

// Series returns how many items of all nodes have numbers, each with a series in the server's store.
func (p *Plan) Series() (n int) {
	for i := range p.Classes {
		c := &p.Classes[i]
		for k := range c.Items {
			if !c.Items[k].Kind.IsText() {
				n += c.Nodes
			}
		}
	}
	return n
}

// Resources returns the Templates of all classes.
func (p *Plan) Resources(of Resource) (list []model.Resource) {
	for i := range p.Classes {
		if c := &p.Classes[i]; len(c.Items) > 0 {
			list = append(list, of(c.Name, c.Template()))
		}
	}
	return list
}

// Template returns the Template that all nodes of a class have.
func (c *Class) Template() *model.TemplateSpec {
	spec := &model.TemplateSpec{Targets: &model.Targets{Groups: []string{c.Name}}}
	for _, i := range c.Items {
		out := model.Item{Key: i.Key, Type: map[Kind]string{Counter: "unsigned", Text: "text", Document: "text"}[i.Kind], Interval: model.IntervalOf(model.Duration(max(c.Interval, time.Second)))}
		if i.From != "" {
			out.From, out.Interval = i.From, ""
			out.Steps = []model.Step{{Name: "jsonPath", Parameters: []string{"$['" + i.field() + "']"}}}
		}
		if i.Script {
			out.Steps = []model.Step{{Name: "javascript", Parameters: []string{"return value * 2"}}}
		}
		spec.Items = append(spec.Items, out)
		switch i.Window {
		case 0:
		case 1:
			spec.Triggers = append(spec.Triggers, model.Trigger{Name: i.TriggerName(), Expression: fmt.Sprintf("last(//%s)>%d", i.Key, limit)})
		default:
			spec.Triggers = append(spec.Triggers, model.Trigger{Name: i.TriggerName(), Expression: fmt.Sprintf("avg(//%s,#%d)>%d", i.Key, i.Window, limit)})
		}
	}
	return spec
}

// TriggerName returns the name of the item's trigger.
func (i *Item) TriggerName() string {
	return strings.NewReplacer("[", " ", "]", "").Replace(i.Key) + " is high"
}

// Problems returns how many problems the trigger of an item opens while the first ticks are applied, and whether one is open
// behind them.
func (p *Plan) Problems(c *Class, node, of int, ticks uint64) (opened int, open bool) {
	high := 0
	for tick := range ticks {
		if high++; !p.isHigh(node, of, tick) {
			high = 0
		}
		was := open
		open = high >= min(c.Items[of].Window, int(tick)+1)
		if open && !was {
			opened++
		}
	}
	return opened, open
}
