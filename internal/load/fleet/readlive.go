package fleet

import (
	"context"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

// agents reads the sessions.
func (r *reader) agents(ctx context.Context) error {
	f := r.fleet
	f.Never = len(f.Nodes)
	return r.pages(ctx, func(after string) (string, error) {
		page, err := r.api.Nodes.Agents(ctx, v1.AgentFilter{Namespace: r.o.Namespace, Limit: pageRows, After: after})
		if err != nil {
			return "", err
		}
		for i := range page.Items {
			a := &page.Items[i]
			at, known := r.index[a.ID]
			if !known || !f.Nodes[at].Left {
				continue // younger than the list of nodes, or seen before
			}
			f.Never--
			if !a.Connected && a.LastHeartbeat.Before(f.At.Add(-day)) {
				f.Gone++
				continue
			}
			f.Nodes[at].Left = false
			f.Nodes[at].TLS = !a.Connected || a.Session == nil || !a.Session.CertificateExpires.IsZero()
		}
		return page.Next, nil
	})
}

// events reads all states; their outputs are not kept.
func (r *reader) events(ctx context.Context) error {
	f := r.fleet
	seen, printed, limit := map[[2]uint32]bool{}, 0, 100
	return r.pages(ctx, func(after string) (string, error) {
		page, err := r.api.Events.List(ctx, v1.EventFilter{Namespace: r.o.Namespace, Limit: limit, After: after})
		if err != nil {
			return "", err
		}
		outputs := 0
		for i := range page.Items {
			e := &page.Items[i]
			outputs += len(e.Output)
			at, known := r.index[e.NodeID]
			key := [2]uint32{uint32(at), uint32(e.CheckID)}
			if !known || f.Nodes[at].Left || e.CheckID < model.FirstCheck || seen[key] { // a state that gets worse during the reading is listed twice
				continue
			}
			if _, declared := f.Checks[e.CheckID]; !declared {
				f.Unknown++
				continue
			}
			seen[key] = true
			f.States = append(f.States, stateOf(e, at))
		}
		if len(f.States) >= printed+100_000 {
			printed = len(f.States)
			r.o.Say("read %d event states", printed)
		}
		limit = min(pageRows, max(10, pageBytes/max(1, outputs/max(1, len(page.Items)))))
		return page.Next, nil
	})
}

// stateOf keeps the parts of an event that a scenario has.
func stateOf(e *v1.Event, node int32) State {
	turns := 0
	for i := 1; i < len(e.History); i++ {
		if e.History[i] != e.History[i-1] {
			turns++
		}
	}
	return State{Node: node, Check: e.CheckID, Status: e.Status, Bytes: int32(len(e.Output)), Flaps: len(e.History) >= 10 && 2*turns >= len(e.History), Changes: e.StateChanges, Results: e.Results}
}
