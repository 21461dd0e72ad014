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
	gather     = 50 * time.Millisecond // between two looks at the journal: lines of that time leave together
	fullBuffer = 1 << 20               // bytes of lines that wait before they are written
	firstRetry = 250 * time.Millisecond
	lastRetry  = 5 * time.Second
)

// Journal is what is read: *journal.Log.
type Journal interface {
	Read(ctx context.Context, from journal.Position, fn func(journal.Commit) error) error
	Head() journal.Position
	Tail() journal.Position
	Resolve(p journal.Position) (journal.Position, error)
	SizeAfter(p journal.Position) int64
	Stats() journal.Stats
}

// Follower tells one handler of every result.
type Follower struct {
	name    route.Name
	opts    *Options
	log     *slog.Logger
	pool    *pool
	reader  reader
	pos     journal.Position // the lines of everything up to here are written, or wait in the pool
	settled settling

	mu    sync.Mutex
	shown State
	saved uint64 // shown.Lines when Set.told asked last
}

// State is what people are shown of a follower.
type State struct {
	Handler     route.Name
	Address     string
	Connections int // open now
	Behind      time.Duration
	BehindBytes int64
	Lines       uint64 // written since the server started, also those that came again
	Again       uint64 // times that lines had to be written again, because connections broke
	Withheld    uint64 // results of namespaces of which nothing is sent (notifications: shadow)
	Skipped     uint64 // results that the handler was never told of, because it was too far behind
	SkippedAt   time.Time
	Trouble     string // why it does not get on now; empty: it does
	News        string // what became of its cursor at the start; empty: it goes on from there

	at       journal.Position // where it reads
	received int64            // when that was received
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
	f.settled.begin(o.Now(), from)
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

// step brings the handler up to date.
func (f *Follower) step(ctx context.Context) error {
	f.reader.words.refresh()
	if f.far() {
		if err := f.skip(ctx); err != nil {
			return err
		}
	}
	if f.pool.look() {
		if err := f.again(ctx); err != nil {
			return err
		}
	}
	if err := f.flush(ctx); err != nil { // what a step before could not
		return err
	}
	to := f.opts.View.Applied() // not beyond: lines say what their event came to
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
			return f.lost()
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

// settle notes that all up to here is written.
func (f *Follower) settle() {
	f.settled.add(f.opts.Now(), f.pos)
	for f.opts.Journal.SizeAfter(f.settled.at()) > f.opts.share() && f.settled.sooner() {
	}
	f.show(func(s *State) {
		s.settled, s.Withheld, s.Connections = f.settled.at(), f.reader.shadow, f.pool.opened()
	})
}

// again writes anew, to connections that broke, what was written to them since it last settled.
func (f *Follower) again(ctx context.Context) error {
	f.settled.begin(f.opts.Now(), f.settled.at())
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
		return f.flushAgain(ctx)
	})
	if errors.Is(err, journal.ErrTrimmed) {
		err = f.lost()
	}
	if err == nil {
		err = f.flushAgain(ctx)
	}
	if err != nil {
		return err
	}
	f.pool.mended()
	f.log.Info("connections of a stream broke: what was written lately went out again", "connections", broken, "commits", f.pos.Number-from.Number)
	f.show(func(s *State) { s.Again++ })
	return nil
}

// flushAgain writes what waits on broken lanes only.
func (f *Follower) flushAgain(ctx context.Context) error {
	lines, err := f.pool.flush(ctx, true)
	f.show(func(s *State) { s.Lines += lines })
	return err
}

// end closes the connections. Where their peers read all of it nothing comes again.
func (f *Follower) end() {
	if read := f.pool.close(); read && f.pool.waiting == 0 {
		f.settled.begin(f.opts.Now(), f.pos)
	}
	f.show(func(s *State) { s.settled, s.Connections = f.settled.at(), 0 })
}

// passed notes how far the follower has read.
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

// trouble says once why the follower does not get on, and once that it does.
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
		f.log.Warn("a stream does not get on; it goes on from its place by itself", "err", err)
	case err == nil && was != "":
		f.log.Info("a stream gets on again")
	}
}

// State is what is to be shown of it now.
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
