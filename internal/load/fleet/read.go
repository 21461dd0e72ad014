package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/client"
	registry "github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
	"github.com/muster-fleet/muster/internal/when"
)

const (
	pageRows  = 1000           // of one answer, at most …
	pageBytes = 4 << 20        // … and about so much of outputs
	day       = 24 * time.Hour // without a sign of life, a node is not played
)

// reader reads one installation.
type reader struct {
	api       *client.Client
	namespace string // empty: all
	say       func(format string, args ...any)

	fleet *Fleet
	nodes map[model.NodeID]*Node
}

// Read reads the shape of a namespace from the API, or of all with an empty name; every role may do that. It rests after each
// page for as long as the answer took: it occupies at most half of one processor of the server.
func Read(ctx context.Context, api *client.Client, namespace string, say func(format string, args ...any)) (*Fleet, error) {
	r := &reader{api: api, namespace: namespace, say: say, nodes: map[model.NodeID]*Node{}, fleet: &Fleet{Checks: map[model.CheckID]Kind{}}}
	for _, step := range []func(context.Context) error{r.status, r.checks, r.declaredNodes, r.agents, r.events} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return r.fleet, nil
}

// pages reads pages until one has no next, and rests after each. page reads the page behind after.
func (r *reader) pages(ctx context.Context, page func(after string) (next string, err error)) error {
	for after := ""; ; {
		began := time.Now()
		next, err := page(after)
		if err == nil {
			err = pause.For(ctx, min(time.Since(began), time.Second))
		}
		if after = next; err != nil || after == "" {
			return err
		}
	}
}

// status reads the version of the server.
func (r *reader) status(ctx context.Context) error {
	s, err := r.api.Status(ctx, r.namespace)
	if err != nil {
		return err
	}
	f := r.fleet
	f.At, f.Version = s.Now.UTC(), s.Server
	switch {
	case s.Nodes > 0:
		return nil
	case r.namespace == "":
		return model.Errorf(model.NotFound, "this server has no nodes: there is no fleet to describe").WithHint("muster load list shows scenarios that are shipped")
	}
	return model.Errorf(model.NotFound, "there are no nodes in namespace %s", r.namespace).WithHint("-A takes the nodes of all namespaces, -n NAMESPACE those of another")
}

// declared has the fields of a node or a check that a scenario needs.
type declared struct {
	Spec struct {
		Keepalive      *model.Keepalive
		Interval, TTL  model.Duration
		Cron, TimeZone string
	}
	Status model.ResourceStatus
}

// decode decodes a node or check.
func decode(raw []byte) (one declared, err error) {
	if err = json.Unmarshal(raw, &one); err != nil {
		return one, fmt.Errorf("decode a resource: %w", err)
	}
	return one, nil
}

// list calls fn for each resource of a kind.
func (r *reader) list(ctx context.Context, word, namespace string, fn func(*declared)) error {
	info, _ := registry.All().Lookup(word)
	return r.pages(ctx, func(after string) (string, error) {
		page, err := r.api.Resources.List(ctx, info.KindInfo, namespace, v1.ResourceFilter{}, false, pageRows, after)
		if err != nil {
			return "", err
		}
		for _, raw := range page.Items {
			one, err := decode(raw)
			if err != nil {
				return "", err
			}
			fn(&one)
		}
		return page.Next, nil
	})
}

// checks reads the checks of all namespaces: nodes have shared checks too.
func (r *reader) checks(ctx context.Context) error {
	return r.list(ctx, "Check", "", func(d *declared) {
		interval := d.Spec.Interval
		if interval == 0 {
			interval = meanInterval(d.Spec.Cron, d.Spec.TimeZone, r.fleet.At)
		}
		r.fleet.Checks[model.CheckID(d.Status.ID)] = Kind{max(interval, model.Duration(time.Second)), d.Spec.TTL}
	})
}

// meanInterval returns the mean time between the runs of a cron expression in the days to come.
func meanInterval(cron, zone string, from time.Time) model.Duration {
	const runs = 50
	first := when.Next(0, cron, zone, time.Time{}, from, 0)
	last, n := first, 0
	for ; n < runs; n++ {
		next := when.Next(0, cron, zone, time.Time{}, last, 0)
		if next.IsZero() || next.Sub(first) > 60*day {
			break
		}
		last = next
	}
	if n == 0 {
		return model.Duration(day)
	}
	return model.Duration((last.Sub(first) / time.Duration(n)).Round(time.Second))
}

// declaredNodes reads the nodes.
func (r *reader) declaredNodes(ctx context.Context) error {
	err := r.list(ctx, "Node", r.namespace, func(d *declared) {
		n := &Node{TLS: true, Left: true, Held: Held{}}
		n.Interval, n.Timeout = d.Spec.Keepalive.EffectiveTimes()
		r.nodes[model.NodeID(d.Status.ID)] = n
		r.fleet.Nodes = append(r.fleet.Nodes, n)
	})
	r.say("read %d nodes and %d checks", len(r.fleet.Nodes), len(r.fleet.Checks))
	return err
}

// agents reads the sessions.
func (r *reader) agents(ctx context.Context) error {
	f := r.fleet
	f.Never = len(f.Nodes)
	return r.pages(ctx, func(after string) (string, error) {
		page, err := r.api.Nodes.Agents(ctx, v1.AgentFilter{Namespace: r.namespace, Limit: pageRows, After: after})
		if err != nil {
			return "", err
		}
		for i := range page.Items {
			a := &page.Items[i]
			n := r.nodes[a.ID]
			if n == nil || !n.Left {
				continue // younger than the list of nodes, or seen before
			}
			f.Never--
			if !a.Connected && a.LastHeartbeat.Before(f.At.Add(-day)) {
				f.Gone++
				continue
			}
			n.Left, n.TLS = false, !a.Connected || a.Session == nil || !a.Session.CertificateExpires.IsZero()
		}
		return page.Next, nil
	})
}

// events counts all states.
func (r *reader) events(ctx context.Context) error {
	type place struct {
		node  model.NodeID
		check model.CheckID
	}
	f, seen, printed, limit := r.fleet, map[place]bool{}, 0, 100
	return r.pages(ctx, func(after string) (string, error) {
		page, err := r.api.Events.List(ctx, v1.EventFilter{Namespace: r.namespace, Limit: limit, After: after})
		if err != nil {
			return "", err
		}
		outputs := 0
		for i := range page.Items {
			e := &page.Items[i]
			outputs += len(e.Output)
			n, at := r.nodes[e.NodeID], place{e.NodeID, e.CheckID}
			if n == nil || n.Left || e.CheckID < model.FirstCheck || seen[at] { // a state that gets worse during the reading is listed twice
				continue
			}
			kind, known := f.Checks[e.CheckID]
			if !known {
				f.Unknown++
				continue
			}
			seen[at] = true
			f.States++
			n.Held.add(kind, tallyOf(e))
		}
		if f.States >= printed+100_000 {
			printed = f.States
			r.say("read %d event states", printed)
		}
		limit = min(pageRows, max(10, pageBytes/max(1, outputs/max(1, len(page.Items)))))
		return page.Next, nil
	})
}

// tallyOf counts one event, without its output.
func tallyOf(e *v1.Event) *Tally {
	turns := 0
	for i := 1; i < len(e.History); i++ {
		if e.History[i] != e.History[i-1] {
			turns++
		}
	}
	t := &Tally{States: 1, Bytes: len(e.Output)}
	t.Status[e.Status&3] = 1
	if len(e.History) >= 10 && 2*turns >= len(e.History) {
		t.Flapping = 1
	} else {
		t.Changes, t.Results = uint64(e.StateChanges), e.Results
	}
	return t
}
