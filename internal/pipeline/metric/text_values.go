package metric

import (
	"context"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/store/textlog"
)

// textBuffer collects the text values that one commit has for one partition.
type textBuffer struct {
	rows   []textlog.Row
	stored bool // the store has the texts of the commit
}

// prepareTexts checks in a replay whether the text store already has the texts of the commit. It runs before the commit
// is applied to a partition.
func (w *metricApplier) prepareTexts() {
	if store := w.view.opts.Texts; store != nil {
		last := store.Position(w.p.ID)
		w.texts.stored = last.Log == w.Position.Log && last.Number >= w.Position.Number
	}
}

// storeValue stores a number of an item in the series store, or a text in the text store. A number goes to the series
// store, a text to the texts of the commit.
func (w *metricApplier) storeValue(n uint32, u *templateState, position int, at int64, value item.Value) {
	of := &u.Items[position]
	switch {
	case of.NoHistory:
	case value.Kind() != item.TextValue:
		w.storeSample(n, u, position, at, value)
	case w.view.opts.Texts != nil && !w.texts.stored:
		w.texts.rows = append(w.texts.rows, textlog.Row{Node: w.p.Node(n).ID, Unit: u.Unit, Key: of.Key, At: at, Text: value.String()})
	}
}

// storeTexts passes a commit's texts in a partition to the text store, all at once. The store thus never has only a
// part of the texts.
func (w *metricApplier) storeTexts() {
	if len(w.texts.rows) > 0 {
		w.view.opts.Texts.Append(w.p.ID, w.Position, w.texts.rows)
		clear(w.texts.rows)
		w.texts.rows = w.texts.rows[:0]
	}
}

// FindTexts returns the newest text values that match a query.
func (v *View) FindTexts(ctx context.Context, q textlog.Query) (rows []textlog.Row, more bool, err error) {
	if q.Node != 0 {
		p := v.shard.PartitionOf(q.Node)
		if p == nil {
			return nil, false, nil
		}
		q.Partition = p.ID
	}
	return v.opts.Texts.Find(ctx, &q)
}
