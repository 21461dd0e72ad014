package react

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/handler"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/store/history"
)

// deliveryBatch collects the escalations, deliveries and rates of one transaction.
type deliveryBatch struct {
	router     *router
	now        time.Time
	written    map[history.EscalationKey]*escalation
	finished   map[history.EscalationKey]bool
	deliveries []history.Delivery
	rates      map[rateKey]*rateWindow      // changed in it
	opened     map[string]*event.Transition // of problems that opened in it
}

func newDeliveryBatch(r *router, now time.Time) *deliveryBatch {
	return &deliveryBatch{router: r, now: now, written: map[history.EscalationKey]*escalation{}, finished: map[history.EscalationKey]bool{},
		rates: map[rateKey]*rateWindow{}, opened: map[string]*event.Transition{}}
}

func (o *deliveryBatch) write(e *escalation) {
	delete(o.finished, e.EscalationKey)
	o.written[e.EscalationKey] = e
}

func (o *deliveryBatch) finish(e *escalation) {
	o.router.remove(e)
	delete(o.written, e.EscalationKey)
	o.finished[e.EscalationKey] = true
}

// addTo appends the collected rows to a batch, sorted.
func (o *deliveryBatch) addTo(b *history.Batch) {
	b.Deliveries = append(b.Deliveries, o.deliveries...)
	for _, key := range slices.SortedFunc(maps.Keys(o.written), history.EscalationKey.Compare) {
		b.Escalations = append(b.Escalations, o.written[key].Escalation)
	}
	b.Finished = append(b.Finished, slices.SortedFunc(maps.Keys(o.finished), history.EscalationKey.Compare)...)
	for _, key := range slices.SortedFunc(maps.Keys(o.rates), rateKey.compare) {
		p := o.rates[key]
		b.Rates = append(b.Rates, history.Rate{Route: key.route, Shadow: key.shadow, Ends: p.ends, Sent: p.sent})
	}
}

func (o *deliveryBatch) empty() bool {
	return len(o.written) == 0 && len(o.finished) == 0 && len(o.deliveries) == 0 && len(o.rates) == 0
}

// enqueue adds a delivery; tells is the meaning for reports, note.Kind the form.
func (o *deliveryBatch) enqueue(list []*escalation, ref history.HandlerRef, note *handler.Notification, tells string) error {
	payload, err := note.Encode()
	if err != nil {
		return err
	}
	d := history.Delivery{
		Key:     list[0].Problem + "/" + note.Kind + "/" + ref.Namespace + "/" + ref.Name,
		Problem: note.Problem, Handler: ref, Kind: note.Kind, Payload: payload, Created: o.now,
		Route: list[0].Route, Tells: tells, Count: len(list),
	}
	if route := list[0].Route; route != "" || note.Kind != handler.Opened && note.Kind != handler.Closed { // may come again
		d.Key += fmt.Sprintf("/%s/%d", route, o.now.UnixNano())
	}
	if list[0].Shadow {
		d.State, d.Ended = history.Shadow, o.now
	}
	for _, e := range list {
		if e.Problem != d.Problem {
			d.Also = append(d.Also, e.Problem)
		}
	}
	o.deliveries = append(o.deliveries, d)
	return nil
}
