package follow

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
)

const (
	readInterval = 50 * time.Millisecond // between two reads of the journal: lines of that time leave together
	fullBuffer   = 1 << 20               // bytes of waiting lines that cause a write
	firstRetry   = 250 * time.Millisecond
	lastRetry    = 5 * time.Second
)

// Journal has the methods of *journal.Log that the readers of results use.
type Journal interface {
	Read(ctx context.Context, from journal.Position, fn func(journal.Commit) error) error
	Head() journal.Position
	Tail() journal.Position
	Resolve(p journal.Position) (journal.Position, error)
	SizeAfter(p journal.Position) int64
	Stats() journal.Stats
}

// Follower reads every check result from the journal, and sends one handler each result as a JSON line.
type Follower struct {
	spec     *model.HandlerSpec
	stop     context.CancelFunc // ends run
	done     chan struct{}      // closed when run has returned
	name     route.Name
	opts     *Options
	log      *slog.Logger
	pool     *connPool
	reader   resultReader
	position journal.Position // lines up to here are written, or wait in the pool
	settled  deliveredPosition

	mu         sync.Mutex
	state      State
	savedLines uint64 // state.Lines at the last Set.linesWritten
}

// State describes the progress of one handler's reader of results, for tables and metrics. Tables and metrics
// show it.
type State struct {
	Handler        route.Name
	Address        string
	Connections    int // open now
	Lag            time.Duration
	BehindBytes    int64
	Lines          uint64 // written since the server started, with repetitions
	RewrittenLines uint64 // number of times that lines were written again, because connections broke
	Withheld       uint64 // results of namespaces with notifications: shadow
	Skipped        uint64 // results that were never sent, because the handler was too far behind
	SkippedAt      time.Time
	Trouble        string // reason why the follower makes no progress now; empty: it makes progress
	News           string // reason why the follower did not start at its saved cursor; empty: it did

	at       journal.Position // of the last commit read
	received int64            // receive time of that commit, Unix ns
	settled  journal.Position
}

// newFollower returns a reader that sends one handler every check result after a journal position.
func newFollower(o *Options, name route.Name, spec *model.HandlerSpec, from journal.Position, was State) (*Follower, error) {
	w, err := newNameCache(o.Directory, name.Namespace, spec.Stream.Only)
	if err != nil {
		return nil, err
	}
	timeout := time.Duration(spec.Timeout)
	if timeout <= 0 {
		timeout = o.Timeout
	}
	f := &Follower{spec: spec, done: make(chan struct{}), name: name, opts: o, log: o.Logger.With("handler", name.String()), pool: newConnPool(spec.Stream, timeout, o.Dial), position: from}
	f.reader = resultReader{names: w, view: o.View, log: f.log}
	f.settled.assumeDelivered(o.Now(), from)
	was.Handler, was.Address, was.at, was.settled, was.received = name, spec.Stream.Address, from, from, o.Now().UnixNano()
	f.state = was
	return f, nil
}

// run sends new check results to the stream handler until ctx ends.
func (f *Follower) run(ctx context.Context) {
	defer context.AfterFunc(ctx, f.pool.interruptWrite)()
	timer := time.NewTimer(0)
	defer timer.Stop()
	retry := firstRetry
	for {
		select {
		case <-ctx.Done():
			f.closeConnections()
			return
		case <-timer.C:
		}
		err := f.sendNewResults(ctx)
		if ctx.Err() != nil {
			continue
		}
		wait := readInterval
		if err != nil {
			wait, retry = retry, min(2*retry, lastRetry)
		} else {
			retry = firstRetry
		}
		f.reportProgress(err)
		timer.Reset(wait)
	}
}

// sendNewResults sends the handler all results after the reader's position, up to the journal's end. It stops
// at the last commit that the event view, the computed state of all events, has applied.
func (f *Follower) sendNewResults(ctx context.Context) error {
	f.reader.names.refresh()
	if f.isTooFarBehind() {
		if err := f.skipOldest(ctx); err != nil {
			return err
		}
	}
	if f.pool.findBroken() {
		if err := f.resendBroken(ctx); err != nil {
			return err
		}
	}
	if err := f.flushLines(ctx); err != nil { // write the lines that an earlier, failed call left
		return err
	}
	to := f.opts.View.Applied() // not further: each line has the state of its event from the view
	if to.Number > f.position.Number {
		f.reader.handleResult = func(r *streamedResult) { f.pool.addLine(f.pool.connOf(r.nodeID, r.check.id), r) }
		err := f.readCommits(ctx, f.position, to, func(c journal.Commit) error {
			f.position = c.Position()
			f.recordCommit(c)
			if f.pool.waitingBytes < fullBuffer {
				return nil
			}
			return f.flushLines(ctx)
		})
		if errors.Is(err, journal.ErrTrimmed) {
			return f.restartAtOldestCommit()
		}
		if err != nil {
			return err
		}
		if err := f.flushLines(ctx); err != nil {
			return err
		}
	}
	f.markLinesWritten()
	return nil
}

var errStopReading = errors.New("read far enough")

// readCommits reads the commits of the journal between two positions. It passes their results to reader.readCommit and
// each commit to done.
func (f *Follower) readCommits(ctx context.Context, from, to journal.Position, done func(journal.Commit) error) error {
	err := f.opts.Journal.Read(ctx, from, func(c journal.Commit) error {
		if c.Position().Number > to.Number {
			return errStopReading
		}
		if err := f.reader.readCommit(c); err != nil {
			return err
		}
		return done(c)
	})
	if errors.Is(err, errStopReading) {
		return nil
	}
	return err
}

// flushLines writes the buffered lines of all the handler's connections, and counts the written lines.
func (f *Follower) flushLines(ctx context.Context) error {
	lines, err := f.pool.flushConns(ctx, false)
	if lines > 0 {
		f.updateState(func(s *State) { s.Lines += lines })
	}
	if err == nil && lines > 0 {
		f.markLinesWritten()
	}
	return err
}

// markLinesWritten records the time at which all lines before the reader's position were written to the
// connections.
func (f *Follower) markLinesWritten() {
	f.settled.addWritten(f.opts.Now(), f.position)
	for f.opts.Journal.SizeAfter(f.settled.position()) > f.opts.lagLimit() && f.settled.assumeOldestDelivered() {
	}
	f.updateState(func(s *State) {
		s.settled, s.Withheld, s.Connections = f.settled.position(), f.reader.shadow, f.pool.countOpen()
	})
}

// resendBroken opens broken connections to the handler again, and repeats the lines that may be lost. The peer
// may not have received these lines.
func (f *Follower) resendBroken(ctx context.Context) error {
	f.settled.assumeDelivered(f.opts.Now(), f.settled.position())
	broken, err := f.pool.reopen(ctx)
	if err != nil {
		return err
	}
	f.reader.handleResult = func(r *streamedResult) {
		if l := f.pool.connOf(r.nodeID, r.check.id); l.broken {
			f.pool.addLine(l, r)
		}
	}
	from := f.settled.position()
	err = f.readCommits(ctx, from, f.position, func(journal.Commit) error {
		if f.pool.waitingBytes < fullBuffer {
			return nil
		}
		return f.flushBroken(ctx)
	})
	if errors.Is(err, journal.ErrTrimmed) {
		err = f.restartAtOldestCommit()
	}
	if err == nil {
		err = f.flushBroken(ctx)
	}
	if err != nil {
		return err
	}
	f.pool.markIntact()
	f.log.Info("connections of a stream broke; the lines since the settled position were sent again", "connections", broken, "commits", f.position.Number-from.Number)
	f.updateState(func(s *State) { s.RewrittenLines++ })
	return nil
}

// flushBroken writes the buffered lines of connections that were opened again after a failure.
func (f *Follower) flushBroken(ctx context.Context) error {
	lines, err := f.pool.flushConns(ctx, true)
	f.updateState(func(s *State) { s.Lines += lines })
	return err
}

// closeConnections closes the connections to the handler, and records the lines that have arrived. If all peers have
// read to the end, no line is sent again after the next start.
func (f *Follower) closeConnections() {
	if read := f.pool.close(); read && f.pool.waitingBytes == 0 {
		f.settled.assumeDelivered(f.opts.Now(), f.position)
	}
	f.updateState(func(s *State) { s.settled, s.Connections = f.settled.position(), 0 })
}

// recordCommit stores the position of the journal commit that the reader has read last.
func (f *Follower) recordCommit(c journal.Commit) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state.at, f.state.received = f.position, c.Received()
}

// updateState changes the visible state of the reader under its lock.
func (f *Follower) updateState(change func(*State)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.state)
}

// reportProgress logs once when sending results stops making progress, and once at its recovery.
func (f *Follower) reportProgress(err error) {
	f.mu.Lock()
	was := f.state.Trouble
	f.state.Trouble = ""
	if err != nil {
		f.state.Trouble, f.state.Connections = err.Error(), f.pool.countOpen()
	}
	f.mu.Unlock()
	switch {
	case err != nil && was == "":
		f.log.Warn("a stream makes no progress; it continues from its cursor by itself", "err", err)
	case err == nil && was != "":
		f.log.Info("a stream makes progress again")
	}
}

// State returns the reader's present position, delay and last error.
func (f *Follower) State() State {
	f.mu.Lock()
	s := f.state
	f.mu.Unlock()
	if head := f.opts.Journal.Head(); head.Number > s.at.Number {
		s.Lag = max(0, f.opts.Now().Sub(time.Unix(0, s.received)))
		s.BehindBytes = f.opts.Journal.SizeAfter(s.at)
	}
	return s
}

// Settle is the time after which written lines count as taken; lines written since then are sent again when a
// connection breaks. TCP does not report how much its peer has read.
const Settle = 15 * time.Second

// deliveredPosition computes up to which journal position all lines have surely arrived at the handler. Lines are
// settled when their write is at least the time Settle ago.
type deliveredPosition struct {
	marks []writtenPosition // ascending; the first is settled
}

// writtenPosition is a journal position with the time at which all earlier lines were written to the
// connections.
type writtenPosition struct {
	writtenAt time.Time
	at        journal.Position
}

// assumeDelivered marks all lines up to a journal position as received by the handler.
func (s *deliveredPosition) assumeDelivered(now time.Time, at journal.Position) {
	s.marks = append(s.marks[:0], writtenPosition{now, at})
}

// addWritten records that, at the present time, all lines before a journal position were written to the
// connections.
func (s *deliveredPosition) addWritten(now time.Time, at journal.Position) {
	if now.Sub(s.marks[len(s.marks)-1].writtenAt) < time.Second {
		return
	}
	s.marks = append(s.marks, writtenPosition{now, at})
	old := 0
	for old+1 < len(s.marks) && now.Sub(s.marks[old+1].writtenAt) >= Settle {
		old++
	}
	s.marks = append(s.marks[:0], s.marks[old:]...)
}

// assumeOldestDelivered treats the oldest written lines as delivered, so that the journal can delete more
// commits. The journal can then delete more. It returns false if no mark is left.
func (s *deliveredPosition) assumeOldestDelivered() bool {
	if len(s.marks) < 2 {
		return false
	}
	s.marks = append(s.marks[:0], s.marks[1:]...)
	return true
}

// position returns the journal position up to which all lines have surely arrived at the handler. Those lines were
// written at least the time Settle ago. It does not advance while no lines can be written, because nobody calls add.
func (s *deliveredPosition) position() journal.Position { return s.marks[0].at }

// Share is the largest part of the journal's budget that one follower may keep from being cut.
const Share = 0.25

// isTooFarBehind reports whether the reader has left so much of the journal unread that results are skipped. It
// may have a share of the journal's size limit.
func (f *Follower) isTooFarBehind() bool {
	f.mu.Lock()
	at := f.state.at
	f.mu.Unlock()
	return f.opts.Journal.SizeAfter(at) > f.opts.lagLimit()
}

// skipOldest skips the oldest unread results, until half of the permitted unread part of the journal is left.
// It counts the skipped results. Waiting lines, and lines since the settled position on broken connections,
// count as skipped, too.
func (f *Follower) skipOldest(ctx context.Context) error {
	from := f.position
	if f.pool.findBroken() || f.pool.waitingBytes > 0 {
		from = f.settled.position()
	}
	f.pool.dropLines()
	var skipped uint64
	f.reader.handleResult = func(*streamedResult) { skipped++ }
	half, at, looked := f.opts.lagLimit()/2, from, 0
	err := f.opts.Journal.Read(ctx, from, func(c journal.Commit) error {
		if looked++; looked%16 == 0 && f.opts.Journal.SizeAfter(at) <= half {
			return errStopReading
		}
		if err := f.reader.readCommit(c); err != nil {
			return err
		}
		at = c.Position()
		f.position = at
		f.recordCommit(c)
		return nil
	})
	if errors.Is(err, journal.ErrTrimmed) {
		return f.restartAtOldestCommit()
	}
	if err != nil && !errors.Is(err, errStopReading) {
		return err
	}
	f.countSkippedResults(skipped)
	return nil
}

// restartAtOldestCommit continues at the journal's oldest commit, because the journal has deleted the next
// unread commits. A repair of the journal has removed the commits at the follower's position. The lost results
// cannot be counted.
func (f *Follower) restartAtOldestCommit() error {
	f.position = f.opts.Journal.Tail()
	f.position.Number--
	f.pool.dropLines()
	f.countSkippedResults(0)
	return nil
}

// countSkippedResults adds to the number of results that the handler never gets because the reader was too slow.
func (f *Follower) countSkippedResults(n uint64) {
	now := f.opts.Now()
	f.pool.markIntact()
	f.settled.assumeDelivered(now, f.position)
	f.updateState(func(s *State) { s.Skipped, s.SkippedAt, s.settled, s.at = s.Skipped+n, now, f.position, f.position })
	f.log.Error("a stream was too far behind: results were skipped", "results", n, "share", f.opts.lagLimit())
}
