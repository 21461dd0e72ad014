package compliancelog

import (
	"context"
	"fmt"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/store/sqldb"
)

// packSize bounds a row of merged blocks, in bytes before compression.
const packSize = 512 << 10

// mergeSmallBlocks merges the small blocks between two checkpoints of a partition into few rows. Small rows leave a fifth of the
// pages of a SQLite file empty. Blocks behind the last checkpoint of a partition stay as they are.
func (s *Store) mergeSmallBlocks(ctx context.Context) error {
	rows, err := sqldb.List(ctx, s.db, "blocks", func(scan sqldb.Scan) (b block, err error) {
		err = scan(&b.id, &b.kind)
		return b, err
	}, `SELECT id, checkpoint FROM compliance_blocks WHERE checkpoint <> ? ORDER BY id`, packed)
	if err != nil {
		return err
	}
	first := 0 // of the differences before rows[i]
	for i, b := range rows {
		if i > 0 && rows[i-1].id>>idShift != b.id>>idShift {
			first = i
		}
		if b.kind == differences {
			continue
		}
		if i-first > 1 {
			if err := s.mergeBlocks(ctx, rows[first].id, rows[i-1].id); err != nil {
				return fmt.Errorf("merge small blocks of the compliance history: %w", err)
			}
		}
		first = i + 1
	}
	return nil
}

// mergeBlocks merges the small blocks with ids from first to last into larger rows.
func (s *Store) mergeBlocks(ctx context.Context, first, last int64) error {
	blocks, err := sqldb.List(ctx, s.db, "blocks", func(scan sqldb.Scan) (b block, err error) {
		var log, number int64
		err = scan(&b.id, &b.earliest, &b.ended, &log, &number, &b.stored)
		b.last = journal.Position{Log: uint64(log), Number: uint64(number)}
		return b, err
	}, `SELECT id, begun, ended, log, number, body FROM compliance_blocks WHERE id >= ? AND id <= ? AND checkpoint = ? ORDER BY id`, first, last, differences)
	if err != nil {
		return err
	}
	var merged []block
	for i := range blocks {
		b := &blocks[i]
		if b.body, err = s.decompressRow(b.stored); err != nil {
			return err
		}
		if n := len(merged); n > 0 && merged[n-1].body.size()+b.body.size() <= packSize {
			m := &merged[n-1]
			m.earliest, m.ended, m.last = min(m.earliest, b.earliest), max(m.ended, b.ended), b.last
			m.body.entries, m.body.hashes = append(m.body.entries, b.body.entries...), append(m.body.hashes, b.body.hashes...)
			continue
		}
		b.kind = packed
		merged = append(merged, *b)
	}
	for i := range merged {
		merged[i].stored = s.compressRow(merged[i].body)
	}
	return s.db.Write(ctx, func(tx *sqldb.Tx) error {
		if _, err := tx.Exec(ctx, `DELETE FROM compliance_blocks WHERE id >= ? AND id <= ? AND checkpoint = ?`, first, last, differences); err != nil {
			return err
		}
		return s.insert.Insert(ctx, tx, merged)
	})
}
