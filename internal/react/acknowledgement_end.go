package react

import (
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/handler"
	"github.com/muster-fleet/muster/internal/store/history"
)

// notifyUnacked reminds handlers that were told of an acknowledgement: it ended or was taken back.
func (o *deliveryBatch) notifyUnacked(e *escalation) {
	r := o.router
	e.AckEnds = time.Time{}
	o.write(e)
	if to := r.routeOf(e); to != nil && e.Closing == nil && slices.ContainsFunc(e.Notified, func(k history.NotifiedHandler) bool { return k.Acked }) {
		o.remind(e, to)
	}
}

// recordUnackedBy records that an acknowledgement was taken back in the service of a handler, which calls
// again by itself. With several handlers of that service, none is known to be the one.
func (r *router) recordUnackedBy(e *escalation, who string) {
	who, _, _ = strings.Cut(who, ": ") // their note
	var by []int
	for i := range e.Notified {
		spec, ok := r.names.Handler(e.Notified[i].Namespace, e.Notified[i].Name)
		if service := handler.Service(spec); ok && service != "" && strings.HasSuffix(who, " ("+service+")") {
			by = append(by, i)
		}
	}
	if len(by) == 1 {
		e.Notified[by[0]].Acked = false
	}
}
