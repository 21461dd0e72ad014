package react

import "github.com/muster-fleet/muster/internal/journal"

// Consumers lists history and pipelines as consumers of the journal, while they have
// transitions to record: snapshots, and so the journal, wait for them.
func (r *Reactor) Consumers() (list []journal.Consumer) {
	add := func(name string, b *backlog) {
		if oldest, _, waits, _ := b.oldest(); waits && oldest.Number > 0 {
			oldest.Number--
			list = append(list, journal.Consumer{Name: name, At: oldest})
		}
	}
	add("history", r.consumer.backlog)
	if r.pipeline != nil {
		add("pipelines", r.pipeline.backlog)
	}
	return list
}
