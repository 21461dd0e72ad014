package compliancelog

import (
	"context"
	"fmt"
	"math"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/shares"
	"github.com/muster-fleet/muster/internal/store/sqldb"
)

const (
	slackShare = 32  // entries are removed until this part of the budget is free
	rowBytes   = 100 // of a block beside its body, with its part of the index, in PostgreSQL
)

// blockSpan is a range of blocks between two checkpoints that the size limit removes as a whole. It has a
// checkpoint (the states of all directives) and the blocks of changes until the next checkpoint. The first span
// of a partition may lack the checkpoint. The last span of a partition leads to the present and stays.
type blockSpan struct {
	first, next int64 // ids of its first block and of the checkpoint behind it
}

// usedBytes returns how many bytes of the database the history uses. PostgreSQL keeps the pages of deleted rows, so
// rows are counted there.
func (s *Store) usedBytes(ctx context.Context) (used int64, err error) {
	if s.db.Dialect == sqldb.SQLite {
		_, used, err = s.db.FileSize(ctx)
		return used, err
	}
	return sqldb.QueryValue[int64](ctx, s.db, "the size of the history of compliance",
		fmt.Sprintf(`SELECT CAST(COALESCE(SUM(%d + OCTET_LENGTH(body)), 0) AS BIGINT) FROM compliance_blocks`, rowBytes))
}

// enforceSizeLimit removes the oldest entries of the nodes with the most bytes, until the history fits its
// limit. It removes whole spans of the nodes that hold more than their share.
func (s *Store) enforceSizeLimit(ctx context.Context) error {
	if s.opts.Budget == 0 {
		return nil
	}
	used, err := s.usedBytes(ctx)
	if err != nil || used <= s.opts.Budget {
		return err
	}
	spans, held, err := s.measureSpans(ctx)
	if err != nil {
		return err
	}
	sums, keep := map[shares.Holder]int64{}, s.opts.Budget-used-s.opts.Budget/slackShare
	for _, ofSpan := range held {
		for node, bytes := range ofSpan {
			sums[shares.Holder{Node: node, Namespace: s.opts.Namespace(node)}] += bytes
			keep += bytes
		}
	}
	quotas := map[model.NodeID]int64{}
	var most model.NodeID
	for h, bytes := range shares.Quotas(sums, keep) {
		if quotas[h.Node] = bytes; most == 0 || bytes > quotas[most] || bytes == quotas[most] && h.Node < most {
			most = h.Node
		}
	}
	removed := int64(0)
	for i, span := range spans { // of a partition in their order
		over := map[model.NodeID]bool{}
		for node, bytes := range held[i] {
			if quotas[node] > 0 {
				quotas[node] -= bytes
				removed += bytes
				over[node] = true
			}
		}
		if len(over) == 0 {
			continue
		}
		if err := s.removeNodes(ctx, span, over, len(over) == len(held[i])); err != nil {
			return fmt.Errorf("remove entries above the size limit of the compliance history: %w", err)
		}
	}
	if removed > 0 {
		s.opts.Logger.Warn("the history of compliance is full: removed the oldest entries of the nodes that hold most", "bytes", model.Size(removed), "node", uint32(most), "budget", model.Size(s.opts.Budget))
	}
	return nil
}

// measureSpans returns the removable spans (ranges between checkpoints) of the history, with each node's bytes
// in each span. The oldest come first within a partition.
func (s *Store) measureSpans(ctx context.Context) (spans []blockSpan, held []map[model.NodeID]int64, err error) {
	checkpoints, err := sqldb.List(ctx, s.db, "checkpoints", sqldb.ScanColumn[int64], `SELECT id FROM compliance_blocks WHERE checkpoint > 0 ORDER BY id`)
	if err != nil {
		return nil, nil, err
	}
	last := int64(-1)
	for _, id := range checkpoints {
		first := id>>idShift<<idShift + 1
		if last>>idShift == id>>idShift {
			first = last
		}
		last = id
		blocks, err := s.readBlocks(ctx, blockSpan{first, id})
		if err != nil {
			return nil, nil, err
		}
		if len(blocks) == 0 {
			continue
		}
		nodes := map[model.NodeID]int64{}
		r := historyReader{states: map[key]*State{}, until: math.MaxInt64, accepts: func(model.NodeID) bool { return true }}
		for _, b := range blocks {
			size := int64(len(b.body))
			row, err := s.decompressRow(b.body)
			if err == nil {
				r.sizes = map[model.NodeID]int64{}
				err = r.decodeStored(row)
			}
			if err != nil {
				return nil, nil, fmt.Errorf("read the history of compliance in %s: %w", s.db.Name(), err)
			}
			for node, bytes := range r.sizes { // of the stored bytes
				nodes[node] += (bytes*size + int64(row.size()) - 1) / int64(row.size())
			}
		}
		spans, held = append(spans, blockSpan{first, id}), append(held, nodes)
	}
	return spans, held, nil
}

// spanBlock is a stored block of a blockSpan (range between two checkpoints), with its id.
type spanBlock struct {
	id int64
	storedBlock
}

// readBlocks reads the blocks of a span (range between two checkpoints) from the database.
func (s *Store) readBlocks(ctx context.Context, of blockSpan) ([]spanBlock, error) {
	return sqldb.List(ctx, s.db, "blocks", func(scan sqldb.Scan) (b spanBlock, err error) {
		err = scan(&b.id, &b.kind, &b.body)
		return b, err
	}, `SELECT id, checkpoint, body FROM compliance_blocks WHERE id >= ? AND id < ? ORDER BY id`, of.first, of.next)
}

// removeNodes removes the entries of some or all nodes from a span of history. The checkpoint behind it becomes a
// resumption.
func (s *Store) removeNodes(ctx context.Context, of blockSpan, nodes map[model.NodeID]bool, all bool) error {
	blocks, err := s.readBlocks(ctx, of)
	if err != nil {
		return err
	}
	r := historyReader{states: map[key]*State{}, until: math.MaxInt64, accepts: func(id model.NodeID) bool { return !nodes[id] }}
	var e encoder
	r.visit = func(c *Change) { e.append(c) }
	for i := range blocks {
		b := &blocks[i]
		row, err := s.decompressRow(b.body)
		if err == nil {
			err = r.decodeStored(row)
		}
		if err != nil {
			return err
		}
		if b.body = nil; len(e.data) > 0 || b.kind > differences {
			b.body = s.encodeRow(e.content(), true)
			e.nextBlock()
		}
	}
	return s.db.Write(ctx, func(tx *sqldb.Tx) error {
		if all {
			if _, err := tx.Exec(ctx, `DELETE FROM compliance_blocks WHERE id >= ? AND id < ?`, of.first, of.next); err != nil {
				return err
			}
		} else {
			for _, b := range blocks {
				statement, args := `UPDATE compliance_blocks SET body = ? WHERE id = ?`, []any{b.body, b.id}
				if b.body == nil { // no entry is left
					statement, args = `DELETE FROM compliance_blocks WHERE id = ?`, []any{b.id}
				}
				if _, err := tx.Exec(ctx, statement, args...); err != nil {
					return err
				}
			}
		}
		_, err := tx.Exec(ctx, `UPDATE compliance_blocks SET checkpoint = ? WHERE id = ? AND checkpoint = ?`, resumption, of.next, checkpoint)
		return err
	})
}
