package collect

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/semaphore"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
	"github.com/muster-fleet/muster/internal/when"
	"github.com/muster-fleet/muster/internal/wire"
)

// Config has the settings of a Scheduler, which collects items at their due times.
type Config struct {
	Node        uuid.UUID
	Host        string
	Boot        func() time.Duration // a clock that never jumps
	FirstWithin time.Duration        // a new item is collected once within this time
	Root        string               // folder in place of /; tests set it
	// Emit takes a value block, from several goroutines; it may block for a short time. It stores the block together
	// with at, the position in the log file after the block's lines; at is nil if the block has no lines. Without a
	// block it stores only the position.
	Emit func(signal *wire.Signal, at *Position)
	Run  func(ctx context.Context, command string) (output string, err error) // runs a shell command
	// Secrets returns values of secrets by their macros; it may wait for the server.
	Secrets  func(ctx context.Context, list []model.DefinitionSecret) (map[string]string, error)
	Position func(name string) []byte // returns the position that was stored last; nil: none was
	Full     func() bool              // reports whether lines have to wait in their files
	Wall     func() time.Time
	Log      *slog.Logger
}

// Position is the stored read position of a log item, with the name that identifies the item. The spool stores
// it under the name of the item.
type Position struct {
	Name  string
	Value []byte
}

// Scheduler is the scheduler that collects each item (metric of a Zabbix-style Template) at its due times.
type Scheduler struct {
	cfg        Config
	collectors map[string]collector
	machine    machine
	slow       slowCollectors
	wake       chan struct{} // capacity 1: the groups have changed
	following  sync.Map      // log items that are being collected, by the name of their position

	mu          sync.Mutex
	groups      []*itemGroup
	offset      time.Duration // of the wall clock against the boot clock, while groups have custom intervals
	rules       []*ruleState  // discovery rules of the definitions
	definitions []*model.TemplateDefinition
	properties  model.PropertyValues
}

// itemGroup has the items of one Template with equal intervals, which are collected at the same times.
type itemGroup struct {
	definition    model.DefinitionID
	macros        string // those that Properties set, as the value blocks have them
	unit          model.UnitID
	rule          string         // key of the discovery rule that made the items; empty: they stand in the Template
	declaredItems uint32         // number of items in the Template: discovered items follow in a value block
	interval      model.Interval // with values in place of macros; equal ones are one group
	schedule      *when.Schedule
	items         []groupItem   // ascending by position
	due           time.Duration // of a schedule without custom intervals
	dueWall       time.Time     // of one with custom intervals; zero: never
	busy          atomic.Bool   // it is being collected: the next collection is left out
}

// groupItem is one of the items that are collected together, with its parsed key and its collector
type groupItem struct {
	position  uint32
	text      string // its key, as the Template has it
	id        string // its key with values of macros; equal ones are collected together
	key       Key    // with values of macros, except secret ones
	collector collector
	fault     string   // why it cannot be collected; empty: it can
	log       *logItem // nil: it has one value per collection
	solo      bool     // a group of its own: it may take longer than others
	timeout   time.Duration
	most      int // bytes of its text
}

// soloKey returns the key of the group's only item if the item must not delay others, or "". Such an item is a log or the
// answer to an HTTP request.
func (g *itemGroup) soloKey() string {
	if len(g.items) > 0 && g.items[0].solo {
		return g.items[0].text
	}
	return ""
}

// New returns a Scheduler that has no items to collect yet.
func New(cfg Config) *Scheduler {
	return &Scheduler{
		cfg: cfg, collectors: collectors(), wake: make(chan struct{}, 1),
		machine: machine{root: cfg.Root, host: cfg.Host, boot: cfg.Boot, run: cfg.Run, memory: map[string][]float64{}},
		slow:    slowCollectors{local: semaphore.NewWeighted(maxWaiting), network: semaphore.NewWeighted(maxWaiting), requests: semaphore.NewWeighted(maxWaiting), pending: map[string]*collectorResult{}},
	}
}

// Set replaces the Templates whose items are collected, and the node properties for their macros. A Template that
// stays keeps its due times.
func (w *Scheduler) Set(definitions []*model.TemplateDefinition, properties model.PropertyValues) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.setGroups(definitions, properties)
}

// setGroups replaces the groups of items and the discovery rules, when the server has assigned other Templates.
// Call it with the mutex.
func (w *Scheduler) setGroups(definitions []*model.TemplateDefinition, properties model.PropertyValues) {
	var groups []*itemGroup
	var rules []*ruleState
	for _, c := range definitions {
		own, more := w.newGroups(c, properties)
		groups, rules = append(groups, own...), append(rules, more...)
	}
	w.definitions, w.properties, w.rules = definitions, properties, rules
	now := w.cfg.Boot()
	for _, g := range groups {
		i := slices.IndexFunc(w.groups, func(old *itemGroup) bool {
			return old.unit == g.unit && old.rule == g.rule && old.interval == g.interval && old.soloKey() == g.soloKey()
		})
		if i >= 0 {
			g.due, g.dueWall = w.groups[i].due, w.groups[i].dueWall
			continue
		}
		if w.planNext(g, now); g.schedule.IsCustom() {
			continue
		}
		if first := min(g.schedule.Interval, w.cfg.FirstWithin); first > 0 { // a new one is collected soon
			g.due = min(g.due, now+when.Phase(w.cfg.Node, g.unit, first))
		}
	}
	w.groups = groups
	pause.Wake(w.wake)
}

// newGroups divides the items of a Template into groups with equal intervals. Declared and discovered items count.
func (w *Scheduler) newGroups(c *model.TemplateDefinition, properties model.PropertyValues) (groups []*itemGroup, rules []*ruleState) {
	set := c.PropertyMacros(properties)
	values, macros := c.MacroValues(set), wire.EncodeMacros(set)
	fault := ""
	if len(macros) > wire.MaxMacros { // a block could not name them
		fault, macros = fmt.Sprintf("the values of the key's macros have %d bytes, at most %d", len(macros), wire.MaxMacros), ""
	}
	add := func(of *model.Item, i int, rule string, plain bool) {
		if !of.IsCollected() {
			return // the server makes its values
		}
		one := groupItem{position: uint32(i), text: of.Key, timeout: itemTimeout, most: maxText}
		text, err := values.ExpandPublic(of.Key)
		if err == nil && of.HTTP == nil {
			err = Check(text)
		}
		if err == nil && of.HTTP == nil {
			one.id = text
			one.key, err = ParseKey(text)
			one.collector = w.collectors[one.key.Name]
		}
		named := c.SecretsIn(of.Key)
		if of.HTTP != nil {
			of.HTTP.EachText(func(text string) { named = append(named, c.SecretsIn(text)...) })
		}
		if of.NoHistory || of.HTTP != nil {
			one.most = maxMaster
		}
		switch {
		case err != nil:
		case of.HTTP != nil && !plain && len(named) > 0:
			err = errEntitySecret
		case of.HTTP != nil:
			_, err = of.HTTP.ExpandTexts(values.ExpandPublic)
			one.id, one.solo, one.timeout = text+"\x00"+c.Name, true, requestTimeout(of.HTTP)
			one.collector = w.httpCollector(of.HTTP, values, named)
		case !plain && one.key.Name == "system.run":
			err = errEntityCommand
		case !plain && len(named) > 0:
			err = errEntitySecret
		case isLogKey(one.key.Name) && len(named) > 0:
			err = fmt.Errorf("%s: the key of a log item must not contain secret macros", one.key.Name)
		case isLogKey(one.key.Name):
			one.log, err = parseLogItem(&one.key, text, w.cfg.Root)
			one.solo = one.log != nil
		case len(named) > 0:
			one.id += "\x00" + c.Name // another Template may name other secrets
			public := one.collector
			one.collector = w.withSecrets(public, values, named, public.measureWithSecrets)
		}
		schedule, interval, scheduleErr := scheduleOf(of, values)
		if one.fault = fault; err == nil {
			err = scheduleErr
		}
		if err != nil {
			one.fault = err.Error()
		}
		g := slices.IndexFunc(groups, func(g *itemGroup) bool {
			return g.rule == rule && g.interval == interval && g.soloKey() == ""
		})
		if g < 0 || one.solo { // one that takes long delays no other item
			groups = append(groups, &itemGroup{definition: c.ID, macros: macros, unit: c.Unit, rule: rule, declaredItems: uint32(len(c.Items)), interval: interval, schedule: schedule})
			g = len(groups) - 1
		}
		groups[g].items = append(groups[g].items, one)
	}
	for i := range c.Items {
		add(&c.Items[i], i, "", true)
	}
	rules = newRules(c, values, w.rules)
	for _, r := range rules {
		items := r.items()
		for i := range items {
			add(&items[i].Item, 0, r.Key, items[i].plain)
		}
	}
	return groups, rules
}

// scheduleOf returns the schedule of an item, and its interval with values in place of macros. With an error they are the
// default ones: so often the agent says why it collects nothing.
func scheduleOf(of *model.Item, values *model.MacroValues) (*when.Schedule, model.Interval, error) {
	schedule, err := when.ScheduleOf(of.Interval, values)
	if err != nil || !schedule.IsCustom() && schedule.Interval <= 0 {
		return &when.Schedule{Interval: model.DefaultItemInterval.First()}, model.DefaultItemInterval, err
	}
	interval, _ := values.ExpandInterval(of.Interval)
	return schedule, interval, nil
}

// planNext computes the next due time of a group of items.
func (w *Scheduler) planNext(g *itemGroup, now time.Duration) {
	if g.schedule.IsCustom() {
		g.dueWall = g.schedule.Next(w.cfg.Wall(), uint64(when.Phase(w.cfg.Node, g.unit, math.MaxInt64)))
		return
	}
	g.due = when.NextAtPhase(now, g.schedule.Interval, when.Phase(w.cfg.Node, g.unit, g.schedule.Interval))
}

// Groups with custom intervals follow the wall clock, which somebody may set.
const (
	wallClockPeriod = 30 * time.Second // period of reading it
	wallClockJump   = 2 * time.Second  // least move against the boot clock that counts as set
)

// adjustToClockChange computes the due times of groups with custom intervals again after the wall clock was set. A group
// whose time the jump passed is collected once.
func (w *Scheduler) adjustToClockChange(now time.Duration) {
	if !slices.ContainsFunc(w.groups, func(g *itemGroup) bool { return g.schedule.IsCustom() }) {
		return
	}
	wall := w.cfg.Wall()
	offset := time.Duration(wall.UnixNano()) - now
	if (offset - w.offset).Abs() < wallClockJump {
		return
	}
	w.offset = offset
	for _, g := range w.groups {
		if g.schedule.IsCustom() && (g.dueWall.IsZero() || wall.Before(g.dueWall)) {
			w.planNext(g, now)
		}
	}
}

// Run collects items until ctx ends. Each group has a goroutine of its own, so that a slow one delays no other.
func (w *Scheduler) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { w.machine.samples.run(ctx) })
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		case <-timer.C:
		}
		for g := w.nextDueGroup(); g != nil && ctx.Err() == nil; g = w.nextDueGroup() {
			if g.busy.CompareAndSwap(false, true) {
				running.Go(func() {
					defer g.busy.Store(false)
					w.collect(ctx, g)
				})
			}
		}
		timer.Reset(w.delayUntilDue())
	}
}

// nextDueGroup returns a group of items that is due now, and schedules the group's next collection. It returns
// nil if no group is due.
func (w *Scheduler) nextDueGroup() *itemGroup {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.cfg.Boot()
	w.adjustToClockChange(now)
	for _, g := range w.groups {
		switch custom := g.schedule.IsCustom(); {
		case custom && !g.dueWall.IsZero() && !w.cfg.Wall().Before(g.dueWall):
			w.planNext(g, now)
			return g
		case !custom && g.due <= now:
			first, interval := g.due, g.schedule.Interval
			w.planNext(g, now)
			if early := (first-when.Phase(w.cfg.Node, g.unit, interval))%interval != 0; early && g.due-now < interval/2 {
				g.due += interval // a second collection would follow the early first one at once
			}
			return g
		}
	}
	return nil
}

// delayUntilDue returns the time until the next group of items is due
func (w *Scheduler) delayUntilDue() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	delay := time.Hour
	for _, g := range w.groups {
		if !g.schedule.IsCustom() {
			delay = min(delay, g.due-w.cfg.Boot())
			continue
		}
		if delay = min(delay, wallClockPeriod); !g.dueWall.IsZero() {
			delay = min(delay, g.dueWall.Sub(w.cfg.Wall()))
		}
	}
	return max(delay, 0)
}

// collect measures the items of a group, and spools the values in messages of limited size. A block has at most
// valuesPerBlock values with blockBytes bytes.
func (w *Scheduler) collect(ctx context.Context, g *itemGroup) {
	if len(g.items) > 0 && g.items[0].log != nil && g.items[0].fault == "" {
		w.collectLog(ctx, g)
		return
	}
	began := w.cfg.Boot()
	var values []wire.BlockValue
	var keys []string // of discovered items, in the order of their values
	size := 0
	flush := func() {
		if len(values) == 0 {
			return
		}
		w.cfg.Emit(&wire.Signal{
			Kind: wire.SignalValueBlock, Definition: g.definition, AtMs: uint64(began.Milliseconds()),
			Body: wire.AppendValueBlock(nil, &wire.ValueBlock{Macros: g.macros, Keys: keys, Rows: uint32(len(values)), Columns: wire.AppendColumns(nil, []int64{int64(began % time.Millisecond)}, values)}),
		}, nil)
		values, keys, size = values[:0], keys[:0], 0
	}
	answers := w.measure(ctx, g)
	for i := range g.items {
		one := &g.items[i]
		v := wire.BlockValue{Position: one.position}
		value, err := answers[i].value, answers[i].err
		switch {
		case one.fault != "":
			v.Unsupported, v.Value = true, item.FromText(one.fault)
		case err != nil:
			v.Unsupported, v.Value = true, item.FromText(err.Error())
		case value.Kind() == item.None:
			continue
		default:
			v.Value = cutText(value, one.most)
		}
		size += 16 + len(v.Value.String())
		if g.rule != "" {
			size += len(one.text)
		}
		if size > blockBytes || len(values) == valuesPerBlock {
			flush()
		}
		if g.rule != "" {
			v.Position, keys = g.declaredItems+uint32(len(keys)), append(keys, one.text)
		}
		values = append(values, v)
	}
	if ctx.Err() == nil {
		flush()
		w.updateRules(g, answers, int64(began))
	}
}

// measure measures all items of a group. Collectors that may block run in parallel.
func (w *Scheduler) measure(ctx context.Context, g *itemGroup) []collectorResult {
	answers := make([]collectorResult, len(g.items))
	var waiting sync.WaitGroup
	for i := range g.items {
		one, a := &g.items[i], &answers[i]
		switch {
		case one.fault != "":
		case one.collector.waits:
			waiting.Go(func() { a.value, a.err = w.slow.measure(ctx, &w.machine, one) })
		default:
			a.value, a.err = one.collector.measure(ctx, &w.machine, &one.key)
		}
	}
	waiting.Wait()
	return answers
}

// Bounds of the values of one block. A server applies a block as a whole, so other nodes may wait for it.
const (
	blockBytes     = 256 << 10 // a longer text has a block of its own
	valuesPerBlock = 100
)

// Bounds of one text, in bytes.
const (
	maxText = 64 << 10
	// maxMaster bounds the text of a master item. The server keeps at most maxText of it.
	maxMaster = 512 << 10
)

// cutText shortens the text of an item value to at most the given bytes. Other values, and lists of jsonValue, stay
// unchanged.
func cutText(v item.Value, most int) item.Value {
	if text := v.String(); v.Kind() == item.TextValue && len(text) > most && (len(text) > maxList || text[0] != '[') {
		return item.FromText(strings.ToValidUTF8(text[:most], ""))
	}
	return v
}
