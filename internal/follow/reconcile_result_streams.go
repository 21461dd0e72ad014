package follow

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"net"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/muster-fleet/muster/internal/handler"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/journal/disk"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
)

// Options has the server components and settings for the readers that send all results to handlers. Zero fields
// get the defaults named beside them.
type Options struct {
	Journal    Journal
	View       EventStates
	Directory  Directory
	FS         disk.FS       // default disk.OS{}
	Dir        string        // where the file of cursors lies
	Dial       Dial          // default handler.Dial to any address
	Timeout    time.Duration // of a write without progress, for handlers without a timeout; default handler.DefaultTimeout
	Limit      int64         // bytes that a follower may lag; default Share of the journal's budget
	Now        func() time.Time
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// lagLimit returns the most journal bytes that a reader of results may leave unread before results are skipped.
// With more, the reader skips results.
func (o *Options) lagLimit() int64 {
	if o.Limit > 0 {
		return o.Limit
	}
	return int64(Share * float64(o.Journal.Stats().BudgetBytes))
}

// Set runs one reader of results (follower) for each handler that receives every check result. Run has one
// caller; the other methods may be called by any goroutine.
type Set struct {
	opts Options

	mu      sync.Mutex
	list    map[route.Name]*Follower
	saved   map[route.Name]cursor // cursors as the file of cursors has them
	savedAt time.Time             // when the file was written
}

const (
	reconcileInterval = time.Second
	idleSaveInterval  = 10 * time.Second // between writes of the file while no lines are written
)

// Open reads the file of saved journal positions and returns the readers of results. From then on the journal keeps
// what lies after these cursors, because Consumers lists them.
func Open(o Options) (*Set, error) {
	if o.Dial == nil {
		o.Dial = func(ctx context.Context, address string, secure bool, ca string) (net.Conn, error) {
			return handler.Dial(ctx, &net.Dialer{}, address, secure, ca)
		}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.FS = cmp.Or[disk.FS](o.FS, disk.OS{})
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.Timeout = cmp.Or(o.Timeout, handler.DefaultTimeout)
	s := &Set{opts: o, list: map[route.Name]*Follower{}, saved: map[route.Name]cursor{}}
	list, err := loadCursors(o.FS, o.Dir)
	if err != nil {
		return nil, model.Errorf(model.Internal, "%w", err).
			WithHint("move the file away: handlers with stream.results then start with new results")
	}
	for _, c := range list {
		s.saved[route.Name{Namespace: c.Namespace, Name: c.Name}] = c
	}
	if o.Registerer != nil {
		o.Registerer.MustRegister(&stateCollector{s})
	}
	return s, nil
}

// Run starts and stops readers of results as their handlers are declared and deleted. When ctx ends, it stops all.
func (s *Set) Run(ctx context.Context) error {
	tick := time.NewTicker(reconcileInterval)
	defer tick.Stop()
	for {
		s.reconcile(ctx)
		s.saveCursors(false)
		select {
		case <-ctx.Done():
			list := s.followers()
			for _, f := range list {
				f.stop()
			}
			for _, f := range list {
				<-f.done
			}
			s.saveCursors(true)
			return nil
		case <-tick.C:
		}
	}
}

// followers returns the running readers of every result, one per handler.
func (s *Set) followers() []*Follower {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.list))
}

// reconcile starts a reader of results for each new handler, and stops the readers of deleted handlers. A
// changed handler gets a new reader.
func (s *Set) reconcile(ctx context.Context) {
	declared := s.opts.Directory.StreamHandlers()
	for _, f := range s.followers() {
		if spec := declared[f.name]; spec == nil || spec != f.spec && !reflect.DeepEqual(spec, f.spec) {
			f.stop()
			<-f.done
			last := f.State()
			s.mu.Lock()
			delete(s.list, f.name)
			s.saved[f.name] = cursorOf(&last)
			s.mu.Unlock()
		} else if f.isTooFarBehind() {
			f.pool.interruptWrite() // a write without progress blocks its loop
		}
	}
	var missing []route.Name
	s.mu.Lock()
	maps.DeleteFunc(s.saved, func(name route.Name, _ cursor) bool { return declared[name] == nil })
	for name := range declared {
		if s.list[name] == nil {
			missing = append(missing, name)
		}
	}
	s.mu.Unlock()
	for _, name := range missing {
		s.startFollower(ctx, name, declared[name])
	}
}

// startFollower starts a reader of every result at the saved journal position of its handler. A handler without a
// cursor, with one of another address or of another incarnation of the journal, begins at stream.from.
func (s *Set) startFollower(ctx context.Context, name route.Name, spec *model.HandlerSpec) {
	s.mu.Lock()
	c, known := s.saved[name]
	s.mu.Unlock()
	at, was := c.At, State{Skipped: c.Skipped}
	if known && c.Address != spec.Stream.Address {
		known, was = false, State{News: "the handler has a new address: the stream started again there"}
	}
	if known {
		now, err := s.opts.Journal.Resolve(at)
		if at = now; err != nil || at.Number > s.opts.Journal.Head().Number {
			known, was.News = false, "the cursor belonged to another journal (the data was restored, or lost its end): the stream started again"
			s.opts.Logger.Warn("the cursor of a stream belongs to another journal; the stream starts again",
				"handler", name.String(), "commit", c.At.Number, "begins", cmp.Or(spec.Stream.From, "head"))
		}
	}
	if !known {
		if at = s.opts.Journal.Head(); spec.Stream.From == "oldest" {
			at = s.opts.Journal.Tail()
			at.Number--
		}
	}
	f, err := newFollower(&s.opts, name, spec, at, was)
	if err != nil {
		s.opts.Logger.Error("BUG: a stream cannot be followed", "handler", name.String(), "err", err)
		return
	}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	f.stop = stop
	s.mu.Lock()
	s.list[name] = f
	s.mu.Unlock()
	s.opts.Logger.Info("a handler gets every result", "handler", name.String(), "address", spec.Stream.Address, "behind", at.Number)
	go func() {
		defer close(f.done)
		f.run(life)
	}()
	if !known {
		s.saveCursors(true)
	}
}

// cursorOf returns the entry with a reader's journal position for the file of saved positions. It has the
// handler, its address, and the position before which no line must be sent again.
func cursorOf(st *State) cursor {
	return cursor{Namespace: st.Handler.Namespace, Name: st.Handler.Name, Address: st.Address, At: st.settled, Skipped: st.Skipped}
}

// saveCursors writes the journal positions of all readers of results to the file of saved positions. Without
// always, it writes moved cursors only, and while no lines are written once per idleSaveInterval. A failure is
// logged and tried again; the journal is not cut beyond the old cursors meanwhile.
func (s *Set) saveCursors(always bool) {
	now := s.opts.Now()
	s.mu.Lock()
	want := maps.Clone(s.saved)
	for name, f := range s.list {
		st := f.State()
		want[name] = cursorOf(&st)
	}
	due := always || now.Sub(s.savedAt) >= idleSaveInterval || s.linesWritten()
	same := maps.Equal(want, s.saved)
	s.mu.Unlock()
	if !due || same && !always {
		return
	}
	list := slices.SortedFunc(maps.Values(want), func(a, b cursor) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	if err := saveCursors(s.opts.FS, s.opts.Dir, list); err != nil {
		s.opts.Logger.Error("cannot write the cursors of streams; trying again", "err", err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.saved, s.savedAt = want, now
}

// linesWritten reports whether any reader has written lines to its handler since the last call. The caller
// holds mu.
func (s *Set) linesWritten() (any bool) {
	for _, f := range s.list {
		f.mu.Lock()
		any = any || f.state.Lines != f.savedLines
		f.savedLines = f.state.Lines
		f.mu.Unlock()
	}
	return any
}

// Consumers returns each handler's saved journal position, after which the journal must keep its commits. The
// journal then keeps the results that the handlers have not received.
func (s *Set) Consumers() (list []journal.Consumer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, c := range s.saved {
		if at, err := s.opts.Journal.Resolve(c.At); err == nil {
			list = append(list, journal.Consumer{Name: "handler " + name.String(), At: at})
		}
	}
	return list
}

// States returns the states of all readers of results, sorted by handler.
func (s *Set) States() (list []State) {
	for _, f := range s.followers() {
		list = append(list, f.State())
	}
	slices.SortFunc(list, func(a, b State) int { return cmp.Compare(a.Handler.String(), b.Handler.String()) })
	return list
}

// State returns the present state, with progress and errors, of the reader of results for one handler.
func (s *Set) State(handler route.Name) (State, bool) {
	s.mu.Lock()
	f := s.list[handler]
	s.mu.Unlock()
	if f == nil {
		return State{}, false
	}
	return f.State(), true
}

// stateCollector exports the states of all readers of results as metrics to Prometheus.
type stateCollector struct{ set *Set }

// stateMetric is one Prometheus metric about readers of results, with the function that computes its value.
type stateMetric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*State) float64
}

// metrics returns the definitions of the Prometheus metrics about each reader of results.
func (*stateCollector) metrics() []stateMetric {
	newMetric := func(name, help string, kind prometheus.ValueType, value func(*State) float64) stateMetric {
		return stateMetric{prometheus.NewDesc("muster_stream_"+name, help, []string{"namespace", "handler"}, nil), kind, value}
	}
	return []stateMetric{
		newMetric("behind_seconds", "Age of the oldest journal commit that the handler has not received; zero: up to date.", prometheus.GaugeValue, func(s *State) float64 { return s.Lag.Seconds() }),
		newMetric("behind_bytes", "Journal from there on.", prometheus.GaugeValue, func(s *State) float64 { return float64(s.BehindBytes) }),
		newMetric("connections", "Number of open connections.", prometheus.GaugeValue, func(s *State) float64 { return float64(s.Connections) }),
		newMetric("lines_total", "Lines written, repeated ones included.", prometheus.CounterValue, func(s *State) float64 { return float64(s.Lines) }),
		newMetric("again_total", "Times that lines were written again because connections broke.", prometheus.CounterValue, func(s *State) float64 { return float64(s.RewrittenLines) }),
		newMetric("skipped_total", "Results skipped because the handler was too far behind.", prometheus.CounterValue, func(s *State) float64 { return float64(s.Skipped) }),
	}
}

// Describe sends the descriptions of all metrics to Prometheus.
func (c *stateCollector) Describe(out chan<- *prometheus.Desc) {
	for _, m := range c.metrics() {
		out <- m.desc
	}
}

// Collect sends the metrics of all readers of results to Prometheus.
func (c *stateCollector) Collect(out chan<- prometheus.Metric) {
	for _, s := range c.set.States() {
		for _, m := range c.metrics() {
			out <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(&s), s.Handler.Namespace, s.Handler.Name)
		}
	}
}
