package compliancelog

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
	"github.com/muster-fleet/muster/internal/store/sqldb"
)

// schema has one step for each version of the tables. The id of a block is its partition and its number in it, so that the blocks
// of a partition lie together. The index has all that a reader needs to choose blocks without reading them.
var schema = []string{`
	CREATE TABLE compliance_blocks (
		id {id}, checkpoint BIGINT NOT NULL, begun BIGINT NOT NULL, ended BIGINT NOT NULL, log BIGINT NOT NULL, number BIGINT NOT NULL, body {blob} NOT NULL);
	CREATE INDEX compliance_blocks_times ON compliance_blocks (id, checkpoint, begun, ended);
	CREATE TABLE compliance_definitions (definition BIGINT PRIMARY KEY, last BIGINT NOT NULL);
	CREATE TABLE compliance_certificates (sum BIGINT PRIMARY KEY, last BIGINT NOT NULL, der {blob} NOT NULL);
	CREATE TABLE compliance_life (one BIGINT PRIMARY KEY, identity BIGINT NOT NULL);
`}

// singleRow writes the one row of the table compliance_life.
const singleRow = `INSERT INTO compliance_life (one, identity) VALUES (1, 0) ON CONFLICT DO NOTHING`

// Kinds of blocks.
const (
	packed      = -1 // differences: blocks that pack merged
	differences = 0
	checkpoint  = 1 // all runs of the partition
	restart     = 2 // a checkpoint: the blocks before it miss entries, or have too many
	resumption  = 3 // a checkpoint: the blocks before it lack nodes that held more than their share
)

// Sizes of blocks in bytes, before compression.
const (
	blockSize       = 4 << 10  // a block of so many bytes is complete
	leastCheckpoint = 64 << 10 // a checkpoint follows so many bytes of differences,
	checkpointShare = 6        // and so many times the bytes of the last checkpoint
	maxPending      = 16 << 20 // bytes of complete blocks that wait for the database; appliers wait beyond it
	idShift         = 40       // of the partition in the id of a block
	flushEvery      = time.Minute
	cleanEvery      = time.Hour
)

// Options has the settings of a Store, such as how long entries are kept.
type Options struct {
	Retention time.Duration             // entries are kept so long; zero: for ever
	Budget    int64                     // bytes of blocks, in a SQLite file with its index; zero: no bound
	Namespace func(model.NodeID) string // of a node: namespaces share the budget
	Now       func() time.Time
	Logger    *slog.Logger
}

// Store stores the history of directive runs in a database. It is safe for concurrent use; entries of a
// partition come in their order.
type Store struct {
	db                 *sqldb.DB
	insert             *sqldb.Inserter[block]
	definitionInserter *sqldb.Inserter[referencedDirective]
	proven             *sqldb.Inserter[certificate]
	opts               Options
	compression

	flushing sync.Mutex    // serializes Flush
	full     chan struct{} // capacity 1: many entries wait

	mu           sync.Mutex
	room         sync.Cond // signals that pending has become smaller, or that the store closes
	partitions   [model.Partitions]partitionBlocks
	definitions  map[model.DefinitionID]int64 // that entries name, with the time of the last one, Unix ms
	renamed      map[model.DefinitionID]bool  // those whose time is not written yet
	certificates []certificate                // that are not written yet
	pending      int                          // bytes of complete blocks that are not written
	closed       bool
}

// partitionBlocks has the history entries of one partition (a share of all nodes) that await a database write.
type partitionBlocks struct {
	full            []block // complete and not written
	open            block   // without its body
	entries         encoder // of open
	written         int     // bytes of entries that are written
	last            journal.Position
	differences     int // bytes of entries since the last checkpoint, without hashes
	checkpointBytes int // of the last checkpoint
}

// block is a group of history entries of one partition, stored together, or a checkpoint of all states. It is a row of
// the table compliance_blocks.
type block struct {
	id              int64
	kind            int
	earliest, ended int64            // earliest and latest time of an entry, Unix ms
	last            journal.Position // of its last entry
	body            blockContent
	stored          []byte // form of the row
}

// referencedDirective is a compiled directive to which history entries refer. It is a row of the table
// compliance_definitions.
type referencedDirective struct {
	id   model.DefinitionID
	last int64
}

// certificate is a certificate with which an agent signs its runs. It is a row of the table compliance_certificates.
type certificate struct {
	sum  CertificateSum // its first 8 bytes are the key of the row
	last int64          // of its last arrival, Unix ms
	der  []byte
}

// Open opens the store at dsn (see sqldb.Open) and creates its tables.
func Open(ctx context.Context, dsn string, o Options) (*Store, error) {
	db, err := sqldb.Open(ctx, dsn, "compliance")
	if err != nil {
		return nil, err
	}
	s := &Store{db: db, opts: o, full: make(chan struct{}, 1), definitions: map[model.DefinitionID]int64{}, renamed: map[model.DefinitionID]bool{}}
	s.room.L = &s.mu
	if err := s.load(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

// Repair copies the readable rows of a damaged store into a new file. It returns the losses as sentences.
func Repair(ctx context.Context, dsn string) (losses []string, err error) {
	return sqldb.Repair(ctx, dsn, "compliance", schema, singleRow)
}

// load prepares the SQL statements, and reads the last block and the journal position of each partition.
func (s *Store) load(ctx context.Context) (err error) {
	if err = s.db.Migrate(ctx, schema); err != nil {
		return err
	}
	if _, err = sqldb.Identity(ctx, s.db, "compliance_life", singleRow); err != nil {
		return err
	}
	if s.compression, err = newCompression(); err != nil {
		return err
	}
	s.insert, err = sqldb.NewInserter(ctx, s.db, "compliance_blocks (id, checkpoint, begun, ended, log, number, body)",
		"ON CONFLICT (id) DO UPDATE SET begun = excluded.begun, ended = excluded.ended, log = excluded.log, number = excluded.number, body = excluded.body",
		func(args []any, b *block) []any {
			return append(args, b.id, b.kind, b.earliest, b.ended, int64(b.last.Log), int64(b.last.Number), b.stored)
		})
	if err != nil {
		return err
	}
	s.definitionInserter, err = sqldb.NewInserter(ctx, s.db, "compliance_definitions (definition, last)", "ON CONFLICT (definition) DO UPDATE SET last = excluded.last",
		func(args []any, d *referencedDirective) []any { return append(args, int64(d.id), d.last) })
	if err != nil {
		return err
	}
	s.proven, err = sqldb.NewInserter(ctx, s.db, "compliance_certificates (sum, last, der)", "ON CONFLICT (sum) DO UPDATE SET last = excluded.last",
		func(args []any, c *certificate) []any {
			return append(args, c.sum.shortened(), c.last, s.compressCertificate(c.der))
		})
	if err != nil {
		return err
	}
	definitions, err := sqldb.List(ctx, s.db, "definitions", func(scan sqldb.Scan) (d referencedDirective, err error) {
		err = scan(&d.id, &d.last)
		return d, err
	}, `SELECT definition, last FROM compliance_definitions`)
	if err != nil {
		return err
	}
	for _, d := range definitions {
		s.definitions[d.id] = d.last
	}
	blocks, err := sqldb.List(ctx, s.db, "last blocks", func(scan sqldb.Scan) (b block, err error) {
		var log, number int64
		err = scan(&b.id, &log, &number)
		b.last = journal.Position{Log: uint64(log), Number: uint64(number)}
		return b, err
	}, `SELECT id, log, number FROM compliance_blocks WHERE id IN (SELECT MAX(id) FROM compliance_blocks GROUP BY id >> `+fmt.Sprint(idShift)+`)`)
	if err != nil {
		return err
	}
	for p := range s.partitions {
		s.partitions[p].open.id = int64(p)<<idShift | 1
	}
	for _, b := range blocks {
		p := &s.partitions[b.id>>idShift]
		p.last, p.open.id = b.last, b.id+1
	}
	return nil
}

// Last returns the journal position up to which a partition's history is recorded, or zero for none.
func (s *Store) Last(p model.Partition) journal.Position {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.partitions[p].last
}

// Append adds the changes of one journal commit to the history of a partition.
func (s *Store) Append(id model.Partition, at journal.Position, changes []Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &s.partitions[id]
	for i := range changes {
		c := &changes[i]
		before := len(p.entries.data)
		p.entries.append(c)
		p.differences += len(p.entries.data) - before
		p.open.ended = max(p.open.ended, p.entries.executed)
		if c.Before.Definition != c.After.Definition {
			s.recordDirectives(c)
		}
	}
	if p.last = at; len(p.entries.data)+len(p.entries.hashes) >= blockSize {
		s.completeBlock(p, differences)
	}
}

// AddCertificate stores a certificate with which an agent signs its runs. It also stores the time (Unix ms) at which
// the server received it. The store owns der.
func (s *Store) AddCertificate(der []byte, received int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.certificates = append(s.certificates, certificate{sha256.Sum256(der), received, der})
}

// recordDirectives records the compiled directives of an entry, so that the server keeps each definition. The
// caller holds mu.
func (s *Store) recordDirectives(c *Change) {
	for _, id := range [...]model.DefinitionID{c.Before.Definition, c.After.Definition} {
		if id != 0 {
			s.definitions[id] = max(s.definitions[id], c.After.Executed)
			s.renamed[id] = true
		}
	}
}

// completeBlock ends the block of a partition that accepts new entries, and begins a new block. Without entries
// it does nothing. The caller holds mu.
func (s *Store) completeBlock(p *partitionBlocks, kind int) {
	if len(p.entries.data) == 0 {
		return
	}
	b := p.open
	b.kind, b.earliest, b.last, b.body = kind, p.entries.earliest, p.last, p.entries.content()
	p.full = append(p.full, b)
	s.pending += b.body.size()
	p.open, p.written = block{id: b.id + 1}, 0
	p.entries.nextBlock()
}

// CheckpointDue reports whether a checkpoint (all states of a partition) must precede the next entry.
func (s *Store) CheckpointDue(id model.Partition) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &s.partitions[id]
	return p.differences > max(leastCheckpoint, checkpointShare*p.checkpointBytes)
}

// Checkpoint records the present states of a partition's directives and hash chains (of signed runs) in the
// history. They are as before a commit that was received at a time (Unix ms). again says that the entries
// before it do not lead to them: entries are missing, or come from a journal that was replaced.
func (s *Store) Checkpoint(id model.Partition, at journal.Position, received int64, runs []State, chains []ChainEntry, again bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &s.partitions[id]
	s.completeBlock(p, differences)
	p.last, p.entries = at, encoder{}
	for i := range runs {
		c := Change{After: runs[i]}
		c.After.Executed = c.After.Changed
		p.entries.append(&c)
		s.recordDirectives(&c)
	}
	for i := range chains {
		p.entries.appendChainEntry(&chains[i])
	}
	if p.entries.earliest == 0 { // without entries
		p.entries.data, p.entries.earliest = []byte{}, received
	}
	p.open.ended, p.differences, p.checkpointBytes = received, 0, len(p.entries.data)
	kind := checkpoint
	if again {
		kind = restart
	}
	s.completeCheckpoint(p, kind)
}

// completeCheckpoint ends the present block of a partition as a checkpoint (a block with all states). The
// caller holds mu.
func (s *Store) completeCheckpoint(p *partitionBlocks, kind int) {
	b := p.open
	b.kind, b.earliest, b.last, b.body = kind, p.entries.earliest, p.last, p.entries.content()
	p.full = append(p.full, b)
	s.pending += b.body.size()
	p.open, p.written = block{id: b.id + 1}, 0
	p.entries.nextBlock()
}

// AwaitCapacity blocks while too many entries wait to be written to the database.
func (s *Store) AwaitCapacity() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pending > maxPending/2 {
		pause.Wake(s.full)
	}
	for s.pending > maxPending && !s.closed {
		s.room.Wait()
	}
}

// Definitions returns the ids of the compiled directives to which history entries refer.
func (s *Store) Definitions() map[model.DefinitionID]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[model.DefinitionID]bool, len(s.definitions))
	for id := range s.definitions {
		out[id] = true
	}
	return out
}

// unwrittenBlocks returns the blocks of some partitions that the database does not have yet. It also returns the unwritten
// definitions and certificates of all partitions.
func (s *Store) unwrittenBlocks(partitions []model.Partition) (blocks []block, definitions []referencedDirective, certificates []certificate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range partitions {
		p := &s.partitions[id]
		blocks = append(blocks, p.full...)
		if len(p.entries.data) > p.written {
			b := p.open
			b.earliest, b.last, b.body = p.entries.earliest, p.last, p.entries.content()
			blocks = append(blocks, b)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(s.renamed)) {
		definitions = append(definitions, referencedDirective{id, s.definitions[id]})
	}
	return blocks, definitions, s.certificates[:len(s.certificates):len(s.certificates)]
}

// markWritten marks blocks, compiled directives and certificates as written to the database.
func (s *Store) markWritten(blocks []block, definitions []referencedDirective, certificates int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.certificates = slices.Clone(s.certificates[certificates:])
	for _, b := range blocks {
		p := &s.partitions[b.id>>idShift]
		if b.id == p.open.id {
			p.written = len(b.body.entries)
		} else if len(p.full) > 0 && p.full[0].id == b.id && len(p.full[0].body.entries) == len(b.body.entries) {
			s.pending -= b.body.size()
			p.full = slices.Delete(p.full, 0, 1)
		}
	}
	for _, d := range definitions {
		if s.definitions[d.id] == d.last {
			delete(s.renamed, d.id)
		}
	}
	s.room.Broadcast()
}

// Flush writes all appended entries of some partitions in one transaction. Without arguments it writes those of all
// partitions.
func (s *Store) Flush(ctx context.Context, partitions ...model.Partition) error {
	if len(partitions) == 0 {
		partitions = Selection{}.partitions()
	}
	s.flushing.Lock()
	defer s.flushing.Unlock()
	blocks, definitions, certificates := s.unwrittenBlocks(partitions)
	if len(blocks)+len(definitions)+len(certificates) == 0 {
		return nil
	}
	for i := range blocks {
		b := &blocks[i]
		b.stored = s.encodeRow(b.body, b.kind != differences || b.body.size() >= blockSize)
	}
	err := s.db.Write(ctx, func(tx *sqldb.Tx) error {
		return errors.Join(s.insert.Insert(ctx, tx, blocks), s.definitionInserter.Insert(ctx, tx, definitions), s.proven.Insert(ctx, tx, certificates))
	})
	if err != nil {
		return fmt.Errorf("write the history of compliance: %w", err)
	}
	s.markWritten(blocks, definitions, len(certificates))
	return nil
}

// Run writes entries once a minute and removes old entries until ctx ends. It writes sooner if many entries wait.
func (s *Store) Run(ctx context.Context) error {
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	cleaned := s.opts.Now()
	for {
		err := s.Flush(ctx)
		if now := s.opts.Now(); err == nil && now.Sub(cleaned) >= cleanEvery {
			cleaned = now
			err = s.Clean(ctx, now)
		}
		if err != nil && ctx.Err() == nil {
			s.opts.Logger.Error("cannot write the history of compliance; the server tries again in a minute", "err", err)
		}
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
			defer cancel()
			return s.Flush(last)
		case <-tick.C:
		case <-s.full:
		}
	}
}

// Close closes the database, and ends all calls of AwaitCapacity.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	s.room.Broadcast()
	s.mu.Unlock()
	s.reader.Close()
	return errors.Join(s.writer.Close(), s.db.Close())
}
