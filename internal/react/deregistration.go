package react

import (
	"fmt"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/handler"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/store/history"
)

// deregister records and delivers that an ephemeral node was deregistered. The node is gone: the transition
// carries its names. The keys are the same after any replay, so each handler hears it once.
func (r *Reactor) deregister(t *event.Transition, b *recordedBatch) error {
	namespace, node, _ := strings.Cut(t.Deregistered.Deregistered, "/")
	keepalive := model.BuiltinCheckName(model.KeepaliveCheck)
	at := time.Unix(0, t.Received)
	b.Entries = append(b.Entries, history.Entry{
		At: at, Executed: at, Kind: history.NodeDeregistered, Namespace: namespace, Node: node, NodeID: t.Node, Source: t.Source, SourceName: keepalive, Output: t.Output,
		Partition: t.Partition, Place: history.Place{At: t.At, Index: t.Index},
	})
	id := fmt.Sprintf("left-%d", t.Node) // numbers of nodes never come back
	note := &handler.Notification{
		Kind: handler.Deregistered, Problem: id, Node: node, Space: namespace, Status: model.OK.String(), Worst: model.OK.String(),
		Severity: model.Information.String(), Output: t.Output, Opened: at.UTC(), Executed: at.UTC(),
	}
	note.SetSource(t.Source, keepalive)
	payload, err := note.Encode()
	if err != nil {
		return err
	}
	now := r.now()
	for _, ref := range strings.Split(t.Deregistered.Handlers, ",") {
		ns, name, _ := strings.Cut(ref, "/")
		d := history.Delivery{Key: id + "/" + ref, Problem: id, Handler: history.HandlerRef{Namespace: ns, Name: name}, Kind: handler.Deregistered, Payload: payload, Created: now}
		if r.opts.Routing.Shadow != nil && r.opts.Routing.Shadow(namespace) {
			d.State, d.Ended = history.Shadow, now
		}
		b.Deliveries = append(b.Deliveries, d)
	}
	return nil
}
