package journal

import (
	"cmp"
	"slices"
	"sync"
)

// Consumer is a reader that the journal keeps commits for. It has applied all commits up to At, and
// reads the later ones again after a restart.
type Consumer struct {
	Name string
	At   Position
}

// Consumers is the list of a journal's consumers. Commits below its Floor may be cut. Any
// goroutine may call its methods; sources are called with no lock held, and must not block.
type Consumers struct {
	mu      sync.Mutex
	sources []func() []Consumer
}

// Add registers a source of consumers: it returns those that exist now, none included, with
// positions of the journal's present incarnation. Call it before the first Cut: the journal
// does not wait for consumers that it does not know.
func (c *Consumers) Add(source func() []Consumer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sources = append(c.sources, source)
}

// List returns the consumers that exist now, the one furthest behind first.
func (c *Consumers) List() (list []Consumer) {
	c.mu.Lock()
	sources := slices.Clone(c.sources)
	c.mu.Unlock()
	for _, source := range sources {
		list = append(list, source()...)
	}
	slices.SortStableFunc(list, func(a, b Consumer) int { return cmp.Compare(a.At.Number, b.At.Number) })
	return list
}

// Floor returns the consumer furthest behind: the journal may be cut up to its position. ok is
// false where there is no consumer, so that nothing may be cut.
func (c *Consumers) Floor() (lowest Consumer, ok bool) {
	list := c.List()
	if len(list) == 0 {
		return Consumer{}, false
	}
	return list[0], true
}
