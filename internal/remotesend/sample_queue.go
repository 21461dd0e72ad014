package remotesend

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// Options has the settings of a Queue for remote write.
type Options struct {
	Dir        string // of the log
	URL        string // of the other store: http or https
	AuthFile   string // with USER:PASSWORD or a bearer token; empty: none
	CAFile     string // certificates in PEM that the address may have; empty: the system's
	Match      string // selector of the series to send; empty: all
	Budget     int64  // bytes of the log; the oldest samples make room
	Now        func() time.Time
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Queue keeps samples until remote write has sent the samples to the other store.
type Queue struct {
	opts     Options
	log      *journal.Log
	matchers []*labels.Matcher
	client   *http.Client
	metrics  metrics

	mu       sync.Mutex
	appended [model.Partitions]journal.Position // of the server's journal: the log has the samples up to these commits
	position journal.Position                   // of the log: sent up to here
	oldest   int64                              // receive time of the oldest commit that is not sent, Unix ns; zero: all are sent
	trouble  error                              // of the last request; nil: it succeeded

	refusals State // only its fields of refused samples

	refusalWarning, appendWarning warning

	sent   atomic.Uint64 // samples
	moved  bool          // the position has moved since the last mark; of Run alone
	marked time.Time     // last call of cut by deleteSentPeriodically; of Run alone
	warned bool          // of damage in the log; of Run alone
}

// Kinds of entries in the log.
const (
	samplesEntry = 1 // log and commit of the server's journal, then a block of samples: the last one of a commit in a partition
	markEntry    = 2 // the sent position of the log, then the positions of the partitions in the server's journal
	flushEntry   = 3 // nothing
	partEntry    = 4 // as samplesEntry; another one follows
)

// Open opens the on-disk log of a remote-write queue, and restores the queue's unsent samples.
func Open(ctx context.Context, o Options) (*Queue, error) {
	q := &Queue{opts: o}
	address, err := url.Parse(o.URL)
	if err != nil || address.Host == "" || address.User != nil || address.Scheme != "http" && address.Scheme != "https" {
		return nil, model.Errorf(model.Invalid, "remote-write-url: expected an address such as https://metrics.example.org/api/v1/write").WithHint("user and password stand in the file of remote-write-auth-file")
	}
	if o.Match != "" {
		if q.matchers, err = parser.NewParser(parser.Options{}).ParseMetricSelector(o.Match); err != nil {
			return nil, model.Errorf(model.Invalid, "the setting remote-write-match is invalid: %w", err).WithHint(`write a selector such as {namespace="web"}`)
		}
	}
	if q.client, err = newClient(o.CAFile); err != nil {
		return nil, err
	}
	jo := journal.Options{
		Budget: o.Budget, Reserve: -1, Tick: -1, Linger: lingerTime, MaxCommit: commitBytes, SegmentSize: o.Budget / 32, Logger: o.Logger, Name: "remote write",
		RepairCommand: "restart the server, which repairs the log of remote write",
	}
	q.log, err = journal.Open(o.Dir, jo)
	if damage := (*journal.DamageError)(nil); errors.As(err, &damage) {
		o.Logger.Error("the log of remote write is damaged; the samples of the lost part are not sent", "err", damage)
		if _, err = journal.Repair(o.Dir, jo); err == nil {
			q.log, err = journal.Open(o.Dir, jo)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open the log of remote write: %w", err)
	}
	if err := q.load(ctx); err != nil {
		return nil, errors.Join(err, q.log.Close())
	}
	q.metrics = newMetrics(o.Registerer, q)
	return q, nil
}

// Sizes of commits in the log.
const (
	lingerTime  = 200 * time.Millisecond // samples wait for others, so that they share a sync
	commitBytes = 512 << 10
)

// load reads from the log the position of the last sent sample, and all samples after the position. The newest
// mark of the log has the sent position. It skips damage. A mark may be below the tail of the log after a kill
// between a cut and its mark.
func (q *Queue) load(ctx context.Context) error {
	tail := q.log.Tail()
	tail.Number = max(tail.Number, 1) - 1
	q.position = tail
	malformed := 0
	err := q.log.ReadUndamaged(ctx, tail, func(c journal.Commit) error {
		for _, section := range c.Sections() {
			err := c.Entries(section, func(data []byte) error {
				if q.loadEntry(model.Partition(section), data) != nil {
					malformed++
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if malformed > 0 {
		q.opts.Logger.Warn("entries of the log of remote write are malformed; they are left out", "malformed", malformed)
	}
	if at, err := q.log.Resolve(q.position); err != nil || at.Number < tail.Number {
		q.position = tail
	}
	return err
}

// loadEntry reads one entry of the queue's log at the server's start.
func (q *Queue) loadEntry(p model.Partition, data []byte) error {
	if len(data) == 0 || int(p) >= len(q.appended) && data[0] == samplesEntry {
		return errEntry
	}
	switch data[0] {
	case flushEntry, partEntry:
		return nil
	case samplesEntry:
		at, _, err := decodeEntryHeader(data[1:])
		if err == nil {
			q.appended[p] = at
		}
		return err
	case markEntry:
		return q.loadSentPosition(data)
	}
	return errEntry
}

// loadSentPosition reads the recorded position of the last sent sample from the log, at the server's start.
func (q *Queue) loadSentPosition(data []byte) error {
	rest := data[1:]
	var err error
	var position journal.Position
	if position, rest, err = decodeEntryHeader(rest); err != nil {
		return err
	}
	q.position = position
	for i := range q.appended {
		var at journal.Position
		if at, rest, err = decodeEntryHeader(rest); err != nil {
			return err
		}
		if at != (journal.Position{}) { // samples of the log before the mark are older
			q.appended[i] = at
		}
	}
	return nil
}

// appendEntryHeader appends the header of a log entry, with the journal commit that the samples come from.
func appendEntryHeader(b []byte, at journal.Position) []byte {
	return binary.AppendUvarint(binary.LittleEndian.AppendUint64(b, at.Log), at.Number)
}

// errEntry is the error about an entry that cannot be read.
var errEntry = errors.New("an entry of the log of remote write is malformed")

// decodeEntryHeader decodes the journal commit in the header of a log entry, and returns the remaining bytes.
func decodeEntryHeader(b []byte) (at journal.Position, rest []byte, err error) {
	if len(b) < 9 {
		return at, nil, errEntry
	}
	number, n := binary.Uvarint(b[8:])
	if n <= 0 {
		return at, nil, errEntry
	}
	return journal.Position{Log: binary.LittleEndian.Uint64(b), Number: number}, b[8+n:], nil
}

// Position returns the last journal commit of a partition whose samples are in the queue's log. The commit is of one
// partition; samples that only Flush makes durable count, too.
func (q *Queue) Position(p model.Partition) journal.Position {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.appended[p]
}

// Selects reports whether the samples of a series are to be sent by remote write.
func (q *Queue) Selects(l labels.Labels) bool {
	for _, m := range q.matchers {
		if !m.Matches(l.Get(m.Name)) {
			return false
		}
	}
	return true
}

// Append adds samples from one journal commit to the log of the remote-write queue. The parameter last is true for the
// commit's last samples. The caller passes the commits of a partition in order.
func (q *Queue) Append(p model.Partition, at journal.Position, block *wire.SampleBlock, last bool) {
	kind := byte(partEntry)
	if last {
		kind = samplesEntry
	}
	data := block.Append(appendEntryHeader([]byte{kind}, at))
	err := q.log.Append(context.Background(), journal.Entry{Section: journal.Section(p), Data: data})
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case errors.Is(err, journal.ErrClosed): // the next start reads the commit again
	case err != nil:
		q.countDropped(data, err)
	case last:
		q.appended[p] = at
	}
}

// countDropped counts as dropped the samples of an entry that could not be written to the log. The log on disk
// has refused the entry; a warning follows at intervals. The caller holds the mutex.
func (q *Queue) countDropped(data []byte, err error) {
	var b batch
	_ = b.add(data) // counts the samples before an unreadable one
	q.metrics.dropped.Add(float64(b.samples))
	if q.appendWarning.isDue(q.opts.Now()) {
		q.opts.Logger.Warn("the log of remote write does not take samples; they are dropped", "samples", b.samples, "err", err)
	}
}

// waiter is a channel that receives the error of a write to the remote-write queue's log.
type waiter chan error

// Committed sends the error of a write to the log, or nil, to the waiting goroutine.
func (w waiter) Committed(_ uint64, _ journal.Position, err error) { w <- err }

// Flush waits until all samples that were added to the remote-write queue are on disk.
func (q *Queue) Flush(ctx context.Context) error { return q.write(ctx, []byte{flushEntry}) }

// recordSentPosition writes the position of the last sent sample to the log, and waits for the disk.
func (q *Queue) recordSentPosition(ctx context.Context) error {
	q.mu.Lock()
	data := appendEntryHeader([]byte{markEntry}, q.position)
	for _, at := range q.appended {
		data = appendEntryHeader(data, at)
	}
	q.mu.Unlock()
	return q.write(ctx, data)
}

// write appends an entry to the remote-write queue's log, and waits until the entry is on disk.
func (q *Queue) write(ctx context.Context, data []byte) error {
	w := make(waiter, 1)
	if err := q.log.Append(ctx, journal.Entry{Data: data, Waiter: w}); err != nil {
		return err
	}
	select {
	case err := <-w:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close closes the on-disk log of the queue.
func (q *Queue) Close() error { return q.log.Close() }
