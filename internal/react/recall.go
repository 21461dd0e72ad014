package react

import (
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/handler"
	"github.com/muster-fleet/muster/internal/store/history"
)

// recall tells those of a problem again who were told that somebody looks after it: nobody does any
// more, for the acknowledgement ran out or was taken back.
func (r *router) recall(o *telling, e *escalation) {
	e.AckEnds = time.Time{}
	o.write(e)
	if to := r.routeOf(e); to != nil && e.Closing == nil && slices.ContainsFunc(e.Told, func(k history.Told) bool { return k.Acked }) {
		r.remind(o, e, to)
	}
}

// takenBackBy notes that an acknowledgement was taken back in the service of a handler, which calls
// again by itself. Where several handlers have that service, nobody can tell in which one's.
func (r *router) takenBackBy(e *escalation, who string) {
	who, _, _ = strings.Cut(who, ": ") // their note
	var by []int
	for i := range e.Told {
		spec, ok := r.opts.Names.Handler(e.Told[i].Namespace, e.Told[i].Name)
		if service := handler.Service(spec); ok && service != "" && strings.HasSuffix(who, " ("+service+")") {
			by = append(by, i)
		}
	}
	if len(by) == 1 {
		e.Told[by[0]].Acked = false
	}
}
