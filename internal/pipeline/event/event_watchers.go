package event

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/queue"
)

// watcherSet has the open watches (subscriptions to changed events) of a view
type watcherSet struct {
	maxWatchers int         // watches at the same time
	maxPending  int         // events that may wait for one of them
	hasWatchers atomic.Bool // spares the workers a lock while nobody watches
	passed      atomic.Uint64
	refused     atomic.Uint64
	noted       atomic.Uint64
	overrun     atomic.Uint64
	mu          sync.RWMutex
	list        []*watcher
}

// eventKey identifies one event by its node and its check or trigger
type eventKey struct {
	node   model.NodeID
	source model.Source
}

// configureLimits sets the limits for open watches and their pending events. It registers both as queues.
func (x *watcherSet) configureLimits(queues *queue.Registry) {
	most, full := queues.Bounds("watches")
	pending, slow := queues.Bounds("watch-events")
	x.maxWatchers, x.maxPending = int(most), int(pending)
	queues.Register("watches", func() queue.Info {
		x.mu.RLock()
		defer x.mu.RUnlock()
		return queue.Info{Name: "watches", Capacity: most, Depth: int64(len(x.list)), Unit: "items", Policy: full, Passed: x.passed.Load(), Overflow: x.refused.Load()}
	})
	queues.Register("watch-events", func() queue.Info {
		x.mu.RLock()
		defer x.mu.RUnlock()
		info := queue.Info{Name: "watch-events", Capacity: pending, Unit: "items", Policy: slow, Passed: x.noted.Load(), Overflow: x.overrun.Load()}
		for _, w := range x.list {
			w.mu.Lock()
			info.Depth = max(info.Depth, int64(len(w.queue)))
			w.mu.Unlock()
		}
		return info
	})
}

// addWatcher adds a watch, or returns an error if too many watches are open
func (x *watcherSet) addWatcher(w *watcher) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.list) >= x.maxWatchers {
		x.refused.Add(1)
		return model.Errorf(model.Limited, "%d event watches are open, which is the limit", len(x.list)).
			WithHint("close one, or raise it: --queues watches=%d", 2*x.maxWatchers)
	}
	x.passed.Add(1)
	w.maxPending, w.noted = x.maxPending, &x.noted
	x.list = append(x.list, w)
	x.hasWatchers.Store(true)
	return nil
}

// watcher collects the keys of changed events for one watch. Their states are read when the reader takes them, so
// that a slow reader gets the newest state of each.
type watcher struct {
	query      compiledQuery
	wake       chan struct{} // capacity 1
	maxPending int           // of queue
	noted      *atomic.Uint64

	mu      sync.Mutex
	pending map[eventKey]struct{}
	queue   []eventKey // in order of the first change
	overrun bool
}

// reportChange reports a changed event to every watcher whose query selects the event. The caller holds the
// partition's lock.
func (x *watcherSet) reportChange(p *eventPartition, id uint32) {
	if !x.hasWatchers.Load() {
		return
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	for _, w := range x.list {
		w.queueChange(p, id)
	}
}

// queueChange adds a changed event to the watcher's pending events if the query selects the event. A full queue ends
// the watch.
func (w *watcher) queueChange(p *eventPartition, id uint32) {
	s := p.slots.slot(id)
	if !w.query.selectsIDs(p, s) {
		return
	}
	key := eventKey{p.Node(s.node).ID, p.source(s)}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.pending[key]; ok || w.overrun {
		return
	}
	if len(w.queue) == w.maxPending {
		w.overrun = true
	} else {
		w.noted.Add(1)
		w.pending[key] = struct{}{}
		w.queue = append(w.queue, key)
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// takeChanges returns the pending events of the watcher and empties its list
func (w *watcher) takeChanges(into []eventKey) (keys []eventKey, overrun bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	keys, w.queue = w.queue, into[:0]
	clear(w.pending)
	return keys, w.overrun
}

// Watch returns a channel of changed event states that match a query. The channel is closed when ctx ends, when Match
// fails, or when so many events changed while the reader was busy that it must list again. Status and Problems of the
// query are asked of the newest state.
func (v *View) Watch(ctx context.Context, q Query) (<-chan State, error) {
	compiled, err := v.compileQuery(q)
	if err != nil {
		return nil, err
	}
	w := &watcher{query: compiled, wake: make(chan struct{}, 1), pending: map[eventKey]struct{}{}}
	if err := v.watchers.addWatcher(w); err != nil {
		return nil, err
	}
	out := make(chan State)
	go func() {
		defer close(out)
		defer v.watchers.removeWatcher(w)
		v.serveWatch(ctx, w, out)
	}()
	return out, nil
}

// serveWatch sends the changed events of a watch to its channel until ctx ends
func (v *View) serveWatch(ctx context.Context, w *watcher, out chan<- State) {
	var keys []eventKey
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		}
		var overrun bool
		keys, overrun = w.takeChanges(keys)
		if overrun {
			v.metrics.watchEnded.Inc()
			v.watchers.overrun.Add(1)
			return
		}
		for _, key := range keys {
			s, ok := v.Get(key.node, key.source)
			if !ok || !w.query.selectsStatus(&s) {
				continue
			}
			if w.query.Match != nil {
				if ok, err := w.query.Match(&s); err != nil {
					return
				} else if !ok {
					continue
				}
			}
			select {
			case out <- s:
			case <-ctx.Done():
				return
			}
		}
	}
}

// removeWatcher ends one subscription (watch) to changed events.
func (x *watcherSet) removeWatcher(w *watcher) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.list = slices.DeleteFunc(x.list, func(o *watcher) bool { return o == w })
	x.hasWatchers.Store(len(x.list) > 0)
}
