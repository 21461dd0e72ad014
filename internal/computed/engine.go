package computed

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/prometheus/storage"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/trigger"
	"github.com/muster-fleet/muster/internal/when"
	"github.com/muster-fleet/muster/internal/wire"
)

// tick is the time between two searches for due items.
const tick = time.Second

// Options has the parts of the server that an Engine of computed items calls.
type Options struct {
	Templates func() []*directory.Unit
	Directory Directory
	Series    func(namespace string) storage.Queryable // of one namespace
	Server    Server
	Record    func(ctx context.Context, entries []journal.Entry) error // returns when the entries are durable and applied
	Now       func() time.Time
	Log       *slog.Logger
}

// Directory looks up nodes, groups and items for the formulas of computed items. *directory.Directory implements it.
type Directory interface {
	Revision() int64
	Nodes(namespace string) []model.NodeID
	UnitNodes(unit model.UnitID) []model.NodeID
	Node(id model.NodeID) *directory.Node
	AssignmentOf(id model.NodeID) *directory.Assignment
	GroupMembers(namespace, name string) []model.NodeID
	NodeByName(namespace, name string) (model.NodeID, bool)
	NamespaceByName(name string) (model.NamespaceID, bool)
	UnitByName(kind, namespace, name string) (model.UnitID, bool)
	SourceUnit(s model.Source) *directory.Unit
}

// Engine computes items from other items, such as totals over several nodes. Any goroutine may call Count.
type Engine struct {
	opts    Options
	forms   []*compiledTemplate
	written atomic.Uint64
	trouble bool // the journal refused the last values
}

// New returns an engine for computed items, which computes nothing until Run is called.
func New(o Options) *Engine { return &Engine{opts: o} }

// Count returns the number of computed values that were written since the server's start.
func (e *Engine) Count() uint64 { return e.written.Load() }

// compiledTemplate has the compiled formulas of one Template's computed items, for nodes with equal macro
// values. It also has the nodes with these values.
type compiledTemplate struct {
	definition *model.TemplateDefinition
	macros     string // as in wire.ValueBlock
	items      []computedItem
	nodes      []model.NodeID
}

// computedItem is a computed item with its compiled formula.
type computedItem struct {
	*model.Item
	position uint32
	interval int64            // ns
	program  *trigger.Program // nil: an internal item, or fault is set
	internal model.InternalKey
	fault    error
}

// Run computes the due items until ctx ends.
func (e *Engine) Run(ctx context.Context) error {
	last := e.opts.Now()
	for revision := int64(-1); ; {
		if pause.For(ctx, tick) != nil {
			return nil
		}
		if now := e.opts.Directory.Revision(); now != revision {
			e.forms, revision = e.compileTemplates(), now
		}
		now := e.opts.Now()
		e.compute(ctx, last, now)
		last = now
	}
}

// compileTemplates returns the compiled formulas of all Templates that have computed items.
func (e *Engine) compileTemplates() (forms []*compiledTemplate) {
	type formKey struct {
		definition model.DefinitionID
		macros     string
	}
	byKey := map[formKey]*compiledTemplate{}
	for _, u := range e.opts.Templates() {
		if c := u.Definition.AsTemplate(); c == nil || u.Disabled || !hasComputedItems(c) {
			continue
		}
		for _, node := range e.opts.Directory.UnitNodes(u.ID) {
			a := e.opts.Directory.AssignmentOf(node)
			if a == nil || a.UID == uuid.Nil {
				continue
			}
			for _, d := range a.Definitions {
				c := d.AsTemplate()
				if c == nil || c.Unit != u.ID {
					continue
				}
				set := c.PropertyMacros(wire.PropertyLookup(a.Properties))
				key := formKey{c.ID, wire.EncodeMacros(set)}
				f := byKey[key]
				if f == nil {
					f = compileTemplate(c, key.macros, set)
					byKey[key] = f
					forms = append(forms, f)
				}
				f.nodes = append(f.nodes, node)
			}
		}
	}
	return slices.DeleteFunc(forms, func(f *compiledTemplate) bool { return len(f.items) == 0 })
}

// hasComputedItems reports whether a Template has computed items.
func hasComputedItems(c *model.TemplateDefinition) bool {
	return slices.ContainsFunc(c.Items, func(i model.Item) bool { return i.IsComputed() })
}

// compileTemplate compiles the computed items of a Template. Items that the metric view computes are left out.
func compileTemplate(c *model.TemplateDefinition, macros string, set map[string]string) *compiledTemplate {
	f, values := &compiledTemplate{definition: c, macros: macros}, c.MacroValues(set)
	for i := range c.Items {
		one := computedItem{Item: &c.Items[i], position: uint32(i)}
		if !one.IsComputed() {
			continue
		}
		interval, err := when.FixedInterval(one.Interval, values)
		if one.fault = err; err != nil {
			interval = model.DefaultItemInterval.First()
		}
		one.interval = int64(interval)
		switch {
		case err != nil:
		case one.Internal:
			var key string
			if key, one.fault = values.Expand(one.Key); one.fault == nil {
				one.internal, one.fault = model.ParseInternalKey(key)
			}
		default:
			program, err := trigger.CompileFormula(c.Items, one.Formula, values.Value)
			if err != nil || len(program.Selections()) == 0 {
				continue // the metric view has the reason, or computes it
			}
			one.program = program
		}
		f.items = append(f.items, one)
	}
	return f
}

// maxEntries bounds the entries of one append to the journal.
const maxEntries = 1000

// compute computes the items due since the last tick, and writes their values to the journal.
func (e *Engine) compute(ctx context.Context, last, now time.Time) {
	var entries []journal.Entry
	values := 0
	write := func() {
		if len(entries) == 0 {
			return
		}
		err := e.opts.Record(ctx, entries)
		if err == nil {
			e.written.Add(uint64(values))
		} else if !e.trouble && ctx.Err() == nil {
			e.opts.Log.Warn("cannot write computed values to the journal; they are left out until it works again", "err", err)
		}
		e.trouble = err != nil
		entries, values = nil, 0
	}
	c := &calculation{engine: e, now: now, aggregates: map[aggregateKey]computedValue{}, surveys: map[string]*itemStatistics{}}
	for _, f := range e.forms {
		var due []*computedItem
		for i := range f.items {
			if interval := f.items[i].interval; now.UnixNano()/interval > last.UnixNano()/interval {
				due = append(due, &f.items[i])
			}
		}
		if len(due) == 0 {
			continue
		}
		for _, node := range f.nodes {
			if entry, ok := e.entryOfNode(ctx, c, f, due, node); ok {
				entries, values = append(entries, entry), values+len(due)
			}
			if len(entries) == maxEntries {
				write()
			}
			if ctx.Err() != nil {
				return
			}
		}
	}
	write()
}

// entryOfNode returns a journal entry with the computed values of a node. It has the items in due.
func (e *Engine) entryOfNode(ctx context.Context, c *calculation, f *compiledTemplate, due []*computedItem, node model.NodeID) (journal.Entry, bool) {
	n := e.opts.Directory.Node(node)
	namespace, ok := e.opts.Directory.NamespaceByName(n.Namespace)
	if !ok || n.UID == uuid.Nil {
		return journal.Entry{}, false
	}
	list := make([]wire.BlockValue, len(due))
	for i, one := range due {
		value, err := c.computeItem(ctx, one, n.Namespace, node)
		if list[i] = (wire.BlockValue{Position: one.position, Value: value}); err != nil {
			list[i].Unsupported, list[i].Value = true, item.FromText(err.Error())
		}
	}
	signal := wire.Signal{Kind: wire.SignalValueBlock, Definition: f.definition.ID, Body: wire.AppendValueBlock(nil, &wire.ValueBlock{
		Rows: uint32(len(list)), Columns: wire.AppendColumns(nil, []int64{0}, list), Macros: f.macros, UnixNs: uint64(c.now.UnixNano()),
	})}
	return journal.Entry{Section: core.SectionOf(n.UID), Signals: 1, Data: wire.AppendRecord(nil, &wire.Record{
		Kind: wire.RecordProxyResult, Node: node, ProxyResult: &wire.ProxyResult{Namespace: namespace, Signal: wire.AppendSignalMessage(nil, &signal)},
	})}, true
}
