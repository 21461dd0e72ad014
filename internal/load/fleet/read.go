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

// Options holds the settings of Read.
type Options struct {
	Namespace string // empty: all
	Say       func(format string, args ...any)
}

// reader reads one installation.
type reader struct {
	api   *client.Client
	o     Options
	fleet *Fleet
	index map[model.NodeID]int32
}

// Read reads the shape of an installation from its API; every role may do that. It rests after each page for as long as
// the answer took: it occupies at most half of one processor of the server.
func Read(ctx context.Context, api *client.Client, o Options) (*Fleet, error) {
	r := &reader{api: api, o: o, index: map[model.NodeID]int32{}, fleet: &Fleet{Checks: map[model.CheckID]Check{}}}
	for _, step := range []func(context.Context) error{r.status, r.checks, r.nodes, r.agents, r.events} {
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
	s, err := r.api.Status(ctx, r.o.Namespace)
	if err != nil {
		return err
	}
	f := r.fleet
	f.At, f.Version = s.Now.UTC(), s.Server
	switch {
	case s.Nodes > 0:
		return nil
	case r.o.Namespace == "":
		return model.Errorf(model.NotFound, "this server has no nodes: there is no fleet to describe").WithHint("muster load list shows scenarios that are shipped")
	}
	return model.Errorf(model.NotFound, "there are no nodes in namespace %s", r.o.Namespace).WithHint("-A takes the nodes of all namespaces, -n NAMESPACE those of another")
}

// declared has the fields of a node or a check that a scenario needs.
type declared struct {
	Metadata struct{ Namespace, Name string }
	Spec     struct {
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

// name returns namespace and name.
func (d *declared) name() string { return d.Metadata.Namespace + "/" + d.Metadata.Name }

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
		r.fleet.Checks[model.CheckID(d.Status.ID)] = Check{d.name(), interval, d.Spec.TTL}
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

// nodes reads the nodes.
func (r *reader) nodes(ctx context.Context) error {
	f := r.fleet
	err := r.list(ctx, "Node", r.o.Namespace, func(d *declared) {
		interval, timeout := d.Spec.Keepalive.EffectiveTimes()
		r.index[model.NodeID(d.Status.ID)] = int32(len(f.Nodes))
		f.Nodes = append(f.Nodes, Node{Name: d.name(), Interval: interval, Timeout: timeout, TLS: true, Left: true})
	})
	r.o.Say("read %d nodes and %d checks", len(f.Nodes), len(f.Checks))
	return err
}
