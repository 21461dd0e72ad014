package react

import (
	"time"

	"github.com/muster-fleet/muster/internal/handler"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/store/history"
)

// closingNote returns a notification of a problem as a transition leaves it.
func closingNote(t *event.Transition, p *history.Problem, labels map[string]string) *handler.Notification {
	n := &handler.Notification{
		Kind: handler.Closed, Problem: p.ID, Node: p.Node, Labels: labels, Space: p.Namespace,
		Status: t.Status.String(), Worst: p.Status.String(), Severity: p.Severity.String(), Output: t.Output,
		Opened: p.Opened.UTC(), Executed: time.Unix(0, t.Executed).UTC(), Expired: t.Expired, Hooks: t.Hooks,
	}
	n.SetSource(p.Source, p.SourceName)
	if !p.Closed.IsZero() {
		n.Closed = p.Closed.UTC()
	}
	return n
}
