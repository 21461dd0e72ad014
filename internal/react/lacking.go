package react

import (
	"context"
	"sync"
)

// lacking are the messages that wait because an asset was not there that the command of their handler
// names, or their mutator: they are tried at once when one comes. It is known in memory alone: after
// a restart they wait for their time.
type lacking struct {
	mu    sync.Mutex
	comes uint64         // how many assets came
	wait  map[int64]bool // by id
	due   []int64        // to be tried now
}

// mostLacking bounds what is remembered of them; far more than are tried within an hour.
const mostLacking = 1 << 17

// begins hears of an attempt, and returns what waits wants to know of it.
func (l *lacking) begins(id int64) (since uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.wait, id)
	return l.comes
}

// waits hears that an attempt failed for an asset, once that is recorded. One that came since it
// began may be the one.
func (l *lacking) waits(id int64, since uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case since != l.comes:
		l.due = append(l.due, id)
	case len(l.wait) < mostLacking:
		if l.wait == nil {
			l.wait = map[int64]bool{}
		}
		l.wait[id] = true
	}
}

// came hears of an asset; false: nobody waited for one.
func (l *lacking) came() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.comes++
	for id := range l.wait {
		l.due = append(l.due, id)
	}
	clear(l.wait)
	return len(l.due) > 0
}

// take returns what is to be tried now.
func (l *lacking) take() (due []int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	due, l.due = l.due, nil
	return due
}

// back hears that nothing became of it yet.
func (l *lacking) back(due []int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.due = append(l.due, due...)
}

// AssetCame hears that an asset is there now that was not there before. It does not block.
func (r *Reactor) AssetCame() {
	if r.deliver.lacking.came() {
		r.deliver.signal()
	}
}

// hurry makes messages due that waited for an asset.
func (d *deliverer) hurry(ctx context.Context) {
	due := d.lacking.take()
	if len(due) == 0 {
		return
	}
	if err := d.opts.Store.Hurry(ctx, due, d.opts.Now()); err != nil && ctx.Err() == nil {
		d.lacking.back(due)
		d.opts.Logger.Warn("messages that waited for an asset could not be hurried; trying again", "err", err)
	}
}
