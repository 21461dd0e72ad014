package selfcheck

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/source/core"
)

// faultTracker opens and closes the built-in events about recurring faults of nodes. It opens an event at the
// first occurrence of a fault, and closes the event ten minutes after the last occurrence. It counts ticks,
// none of which pass while the server is stopped or hangs.
type faultTracker struct {
	write  func(node model.NodeID, status model.Status, text string) error
	status model.Status // of an open event
	closed string       // text of the closing result, before its duration
	open   map[model.NodeID]*faultPeriod
}

// faultPeriod is the period since one fault of one node, such as a cloned identity, began to recur.
type faultPeriod struct {
	sinceSeen    int    // ticks since the last occurrence
	sinceWritten int    // ticks since the last result
	subject      string // of the last result; "": an earlier run of the server wrote it
}

const (
	episodeTick   = 5 * time.Second
	episodeRepeat = 12  // ticks after which an unchanged result is written again
	episodeLength = 120 // ticks without an occurrence after which the event closes
)

// newFaultTracker returns a tracker for a built-in check's events, including the events already open at the
// server's start. So these events can close.
func (m *Monitor) newFaultTracker(ctx context.Context, check model.CheckID, status model.Status, closed string) (*faultTracker, error) {
	e := &faultTracker{status: status, closed: closed, open: map[model.NodeID]*faultPeriod{}}
	e.write = func(node model.NodeID, status model.Status, text string) error {
		if !m.o.Exists(node) {
			return nil // the node was deleted, and its events with it
		}
		within, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		return m.o.Record(within, node, check, status, text)
	}
	q := event.Query{
		Checks: []model.CheckID{check}, Statuses: []model.Status{model.Warning, model.Critical, model.Unknown},
		Limit: event.MaxLimit,
	}
	for {
		page, err := m.o.Events(ctx, q)
		if err != nil {
			return nil, fmt.Errorf("list the events of the built-in check %q: %w", model.BuiltinCheckName(check), err)
		}
		for _, state := range page.States {
			e.open[state.Node] = &faultPeriod{}
		}
		if q.After = page.Next; q.After == "" {
			return e, nil
		}
	}
}

// recordFault records a fault of a node, such as a cloned identity, as a failing check result. If a recent
// result reports the same fault, it does nothing. It reports whether the event opens.
func (e *faultTracker) recordFault(node model.NodeID, subject, text string) (first bool) {
	current := e.open[node]
	if first = current == nil; first {
		current = &faultPeriod{}
		e.open[node] = current
	}
	current.sinceSeen = 0
	if (subject != current.subject || current.sinceWritten >= episodeRepeat) && e.write(node, e.status, text) == nil {
		current.subject, current.sinceWritten = subject, 0
	}
	return first
}

// closeEndedFaults closes the events about faults that have not recurred for ten minutes. If the journal
// refuses a write, the next tick tries again.
func (e *faultTracker) closeEndedFaults() {
	for node, current := range e.open {
		current.sinceWritten++
		current.sinceSeen++
		if current.sinceSeen < episodeLength {
			continue
		}
		if e.write(node, model.OK, fmt.Sprintf("%s for %s", e.closed, episodeLength*episodeTick)) == nil {
			delete(e.open, node)
		}
	}
}

// ReportClone reports that a second machine uses the identity of a connected node, such as a cloned VM. The
// server has refused the second machine. It is muster.Config.OnClone.
func (m *Monitor) ReportClone(c core.Clone) {
	m.mu.Lock()
	m.clones[c.Node.ID] = c
	m.mu.Unlock()
	pause.Wake(m.cloned)
}

// watchNodes updates the built-in events about cloned identities and reached limits of nodes. The event identity means
// that a second machine uses the node's identity, and limits that the node reached a limit of its namespace. Where
// many nodes meet one limit, the first one has the event.
func (m *Monitor) watchNodes(ctx context.Context) error {
	identity, err := m.newFaultTracker(ctx, model.IdentityCheck, model.Critical, "no second machine used the identity of this node")
	if err != nil {
		return err
	}
	met, err := m.newFaultTracker(ctx, model.LimitsCheck, model.Warning, "no limit was reached")
	if err != nil {
		return err
	}
	l := limitEvents{faultTracker: met, nodes: map[namespaceLimit]model.NodeID{}, findNode: m.o.Node}
	tick := time.NewTicker(episodeTick)
	defer tick.Stop()
	last := m.o.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-m.cloned:
			m.mu.Lock()
			reports := m.clones
			m.clones = map[model.NodeID]core.Clone{}
			m.mu.Unlock()
			for node, c := range reports {
				text := identityEventText(c)
				if identity.recordFault(node, text, text) {
					m.o.Log.Warn("two machines use one identity", "node", c.Node.Name, "holds", c.Holder.String(), "came", c.Refused.String(), "event", text)
				}
			}
		case <-tick.C:
			identity.closeEndedFaults()
			now := m.o.Now()
			l.updateEvents(m.o.Hits(now.Add(-episodeLength*episodeTick)), last)
			l.closeEndedFaults()
			last = now
		}
	}
}

// identityEventText returns the output of the event about two machines with one identity. The event reports two
// machines with the identity of one node.
func identityEventText(c core.Clone) string {
	return fmt.Sprintf("two machines use the identity of this node: %s is connected since %s; the server refused %s. "+
		"One is a copy of the other. On the copy, type: systemctl stop muster-agent; muster-agent reset-identity; then join it with a new token. "+
		"The problem closes when no second machine connects for %s",
		c.Holder, c.Holder.Since.Format(time.RFC3339), c.Refused, model.Duration(episodeLength*episodeTick))
}

// limitEvents maintains the built-in events on nodes about limits that a namespace has reached. It remembers on
// which node the event shows each reached limit of a namespace.
type limitEvents struct {
	*faultTracker
	nodes    map[namespaceLimit]model.NodeID
	findNode func(namespace, name string) (model.NodeID, bool)
}

// namespaceLimit identifies a limit, such as the number of events, by namespace and limit name.
type namespaceLimit struct{ namespace, name string }

// updateEvents records an event for each limit that was reached since the last call. hits has all limits reached in
// the last ten minutes.
func (l *limitEvents) updateEvents(hits []core.LimitHit, last time.Time) {
	maps.DeleteFunc(l.nodes, func(_ namespaceLimit, node model.NodeID) bool { return l.open[node] == nil })
	byNode := map[model.NodeID][]core.LimitHit{}
	for _, h := range hits {
		key := namespaceLimit{h.Namespace, h.Limit}
		node, ok := l.nodes[key]
		if !ok {
			if !h.Last.After(last) {
				continue // its event is closed
			}
			if node, ok = l.findNode(h.Namespace, h.Node); !ok {
				continue // deleted
			}
			l.nodes[key] = node
		}
		byNode[node] = append(byNode[node], h)
	}
	for node, hits := range byNode {
		slices.SortFunc(hits, func(a, b core.LimitHit) int { return strings.Compare(a.Limit, b.Limit) })
		var names, texts []string
		recent := false
		for _, h := range hits {
			recent = recent || h.Last.After(last)
			names, texts = append(names, h.Limit), append(texts, limitText(h))
		}
		if recent {
			l.recordFault(node, strings.Join(names, " "), strings.Join(texts, "\n"))
		}
	}
}
