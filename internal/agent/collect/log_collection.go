package collect

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/wire"
)

// logCollection is the state of one collection of a log item, with its reader and unsent lines.
type logCollection struct {
	w         *Scheduler
	g         *itemGroup
	of        *logItem
	name      string // of its position
	reader    logReader
	values    []wire.BlockValue
	times     []int64
	startedAt time.Duration
	size      int // of values
	lines     int // of the collection
}

// collectLog collects the new lines of a log item. Each block of lines goes to the spool with the position behind them. While the spool is full the
// lines stay in their files.
func (w *Scheduler) collectLog(ctx context.Context, g *itemGroup) {
	one := &g.items[0]
	c := &logCollection{w: w, g: g, of: one.log, name: positionName(g.unit, one.log.key), startedAt: w.cfg.Boot()}
	if _, busy := w.following.LoadOrStore(c.name, true); busy {
		return
	}
	defer w.following.Delete(c.name)
	if w.cfg.Full() {
		return
	}
	err := c.collect(ctx)
	if err != nil && ctx.Err() == nil && !errors.Is(err, errRotated) {
		c.values, c.times = []wire.BlockValue{{Position: one.position, Unsupported: true, Value: item.FromText(err.Error())}}, []int64{int64(c.startedAt % time.Millisecond)}
		w.cfg.Emit(c.takeBlock(), nil)
	}
}

// collect reads the new lines of a log and passes blocks of lines to the spool.
func (c *logCollection) collect(ctx context.Context) error {
	r, l := &c.reader, c.of
	var err error
	if r.list, err = l.files(); err != nil {
		return err
	}
	at, known := decodeLogPosition(c.w.cfg.Position(c.name))
	switch {
	case known:
		r.index, r.offset = at.findInFiles(r.list)
	case len(r.list) > 0 && l.names == nil && filepath.Base(r.list[len(r.list)-1].path) != l.base: // only earlier files
		return &fs.PathError{Op: "open", Path: l.dir + "/" + l.base, Err: fs.ErrNotExist}
	default:
		if r.index, r.offset, err = l.startPosition(r.list); err != nil {
			return err
		}
	}
	r.now = c.w.cfg.Wall()
	defer r.close()
	matched, begun := 0, r.unreadBytes()
	sent, read := l.limits(c.g.schedule.Period())
	more := true
	for lines := 0; lines < read && matched < sent && ctx.Err() == nil; lines++ {
		line, err := r.next()
		if more = line != nil; err != nil {
			return errors.Join(c.emit(), err)
		}
		if !more {
			break
		}
		text, ok := l.value(cleanLine(line))
		if !ok {
			continue
		}
		if matched++; !l.count {
			if err := c.add(text); err != nil {
				return err
			}
		}
	}
	if taken := begun - r.unreadBytes(); more && l.maxDelay > 0 && taken > 0 {
		skipped, err := r.skipTo(int64(float64(taken) * l.maxDelay.Seconds() / c.g.schedule.Period().Seconds()))
		if err != nil {
			return err
		}
		if skipped > 0 {
			c.w.cfg.Log.Warn("a log grows faster than its item may send: the agent left lines out (maxdelay)", "item", l.key, "bytes", skipped)
		}
	}
	if l.count {
		c.times, c.values = append(c.times, int64(c.startedAt%time.Millisecond)), append(c.values, wire.BlockValue{Position: c.g.items[0].position, Value: item.FromUnsigned(uint64(matched))})
	}
	if r.index == len(r.list) {
		if l.count {
			c.w.cfg.Emit(c.takeBlock(), nil)
		}
		return nil
	}
	if now, err := r.position(); err == nil && len(c.values) == 0 && known && now == at {
		return nil // nothing new
	}
	return c.emit()
}

// add appends one line of the log to the block of unsent lines. A full block goes to the spool. Each line of a
// collection is a nanosecond later than the one before it.
func (c *logCollection) add(text string) error {
	v := cutText(item.FromText(text), maxText)
	c.times = append(c.times, int64(c.startedAt%time.Millisecond)+int64(c.lines))
	c.values = append(c.values, wire.BlockValue{Position: c.g.items[0].position, Row: uint32(len(c.values)), Value: v})
	c.lines++
	if c.size += 16 + len(v.String()); c.size >= blockBytes || len(c.values) == valuesPerBlock {
		return c.emit()
	}
	return nil
}

// takeBlock returns the collected lines as one message for the spool, and removes the lines from the
// collection.
func (c *logCollection) takeBlock() *wire.Signal {
	g := c.g
	b := &wire.ValueBlock{Macros: g.macros, Rows: uint32(len(c.values))}
	if g.rule != "" {
		b.Keys = []string{g.items[0].text}
		for i := range c.values {
			c.values[i].Position = g.declaredItems
		}
	}
	b.Columns = wire.AppendColumns(nil, c.times, c.values)
	c.values, c.times, c.size = c.values[:0], c.times[:0], 0
	return &wire.Signal{Kind: wire.SignalValueBlock, Definition: g.definition, AtMs: uint64(c.startedAt.Milliseconds()), Body: wire.AppendValueBlock(nil, b)}
}

// emit passes the collected lines to the spool, together with the read position after the last line.
func (c *logCollection) emit() error {
	at, err := c.reader.position()
	if err != nil {
		return err // no line is lost: the position stays
	}
	if len(c.values) == 0 {
		c.w.cfg.Emit(nil, &Position{c.name, at.encode()})
		return nil
	}
	c.w.cfg.Emit(c.takeBlock(), &Position{c.name, at.encode()})
	return nil
}
