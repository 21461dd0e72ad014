package compliancelog

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/sqldb"
)

// storedBlock is a block from the database, with its kind and its compressed entries.
type storedBlock struct {
	kind int
	body []byte
}

// read reads a partition's history from the database, beginning at the last checkpoint (all states) before a
// time. The checkpoint (all states) is the last at or before the time since (Unix ms).
func (s *Store) read(ctx context.Context, p model.Partition, since int64, r *historyReader) error {
	low, high := int64(p)<<idShift, (int64(p)+1)<<idShift-1
	first, err := sqldb.QueryValue[int64](ctx, s.db, "the last checkpoint",
		`SELECT COALESCE(MAX(id), 0) FROM compliance_blocks WHERE id >= ? AND id <= ? AND checkpoint > 0 AND ended <= ?`, low, high, since)
	if err != nil {
		return err
	}
	blocks, err := sqldb.List(ctx, s.db, "blocks", func(scan sqldb.Scan) (b storedBlock, err error) {
		err = scan(&b.kind, &b.body)
		return b, err
	}, `SELECT checkpoint, body FROM compliance_blocks WHERE id >= ? AND id <= (SELECT MAX(id) FROM compliance_blocks WHERE id >= ? AND id <= ? AND begun <= ?) ORDER BY id`,
		max(first, low), max(first, low), high, r.until)
	if err != nil {
		return err
	}
	for i, b := range blocks {
		if i > 0 && b.kind == restart {
			return nil
		}
		r.resumes, r.skips = i > 0 && b.kind == resumption, i > 0 && b.kind == checkpoint
		row, err := s.decompressRow(b.body)
		if err == nil {
			err = r.decodeStored(row)
		}
		if err != nil {
			return fmt.Errorf("read the history of compliance in %s, partition %d: %w", s.db.Name(), p, err)
		}
	}
	return nil
}

// Selection selects one node or all nodes for a read of the history. The zero value selects all nodes.
type Selection struct {
	Node      model.NodeID
	Partition model.Partition
}

// partitions returns the selected node's partition, or all partitions if no node is selected.
func (w Selection) partitions() []model.Partition {
	if w.Node != 0 {
		return []model.Partition{w.Partition}
	}
	all := make([]model.Partition, model.Partitions)
	for p := range all {
		all[p] = model.Partition(p)
	}
	return all
}

// StatesAt returns the state of each directive on the selected nodes at a time.
func (s *Store) StatesAt(ctx context.Context, of Selection, at time.Time) ([]State, error) {
	states := map[key]*State{}
	err := s.readStates(ctx, of, at, at, states, nil)
	out := make([]State, 0, len(states))
	for _, state := range states {
		out = append(out, *state)
	}
	slices.SortFunc(out, func(a, b State) int { return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Unit, b.Unit)) })
	return out, err
}

// certificateMargin is longer than the time from a certificate's arrival to its last signature. A certificate arrives
// each day.
const certificateMargin = 3 * 24 * time.Hour

// Certificate returns a certificate (DER) with which an agent signs runs, or nil if unknown.
func (s *Store) Certificate(ctx context.Context, sum CertificateSum) ([]byte, error) {
	list, err := sqldb.List(ctx, s.db, "a certificate", sqldb.ScanColumn[[]byte], `SELECT der FROM compliance_certificates WHERE sum = ?`, sum.shortened())
	if err != nil || len(list) == 0 {
		return nil, err
	}
	der, err := s.decompressCertificate(list[0])
	if err != nil {
		return nil, fmt.Errorf("read a certificate from %s: %w", s.db.Name(), err)
	}
	if sha256.Sum256(der) != sum {
		return nil, nil
	}
	return der, nil
}

// Changes calls visit for each recorded change of a directive's state on the selected nodes. It works like Entries,
// but leaves out entries about chains.
func (s *Store) Changes(ctx context.Context, of Selection, since, until time.Time, visit func(*Change)) error {
	return s.Entries(ctx, of, since, until, func(c *Change) {
		if c.Seal == nil {
			visit(c)
		}
	})
}

// Entries calls visit for each history entry of the selected nodes that is not after a given time. It starts at
// the last checkpoint before since, because earlier entries are needed for the states at since. The entries of
// one node come in their order. visit keeps neither the change nor its codes. Entries about chains are among
// them.
func (s *Store) Entries(ctx context.Context, of Selection, since, until time.Time, visit func(*Change)) error {
	return s.readStates(ctx, of, since, until, map[key]*State{}, visit)
}

// readStates reads the history of the selected nodes, and computes the states after its entries.
func (s *Store) readStates(ctx context.Context, of Selection, since, until time.Time, states map[key]*State, visit func(*Change)) error {
	partitions := of.partitions()
	if err := s.Flush(ctx, partitions...); err != nil {
		return err
	}
	for _, p := range partitions {
		r := historyReader{states: states, until: until.UnixMilli(), accepts: func(id model.NodeID) bool { return of.Node == 0 || id == of.Node }, visit: visit}
		if err := s.read(ctx, p, since.UnixMilli(), &r); err != nil {
			return err
		}
	}
	return nil
}

// OldestEntry returns the time of the oldest entry in the history, or zero for an empty history.
func (s *Store) OldestEntry(ctx context.Context) (time.Time, error) {
	if err := s.Flush(ctx); err != nil {
		return time.Time{}, err
	}
	ms, err := sqldb.QueryValue[int64](ctx, s.db, "the oldest entry", `SELECT COALESCE(MIN(begun), 0) FROM compliance_blocks`)
	if err != nil || ms == 0 {
		return time.Time{}, err
	}
	return time.UnixMilli(ms), nil
}

// Clean merges small blocks, and removes entries beyond the retention or the size limit. It removes entries
// older than the retention and, above the size budget, entries of the nodes that use more than their share.
func (s *Store) Clean(ctx context.Context, now time.Time) error {
	if err := s.mergeSmallBlocks(ctx); err != nil {
		return err
	}
	if s.opts.Retention > 0 {
		if _, err := s.removeBefore(ctx, now.Add(-s.opts.Retention).UnixMilli()); err != nil {
			return err
		}
	}
	return s.enforceSizeLimit(ctx)
}

// removeBefore removes the blocks before the last checkpoint (block with all states) that precedes a time. It
// also removes the definitions that no later entry names. It returns how many blocks were removed.
func (s *Store) removeBefore(ctx context.Context, before int64) (removed int64, err error) {
	err = s.db.Write(ctx, func(tx *sqldb.Tx) error {
		result, err := tx.Exec(ctx, `DELETE FROM compliance_blocks WHERE EXISTS (SELECT 1 FROM compliance_blocks c
			WHERE c.checkpoint > 0 AND c.ended <= ? AND c.id > compliance_blocks.id AND c.id < ((compliance_blocks.id >> 40) + 1) << 40)`, before)
		if err == nil {
			removed, err = result.RowsAffected()
		}
		if err == nil {
			_, err = tx.Exec(ctx, `DELETE FROM compliance_definitions WHERE last < ?`, before)
		}
		if err == nil {
			_, err = tx.Exec(ctx, `DELETE FROM compliance_certificates WHERE last < ?`, before-certificateMargin.Milliseconds())
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("remove old entries of the history of compliance: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, last := range s.definitions {
		if last < before && !s.renamed[id] {
			delete(s.definitions, id)
		}
	}
	return removed, nil
}
