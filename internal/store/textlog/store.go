package textlog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
	"github.com/muster-fleet/muster/internal/store/sqldb"
)

// schema has one step for each version of the tables. The id of a block is its partition and its number in it. The index has all
// that Find and Clean need to choose blocks. The filter stands before the body, so that a reader of filters reads no bodies.
var schema = []string{`
	CREATE TABLE text_blocks (
		id {id}, begun BIGINT NOT NULL, ended BIGINT NOT NULL, lines BIGINT NOT NULL, size BIGINT NOT NULL, filter {blob} NOT NULL, body {blob} NOT NULL);
	CREATE INDEX text_blocks_times ON text_blocks (id, begun, ended, size, lines);
	CREATE TABLE text_partitions (id {id}, block BIGINT NOT NULL, log BIGINT NOT NULL, number BIGINT NOT NULL);
	CREATE TABLE text_life (one BIGINT PRIMARY KEY, identity BIGINT NOT NULL);
`}

// singleRow writes the one row of the table text_life.
const singleRow = `INSERT INTO text_life (one, identity) VALUES (1, 0) ON CONFLICT DO NOTHING`

const (
	blockSize  = 256 << 10 // bytes of the rows of a complete block, before compression
	maxPending = 16 << 20  // bytes of complete blocks that wait for the database; appliers wait beyond it
	idShift    = 40        // of the partition in the id of a block
	pageSize   = 4 << 10   // of the database: each block fills some pages
	writeEvery = time.Second
	cleanEvery = time.Minute
)

// Options has the settings of a Store, such as how long rows are kept.
type Options struct {
	Retention time.Duration         // rows are kept so long; zero: for ever
	Budget    int64                 // bytes of all blocks; zero: no bound
	KeepFree  int64                 // bytes of the disk that the store leaves free
	Free      func() (int64, error) // bytes of the disk that are free; nil: not bounded
	Now       func() time.Time
	Logger    *slog.Logger
	Registry  prometheus.Registerer // nil: no metrics
}

// Store keeps the text and log values of items as rows, compressed in an SQLite file. It is safe for concurrent
// use; the rows of a partition come from one goroutine, in the order of their commits.
type Store struct {
	db     *sqldb.DB
	insert *sqldb.Inserter[block]
	ends   *sqldb.Inserter[partitionEnd]
	opts   Options
	words  *wordClass
	counts counts
	compression

	writing sync.Mutex // serializes transactions
	hashes  []uint64   // memory of buildFilter

	partitions [model.Partitions]partitionRows

	capacity sync.Mutex
	room     sync.Cond // signals that pending has become smaller, or that the store closes
	pending  int       // bytes of complete blocks that are not written
	closed   bool
	wake     chan struct{} // capacity 1: there are complete blocks
}

// partitionRows has the rows of one partition (a share of all nodes) not yet in the database.
type partitionRows struct {
	mu      sync.Mutex
	full    []*block // complete and not written; immutable
	open    rowEncoder
	id      int64            // of the open block
	last    journal.Position // of the last row
	written journal.Position // of the last row in the database
}

// block is a list of text rows that are compressed and stored together. It is a complete block, or a copy of
// the open block, to which rows are still added.
type block struct {
	id    int64
	rows  rowEncoder
	last  journal.Position // of its last row
	size  int64            // of its pages in the database
	sum   []byte           // its filter
	store []byte           // its stored body
}

// partitionEnd has the last stored block and the journal position of a partition (share of all nodes). It is a
// row of the table text_partitions.
type partitionEnd struct {
	id    model.Partition
	block int64
	last  journal.Position
}

// Open opens the store in a SQLite file, and creates a missing file.
func Open(ctx context.Context, path string, o Options) (*Store, error) {
	db, err := sqldb.Open(ctx, path, "text")
	if err != nil {
		return nil, err
	}
	s := &Store{db: db, opts: o, words: newWordClass(), wake: make(chan struct{}, 1)}
	s.room.L = &s.capacity
	if err := s.load(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	s.counts.register(o.Registry)
	return s, nil
}

// Repair copies the readable rows of a damaged store into a new file. It returns the losses as sentences.
func Repair(ctx context.Context, path string) (losses []string, err error) {
	return sqldb.Repair(ctx, path, "text", schema, singleRow)
}

// load prepares the SQL statements, and reads the last stored block and journal position of each partition. The
// block is given by its number.
func (s *Store) load(ctx context.Context) (err error) {
	if err = s.db.Migrate(ctx, schema); err != nil {
		return err
	}
	if _, err = sqldb.Identity(ctx, s.db, "text_life", singleRow); err != nil {
		return err
	}
	if s.compression, err = newCompression(); err != nil {
		return err
	}
	s.insert, err = sqldb.NewInserter(ctx, s.db, "text_blocks (id, begun, ended, lines, size, filter, body)",
		"ON CONFLICT (id) DO UPDATE SET begun = excluded.begun, ended = excluded.ended, lines = excluded.lines, size = excluded.size, filter = excluded.filter, body = excluded.body",
		func(args []any, b *block) []any {
			return append(args, b.id, b.rows.earliest, b.rows.ended, b.rows.rows, b.size, b.sum, b.store)
		})
	if err != nil {
		return err
	}
	s.ends, err = sqldb.NewInserter(ctx, s.db, "text_partitions (id, block, log, number)", "ON CONFLICT (id) DO UPDATE SET block = excluded.block, log = excluded.log, number = excluded.number",
		func(args []any, e *partitionEnd) []any {
			return append(args, int64(e.id), e.block, int64(e.last.Log), int64(e.last.Number))
		})
	if err != nil {
		return err
	}
	for p := range s.partitions {
		s.partitions[p].id = int64(p)<<idShift | 1
	}
	ends, err := sqldb.List(ctx, s.db, "ends of partitions", func(scan sqldb.Scan) (e partitionEnd, err error) {
		var log, number int64
		err = scan(&e.id, &e.block, &log, &number)
		e.last = journal.Position{Log: uint64(log), Number: uint64(number)}
		return e, err
	}, `SELECT id, block, log, number FROM text_partitions`)
	for _, e := range ends {
		if int(e.id) < len(s.partitions) {
			p := &s.partitions[e.id]
			p.id, p.last, p.written = e.block+1, e.last, e.last
		}
	}
	return err
}

// Position returns the journal position of a partition's newest row, or zero without any rows.
func (s *Store) Position(id model.Partition) journal.Position {
	p := &s.partitions[id]
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

// Append adds the rows from one journal commit to a partition (share of all nodes). It keeps neither the rows
// nor their texts.
func (s *Store) Append(id model.Partition, at journal.Position, rows []Row) {
	p := &s.partitions[id]
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range rows {
		p.open.append(&rows[i])
	}
	p.last = at
	s.counts.rows.Add(uint64(len(rows)))
	if p.open.size() >= blockSize {
		s.completeBlock(p)
	}
}

// completeBlock queues the open block of a partition for the database, and begins a new block. The caller holds
// its mutex.
func (s *Store) completeBlock(p *partitionRows) {
	b := p.openBlock()
	p.full = append(p.full, b)
	p.open, p.id = rowEncoder{}, p.id+1
	s.addPending(b.rows.size())
	pause.Wake(s.wake)
}

// openBlock returns a copy of the block that takes new rows. Rows that are appended later do not change the copy. The
// caller holds the mutex.
func (p *partitionRows) openBlock() *block {
	rows := p.open
	rows.streams = nil
	return &block{id: p.id, rows: rows, last: p.last}
}

// addPending changes the count of bytes that wait for the database, and wakes callers of AwaitCapacity. Waiting
// bytes are in complete blocks that are not in the database yet.
func (s *Store) addPending(bytes int) {
	s.capacity.Lock()
	defer s.capacity.Unlock()
	s.pending += bytes
	s.room.Broadcast()
}

// AwaitCapacity blocks while more than maxPending bytes of complete blocks wait for the database.
func (s *Store) AwaitCapacity() {
	s.capacity.Lock()
	defer s.capacity.Unlock()
	for s.pending > maxPending && !s.closed {
		s.room.Wait()
	}
}

// unwrittenBlocks returns the complete blocks of a partition that are not in the database. If open is true, it adds a copy
// of the open block.
func (p *partitionRows) unwrittenBlocks(open bool) []*block {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.full[:len(p.full):len(p.full)]
	if open && p.open.rows > 0 && p.written != p.last {
		list = append(list, p.openBlock())
	}
	return list
}

// Flush writes all rows of a partition to the database that were appended before the call.
func (s *Store) Flush(ctx context.Context, id model.Partition) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.write(ctx, [][]*block{s.partitions[id].unwrittenBlocks(true)})
}

// write writes blocks of several partitions to the database in one transaction. The caller holds writing.
func (s *Store) write(ctx context.Context, lists [][]*block) error {
	var rows []block
	var ends []partitionEnd
	var body []byte
	for _, blocks := range lists {
		for _, b := range blocks {
			b.sum = s.words.buildFilter(&b.rows, &s.hashes)
			body = b.rows.body(body[:0])
			b.store = s.compressBody(body)
			b.size = (int64(len(b.sum)+len(b.store)) + pageSize) / pageSize * pageSize
			rows = append(rows, *b)
		}
		if len(blocks) > 0 {
			last := blocks[len(blocks)-1]
			ends = append(ends, partitionEnd{model.Partition(last.id >> idShift), last.id, last.last})
		}
	}
	if len(rows) == 0 {
		return nil
	}
	err := s.db.Write(ctx, func(tx *sqldb.Tx) error {
		return errors.Join(s.insert.Insert(ctx, tx, rows), s.ends.Insert(ctx, tx, ends))
	})
	if err != nil {
		return fmt.Errorf("write the text values of items: %w", err)
	}
	for _, blocks := range lists {
		if len(blocks) > 0 {
			s.noteWritten(&s.partitions[blocks[0].id>>idShift], blocks)
		}
	}
	return nil
}

// noteWritten removes written blocks of a partition from memory.
func (s *Store) noteWritten(p *partitionRows, blocks []*block) {
	bytes := 0
	p.mu.Lock()
	for _, b := range blocks {
		if len(p.full) > 0 && p.full[0] == b {
			bytes += b.rows.size()
			p.full = p.full[1:]
		}
	}
	p.written = blocks[len(blocks)-1].last
	p.mu.Unlock()
	s.addPending(-bytes)
}

// writeCompleteBlocks writes the complete blocks of all partitions to the database. The blocks that still take rows
// stay in memory.
func (s *Store) writeCompleteBlocks(ctx context.Context) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	lists := make([][]*block, len(s.partitions))
	for id := range s.partitions {
		lists[id] = s.partitions[id].unwrittenBlocks(false)
	}
	return s.write(ctx, lists)
}

// Run writes complete blocks to the database and removes old blocks, until ctx ends. From then on no applier waits.
func (s *Store) Run(ctx context.Context) {
	defer s.stopWaiting()
	clean := time.NewTicker(cleanEvery)
	defer clean.Stop()
	for ctx.Err() == nil {
		wake, err := s.wake, error(nil)
		select {
		case <-ctx.Done():
			return
		case <-clean.C:
			err = s.Clean(ctx, s.opts.Now())
		case <-wake:
			err = s.writeCompleteBlocks(ctx)
		}
		if err != nil && ctx.Err() == nil {
			s.opts.Logger.Error("cannot write the texts of items; the server tries again in a second", "err", err)
			if pause.For(ctx, writeEvery) == nil {
				pause.Wake(s.wake)
			}
		}
	}
}

// Trouble returns the reason why the store cannot write, or nil without a problem.
func (s *Store) Trouble() error { return s.db.Trouble() }

// stopWaiting makes all waiting calls of AwaitCapacity return. Rows that are not written come again from the journal
// after a restart.
func (s *Store) stopWaiting() {
	s.capacity.Lock()
	defer s.capacity.Unlock()
	s.closed = true
	s.room.Broadcast()
}

// Close closes the database. Rows that were not flushed come again from the journal.
func (s *Store) Close() error {
	s.stopWaiting()
	s.reader.Close()
	return errors.Join(s.writer.Close(), s.db.Close())
}
