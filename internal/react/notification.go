package react

import (
	"time"

	"github.com/muster-fleet/muster/internal/handler"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/store/history"
)

func encodeNotification(kind string, t *event.Transition, p history.Problem, labels map[string]string) ([]byte, error) {
	n := handler.Notification{
		Kind: kind, Problem: p.ID, Node: p.Node, Labels: labels, Check: p.Check, Space: p.Namespace,
		Status: t.Status.String(), Worst: p.Status.String(), Severity: p.Severity.String(), Output: t.Output,
		Opened: p.Opened.UTC(), Closed: p.Closed.UTC(), Executed: time.Unix(0, t.Executed).UTC(), Expired: t.Expired,
	}
	if p.Closed.IsZero() {
		n.Closed = time.Time{}
	}
	return n.Encode()
}
