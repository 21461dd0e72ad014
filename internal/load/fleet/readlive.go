package fleet

import (
	"context"
	"strings"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

// agents reads which nodes are there, and since when each has its session.
func (r *reader) agents(ctx context.Context) error {
	f := r.fleet
	f.Never = len(f.Nodes)
	for filter := (v1.AgentFilter{Namespace: r.o.Namespace, Limit: pageRows}); ; {
		var page v1.AgentList
		err := r.paced(ctx, func() (err error) {
			page, err = r.api.Nodes.Agents(ctx, filter)
			return err
		})
		if err != nil {
			return err
		}
		for i := range page.Items {
			a := &page.Items[i]
			at, known := r.index[a.ID]
			if !known || !f.Nodes[at].Left {
				continue // younger than the list of nodes, or seen before
			}
			f.Never--
			if !a.Connected && a.Heard.Before(f.At.Add(-day)) {
				f.Gone++
				continue
			}
			f.Nodes[at].meet(a, f.At)
		}
		if filter.After = page.Next; filter.After == "" {
			return nil
		}
	}
}

// meet notes what a session says of its node.
func (n *Node) meet(a *v1.Agent, now time.Time) {
	n.Left, n.Connected = false, a.Connected && a.Session != nil
	if !n.Connected {
		return
	}
	s := a.Session
	n.Age, n.TLS = max(0, now.Sub(s.Since)), !s.CertificateExpires.IsZero()
	if s.Stats != nil && s.Stats.UptimeSeconds > 0 {
		booted := s.Stats.At.Add(-time.Duration(s.Stats.UptimeSeconds) * time.Second)
		n.Booted = s.Since.Sub(booted) < 2*time.Minute
	}
}

// asked is a state whose history may be asked for.
type asked struct{ namespace, node, check string }

// events reads all states, and forgets what they say.
func (r *reader) events(ctx context.Context) error {
	f := r.fleet
	seen, told := map[[2]uint32]bool{}, 0
	for filter := (v1.EventFilter{Namespace: r.o.Namespace, Limit: 100}); ; {
		var page v1.EventList
		err := r.paced(ctx, func() (err error) {
			page, err = r.api.Events.List(ctx, filter)
			return err
		})
		if err != nil {
			return err
		}
		outputs := 0
		for i := range page.Items {
			e := &page.Items[i]
			outputs += len(e.Output)
			at, known := r.index[e.NodeID]
			key := [2]uint32{uint32(at), uint32(e.CheckID)}
			if !known || f.Nodes[at].Left || e.CheckID < model.FirstCheck || seen[key] { // a state that got worse meanwhile comes by twice
				continue
			}
			check, declared := f.Checks[e.CheckID]
			if !declared {
				f.Unknown++
				continue
			}
			seen[key] = true
			s := f.state(e, check)
			s.Node = at
			f.States = append(f.States, s)
			if s.Changed && !s.Flaps {
				r.asks = append(r.asks, asked{e.Namespace, e.Node, strings.SplitN(check.Name, "/", 2)[1]})
			}
		}
		if len(f.States) >= told+100_000 {
			told = len(f.States)
			r.o.Say("read %d event states", told)
		}
		if filter.After = page.Next; filter.After == "" {
			return nil
		}
		filter.Limit = min(pageRows, max(10, pageBytes/max(1, outputs/max(1, len(page.Items)))))
	}
}

// state keeps of an event what a scenario can say.
func (f *Fleet) state(e *v1.Event, check Check) State {
	turns := 0
	for i := 1; i < len(e.History); i++ {
		if e.History[i] != e.History[i-1] {
			turns++
		}
	}
	s := State{Check: e.CheckID, Status: e.Status, Bytes: int32(len(e.Output)), Flaps: len(e.History) >= 10 && 2*turns >= len(e.History),
		Results: min(float64(e.Results), f.Day.Seconds()/time.Duration(max(1, check.Interval)).Seconds())}
	s.Changed = (turns > 0 || e.StateChanges > 1) && e.Changed.After(f.At.Add(-f.Day))
	return s
}

// outages reads when nodes were silent in the last day.
func (r *reader) outages(ctx context.Context) error {
	f := r.fleet
	for after := ""; ; {
		var page v1.ProblemList
		err := r.paced(ctx, func() (err error) {
			page, err = r.api.Problems.List(ctx, r.o.Namespace, "", model.KeepaliveCheckName, false, pageRows, after)
			return err
		})
		if err != nil {
			return err
		}
		for i := range page.Items {
			p := &page.Items[i]
			if p.Opened.Before(f.At.Add(-f.Day)) {
				return nil // newest first
			}
			if at, known := r.index[p.NodeID]; known && !f.Nodes[at].Left {
				n, silent := &f.Nodes[at], time.Duration(0)
				if !p.Closed.IsZero() {
					silent = p.Closed.Sub(p.Opened) + time.Duration(n.Timeout)
				}
				n.Outages = append(n.Outages, silent)
			}
		}
		if after = page.Next; after == "" {
			return nil
		}
	}
}

// changes asks some of the states that changed how often they did.
func (r *reader) changes(ctx context.Context) error {
	f, sum := r.fleet, 0.0
	step := max(1, (len(r.asks)+histories-1)/histories)
	for i := 0; i < len(r.asks); i += step {
		a := r.asks[i]
		var list v1.EntryList
		err := r.paced(ctx, func() (err error) {
			list, err = r.api.Events.History(ctx, a.namespace, a.node, a.check, entries)
			return err
		})
		if model.ClassOf(err) == model.NotFound {
			continue // deleted meanwhile
		}
		if err != nil {
			return err
		}
		f.Asked++
		sum += f.changesIn(list.Items)
	}
	if f.Asked > 0 {
		f.PerChanged = sum / float64(f.Asked)
	}
	return nil
}

// changesIn counts the changes of the day; of a history that is longer than what was asked
// for, as many as there would be at the pace of what is known.
func (f *Fleet) changesIn(list []v1.Entry) float64 {
	n, cutoff := 0.0, f.At.Add(-f.Day)
	for i := range list {
		if e := &list[i]; e.Kind == "status" && e.Previous != nil && e.At.After(cutoff) {
			n++
		}
	}
	if len(list) == entries {
		if back := f.At.Sub(list[len(list)-1].At); back > 0 && back < f.Day {
			n *= f.Day.Seconds() / back.Seconds()
		}
	}
	return n
}
