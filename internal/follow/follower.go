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
	gather     = 50 * time.Millisecond // between two reads of the journal: lines of that time leave together
	fullBuffer = 1 << 20               // bytes of waiting lines that cause a write
	firstRetry = 250 * time.Millisecond
	lastRetry  = 5 * time.Second
)

// Journal is the part of *journal.Log that followers read.
type Journal interface {
	Read(ctx context.Context, from journal.Position, fn func(journal.Commit) error) error
	Head() journal.Position
	Tail() journal.Position
	Resolve(p journal.Position) (journal.Position, error)
	SizeAfter(p journal.Position) int64
	Stats() journal.Stats
}

// Follower sends every result to one handler.
type Follower struct {
	name    route.Name
	opts    *Options
	log     *slog.Logger
	pool    *pool
	reader  reader
	pos     journal.Position // lines up to here are written, or wait in the pool
	settled settlement

	mu    sync.Mutex
	shown State
	saved uint64 // shown.Lines at the last Set.linesWritten
}

// State describes a follower for people.
type State struct {
	Handler     route.Name
	Address     string
	Connections int // open now
	Behind      time.Duration
	BehindBytes int64
	Lines       uint64 // written since the server started, with repetitions
	Again       uint64 // times that lines had to be written again, because connections broke
	Withheld    uint64 // results of namespaces with notifications: shadow
	Skipped     uint64 // results that were never sent, because the handler was too far behind
	SkippedAt   time.Time
	Trouble     string // why it makes no progress now; empty: it does
	News        string // why its cursor was not used at the start; empty: it was

	at       journal.Position // of the last commit read
	received int64            // receive time of that commit, Unix ns
	settled  journal.Position
}

func newFollower(o *Options, name route.Name, spec *model.HandlerSpec, from journal.Position, was State) (*Follower, error) {
	w, err := newWords(o.Directory, name.Namespace, spec.Stream.Only)
	if err != nil {
		return nil, err
	}
	timeout := time.Duration(spec.Timeout)
	if timeout <= 0 {
		timeout = o.Timeout
	}
	f := &Follower{name: name, opts: o, log: o.Logger.With("handler", name.String()), pool: newPool(spec.Stream, timeout, o.Dial), pos: from}
	f.reader = reader{words: w, view: o.View, log: f.log}
	f.settled.reset(o.Now(), from)
	was.Handler, was.Address, was.at, was.settled, was.received = name, spec.Stream.Address, from, from, o.Now().UnixNano()
	f.shown = was
	return f, nil
}

// run follows until ctx ends.
func (f *Follower) run(ctx context.Context) {
	defer context.AfterFunc(ctx, f.pool.cut)()
	timer := time.NewTimer(0)
	defer timer.Stop()
	retry := firstRetry
	for {
		select {
		case <-ctx.Done():
			f.end()
			return
		case <-timer.C:
		}
		err := f.step(ctx)
		if ctx.Err() != nil {
			continue
		}
		wait := gather
		if err != nil {
			wait, retry = retry, min(2*retry, lastRetry)
		} else {
			retry = firstRetry
		}
		f.trouble(err)
		timer.Reset(wait)
	}
}

// step sends all results up to the head of the view.
func (f *Follower) step(ctx context.Context) error {
	f.reader.words.refresh()
	if f.beyondShare() {
		if err := f.skip(ctx); err != nil {
			return err
		}
	}
	if f.pool.look() {
		if err := f.resend(ctx); err != nil {
			return err
		}
	}
	if err := f.flush(ctx); err != nil { // lines of an earlier step that failed
		return err
	}
	to := f.opts.View.Applied() // not beyond: a line has the state of its event
	if to.Number > f.pos.Number {
		f.reader.take = func(r *result) { f.pool.add(f.pool.lane(r.id, r.check.id), r) }
		err := f.read(ctx, f.pos, to, func(c journal.Commit) error {
			f.pos = c.Position()
			f.passed(c)
			if f.pool.waiting < fullBuffer {
				return nil
			}
			return f.flush(ctx)
		})
		if errors.Is(err, journal.ErrTrimmed) {
			return f.restartAtTail()
		}
		if err != nil {
			return err
		}
		if err := f.flush(ctx); err != nil {
			return err
		}
	}
	f.settle()
	return nil
}

var errEnough = errors.New("enough")

// read hands the results behind from, up to to, to the reader's take, and each commit to done.
func (f *Follower) read(ctx context.Context, from, to journal.Position, done func(journal.Commit) error) error {
	err := f.opts.Journal.Read(ctx, from, func(c journal.Commit) error {
		if c.Position().Number > to.Number {
			return errEnough
		}
		if err := f.reader.commit(c); err != nil {
			return err
		}
		return done(c)
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

func (f *Follower) flush(ctx context.Context) error {
	lines, err := f.pool.flush(ctx, false)
	if lines > 0 {
		f.show(func(s *State) { s.Lines += lines })
	}
	if err == nil && lines > 0 {
		f.settle()
	}
	return err
}

// settle marks that all lines up to f.pos are written.
func (f *Follower) settle() {
	f.settled.add(f.opts.Now(), f.pos)
	for f.opts.Journal.SizeAfter(f.settled.at()) > f.opts.share() && f.settled.settleOldest() {
	}
	f.show(func(s *State) {
		s.settled, s.Withheld, s.Connections = f.settled.at(), f.reader.shadow, f.pool.opened()
	})
}

// resend opens broken connections, and writes the lines again that they got since the settled position.
func (f *Follower) resend(ctx context.Context) error {
	f.settled.reset(f.opts.Now(), f.settled.at())
	broken, err := f.pool.reopen(ctx)
	if err != nil {
		return err
	}
	f.reader.take = func(r *result) {
		if l := f.pool.lane(r.id, r.check.id); l.broken {
			f.pool.add(l, r)
		}
	}
	from := f.settled.at()
	err = f.read(ctx, from, f.pos, func(journal.Commit) error {
		if f.pool.waiting < fullBuffer {
			return nil
		}
		return f.flushBroken(ctx)
	})
	if errors.Is(err, journal.ErrTrimmed) {
		err = f.restartAtTail()
	}
	if err == nil {
		err = f.flushBroken(ctx)
	}
	if err != nil {
		return err
	}
	f.pool.mended()
	f.log.Info("connections of a stream broke; the lines since the settled position were sent again", "connections", broken, "commits", f.pos.Number-from.Number)
	f.show(func(s *State) { s.Again++ })
	return nil
}

// flushBroken writes the waiting lines of broken lanes only.
func (f *Follower) flushBroken(ctx context.Context) error {
	lines, err := f.pool.flush(ctx, true)
	f.show(func(s *State) { s.Lines += lines })
	return err
}

// end closes the connections. If all peers read to the end, no line comes again.
func (f *Follower) end() {
	if read := f.pool.close(); read && f.pool.waiting == 0 {
		f.settled.reset(f.opts.Now(), f.pos)
	}
	f.show(func(s *State) { s.settled, s.Connections = f.settled.at(), 0 })
}

// passed records the position of the last commit read.
func (f *Follower) passed(c journal.Commit) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.shown.at, f.shown.received = f.pos, c.Received()
}

func (f *Follower) show(change func(*State)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.shown)
}

// trouble logs once why the follower makes no progress, and once that it does again.
func (f *Follower) trouble(err error) {
	f.mu.Lock()
	was := f.shown.Trouble
	f.shown.Trouble = ""
	if err != nil {
		f.shown.Trouble, f.shown.Connections = err.Error(), f.pool.opened()
	}
	f.mu.Unlock()
	switch {
	case err != nil && was == "":
		f.log.Warn("a stream makes no progress; it continues from its cursor by itself", "err", err)
	case err == nil && was != "":
		f.log.Info("a stream makes progress again")
	}
}

// State returns the follower's present state.
func (f *Follower) State() State {
	f.mu.Lock()
	s := f.shown
	f.mu.Unlock()
	if head := f.opts.Journal.Head(); head.Number > s.at.Number {
		s.Behind = max(0, f.opts.Now().Sub(time.Unix(0, s.received)))
		s.BehindBytes = f.opts.Journal.SizeAfter(s.at)
	}
	return s
}

// Settle is the time after which written lines count as taken; lines written since then are sent again when a
// connection breaks. TCP does not report how much its peer has read.
const Settle = 15 * time.Second

// settlement keeps the position up to which all lines were written Settle ago.
type settlement struct {
	marks []mark // ascending; the first is settled
}

// mark means that all lines up to at were written by then.
type mark struct {
	then time.Time
	at   journal.Position
}

// reset means that all lines up to at were taken, and none behind it.
func (s *settlement) reset(now time.Time, at journal.Position) {
	s.marks = append(s.marks[:0], mark{now, at})
}

// add means that all lines up to at are written now.
func (s *settlement) add(now time.Time, at journal.Position) {
	if now.Sub(s.marks[len(s.marks)-1].then) < time.Second {
		return
	}
	s.marks = append(s.marks, mark{now, at})
	old := 0
	for old+1 < len(s.marks) && now.Sub(s.marks[old+1].then) >= Settle {
		old++
	}
	s.marks = append(s.marks[:0], s.marks[old:]...)
}

// settleOldest settles the oldest mark before its time, because the journal cannot wait. False: there is none.
func (s *settlement) settleOldest() bool {
	if len(s.marks) < 2 {
		return false
	}
	s.marks = append(s.marks[:0], s.marks[1:]...)
	return true
}

// at returns the settled position. It stands while nothing can be written, because add is not called.
func (s *settlement) at() journal.Position { return s.marks[0].at }

// Share is the part of the journal's budget that a follower may keep from being cut.
const Share = 0.25

// beyondShare reports whether the follower lags by more than its share of the journal.
func (f *Follower) beyondShare() bool {
	f.mu.Lock()
	at := f.shown.at
	f.mu.Unlock()
	return f.opts.Journal.SizeAfter(at) > f.opts.share()
}

// skip passes over the oldest results, until half of the share is left, and counts them.
// Waiting lines, and lines since the settled position on broken connections, count as skipped, too.
func (f *Follower) skip(ctx context.Context) error {
	from := f.pos
	if f.pool.look() || f.pool.waiting > 0 {
		from = f.settled.at()
	}
	f.pool.drop()
	var skipped uint64
	f.reader.take = func(*result) { skipped++ }
	half, at, looked := f.opts.share()/2, from, 0
	err := f.opts.Journal.Read(ctx, from, func(c journal.Commit) error {
		if looked++; looked%16 == 0 && f.opts.Journal.SizeAfter(at) <= half {
			return errEnough
		}
		if err := f.reader.commit(c); err != nil {
			return err
		}
		at = c.Position()
		f.pos = at
		f.passed(c)
		return nil
	})
	if errors.Is(err, journal.ErrTrimmed) {
		return f.restartAtTail()
	}
	if err != nil && !errors.Is(err, errEnough) {
		return err
	}
	f.skipped(skipped)
	return nil
}

// restartAtTail continues with the oldest commit: the journal was cut beyond the follower, which only a repair
// does. The lost results cannot be counted.
func (f *Follower) restartAtTail() error {
	f.pos = f.opts.Journal.Tail()
	f.pos.Number--
	f.pool.drop()
	f.skipped(0)
	return nil
}

func (f *Follower) skipped(n uint64) {
	now := f.opts.Now()
	f.pool.mended()
	f.settled.reset(now, f.pos)
	f.show(func(s *State) { s.Skipped, s.SkippedAt, s.settled, s.at = s.Skipped+n, now, f.pos, f.pos })
	f.log.Error("a stream was too far behind: results were skipped", "results", n, "share", f.opts.share())
}
