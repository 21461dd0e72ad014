package textlog

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/sqldb"
)

// counts has the counters and gauges of a store, exported as metrics.
type counts struct {
	rows, removed, crowded, damaged atomic.Uint64
	bytes                           atomic.Int64 // in the database, at the last Clean
}

// register registers the counters as Prometheus metrics.
func (c *counts) register(r prometheus.Registerer) {
	if r == nil {
		return
	}
	counter := func(name, help string, value *atomic.Uint64, labels prometheus.Labels) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Namespace: "muster", Subsystem: "text", Name: name, Help: help, ConstLabels: labels},
			func() float64 { return float64(value.Load()) })
	}
	const removed = "Text values removed from the store."
	r.MustRegister(
		counter("values_total", "Text values stored.", &c.rows, nil),
		counter("removed_total", removed, &c.removed, prometheus.Labels{"reason": "retention"}),
		counter("removed_total", removed, &c.crowded, prometheus.Labels{"reason": "budget"}),
		counter("damaged_blocks_total", "Reads of blocks of text values that are damaged.", &c.damaged, nil),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "muster", Subsystem: "text", Name: "bytes", Help: "Size of the stored text values, compressed."},
			func() float64 { return float64(c.bytes.Load()) }),
	)
}

// openFor is how long a block of a quiet partition stays open.
const openFor = 24 * time.Hour

// Clean completes blocks that have taken rows for too long, and deletes expired blocks. Above the budget it
// removes the oldest blocks of those partitions that have the most bytes.
func (s *Store) Clean(ctx context.Context, now time.Time) error {
	for id := range s.partitions {
		p := &s.partitions[id]
		p.mu.Lock()
		if p.open.rows > 0 && now.UnixNano()-p.open.earliest > int64(openFor) {
			s.completeBlock(p)
		}
		p.mu.Unlock()
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.opts.Retention > 0 {
		if err := s.remove(ctx, &s.counts.removed, `ended < ?`, now.Add(-s.opts.Retention).UnixNano()); err != nil {
			return err
		}
	}
	return s.enforceSizeLimit(ctx)
}

// remove deletes the blocks that an SQL WHERE clause selects, and counts their rows as removed.
func (s *Store) remove(ctx context.Context, count *atomic.Uint64, where string, args ...any) error {
	lines := int64(0)
	err := s.db.Write(ctx, func(tx *sqldb.Tx) error {
		err := tx.QueryRow(ctx, `SELECT COALESCE(SUM(lines), 0) FROM text_blocks WHERE `+where, args...).Scan(&lines)
		if err == nil && lines > 0 {
			_, err = tx.Exec(ctx, `DELETE FROM text_blocks WHERE `+where, args...)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("remove old text values of items: %w", err)
	}
	count.Add(uint64(lines))
	return nil
}

// partitionBytes says how many bytes the stored blocks of a partition (a share of all nodes) use.
type partitionBytes struct {
	id    model.Partition
	bytes int64
}

// enforceSizeLimit deletes the oldest blocks of the largest partitions if all blocks exceed the size limit. It stops when 1/16
// of the budget is free.
func (s *Store) enforceSizeLimit(ctx context.Context) error {
	list, err := sqldb.List(ctx, s.db, "sizes of texts", func(scan sqldb.Scan) (u partitionBytes, err error) {
		err = scan(&u.id, &u.bytes)
		return u, err
	}, fmt.Sprintf(`SELECT id >> %d, SUM(size) FROM text_blocks GROUP BY id >> %d`, idShift, idShift))
	if err != nil {
		return err
	}
	total := int64(0)
	for _, u := range list {
		total += u.bytes
	}
	budget, err := s.sizeLimit(total)
	s.counts.bytes.Store(total)
	if err != nil || budget < 0 || total <= budget {
		return err
	}
	share := fairShare(list, budget/16*15)
	for _, u := range list {
		if u.bytes > share {
			if err := s.removeOldest(ctx, u.id, u.bytes-share); err != nil {
				return err
			}
		}
	}
	s.opts.Logger.Warn("the store of texts is full: removed the oldest ones of the nodes that have the most", "budget", model.Size(budget), "before", model.Size(total))
	return nil
}

// sizeLimit returns how many bytes all blocks may use together. A negative number means no limit. The disk keeps its
// reserve: free pages of the file are used again, so the store stops to grow.
func (s *Store) sizeLimit(used int64) (int64, error) {
	budget := int64(-1)
	if s.opts.Budget > 0 {
		budget = s.opts.Budget
	}
	if s.opts.Free == nil {
		return budget, nil
	}
	free, err := s.opts.Free()
	if err != nil {
		return budget, fmt.Errorf("read the free space of the disk: %w", err)
	}
	if free < s.opts.KeepFree && (budget < 0 || used < budget) {
		budget = used - used/16
	}
	return budget, nil
}

// fairShare returns the size limit of each partition that keeps all partitions together within total bytes. All
// partitions together then use at most total bytes. A partition below the limit keeps all its blocks.
func fairShare(list []partitionBytes, total int64) int64 {
	sizes := make([]int64, len(list))
	for i, u := range list {
		sizes[i] = u.bytes
	}
	slices.Sort(sizes)
	for i, size := range sizes {
		share := total / int64(len(sizes)-i)
		if size > share {
			return share
		}
		total -= size
	}
	return total
}

// removeOldest deletes the oldest blocks of a partition until enough bytes are free.
func (s *Store) removeOldest(ctx context.Context, id model.Partition, bytes int64) error {
	low, high := int64(id)<<idShift, (int64(id)+1)<<idShift-1
	list, err := sqldb.List(ctx, s.db, "blocks of texts", func(scan sqldb.Scan) (b block, err error) {
		err = scan(&b.id, &b.size)
		return b, err
	}, `SELECT id, size FROM text_blocks WHERE id >= ? AND id <= ? ORDER BY id`, low, high)
	last := low
	for i := 0; i < len(list) && bytes > 0; i++ {
		last, bytes = list[i].id, bytes-list[i].size
	}
	if err != nil || last == low {
		return err
	}
	return s.remove(ctx, &s.counts.crowded, `id >= ? AND id <= ?`, low, last)
}
