package people

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
)

// Pages asks the server's API for pages of events while results flow, one request
// after the other, at most one every askEvery: kinds take turns, so that all of them
// meet the same load. A kind goes on from page to page until its list ends, and then
// begins anew with other values.
type Pages struct {
	Client   *client.Client
	Requests int // of each kind; of searches, a fifth
	Fleet    int // as of the run
	First    int
	Checks   int
	Random   *rand.Rand
}

const (
	pageSize = 100
	askEvery = 5 * time.Millisecond
)

// kind is one way to ask.
type kind struct {
	name    string
	filter  func() v1.EventFilter
	search  bool
	found   int // rows that a list has, where that is known
	present v1.EventFilter
	listed  int
	took    []time.Duration
	paged   report.Paged
}

// kinds are all ways to ask. Labels and the one UNKNOWN state are Prepare's and the
// generator's.
func (p *Pages) kinds() []*kind {
	node := func() int { return p.First + p.Random.IntN(p.Fleet) }
	check := func() string { return simulated.CheckName(p.Random.IntN(p.Checks)) }
	const unknown = "unknown"
	return []*kind{
		{name: "all", filter: func() v1.EventFilter { return v1.EventFilter{} }},
		{name: "namespace", filter: func() v1.EventFilter { return v1.EventFilter{Namespace: simulated.Namespace} }},
		{name: "namespace of one node", filter: func() v1.EventFilter { return v1.EventFilter{Namespace: model.DefaultNamespaceName} }},
		{name: "node", filter: func() v1.EventFilter {
			return v1.EventFilter{Namespace: simulated.Namespace, Node: simulated.NodeName(node())}
		}},
		{name: "check", filter: func() v1.EventFilter { return v1.EventFilter{Check: check()} }},
		{name: "status critical", filter: func() v1.EventFilter { return v1.EventFilter{Status: "critical"} }},
		{name: "status ok", filter: func() v1.EventFilter { return v1.EventFilter{Status: "ok"} }},
		{name: "open problem", filter: func() v1.EventFilter { return v1.EventFilter{Problem: true} }},
		{name: "label of 40 nodes", filter: func() v1.EventFilter { return v1.EventFilter{Selector: "rack=" + simulated.Rack(node())} }},
		{name: "label of an eighth", filter: func() v1.EventFilter { return v1.EventFilter{Selector: "site=" + simulated.Site(node())} }},
		{name: "check and status", filter: func() v1.EventFilter { return v1.EventFilter{Check: check(), Status: "warning,critical"} }},
		{name: "one of all: node and check", found: 1, filter: func() v1.EventFilter {
			return v1.EventFilter{Namespace: simulated.Namespace, Node: simulated.NodeName(node()), Check: check()}
		}},
		{name: "one of all: status", found: 1, filter: func() v1.EventFilter { return v1.EventFilter{Status: unknown} }},
		{name: "one of all: label and status", found: 1, filter: func() v1.EventFilter { return v1.EventFilter{Selector: "only=yes", Status: unknown} }},
		{name: "condition on output", search: true, filter: func() v1.EventFilter {
			return v1.EventFilter{Where: fmt.Sprintf("event.output.contains(%q)", "no such words")}
		}},
		{name: "condition on node and event", search: true, filter: func() v1.EventFilter {
			return v1.EventFilter{Where: fmt.Sprintf("node.labels.rack == %q && event.occurrences > 1000000", simulated.Rack(node()))}
		}},
	}
}

// Ask begins after wait and ends when all is asked, at the latest after the time
// that is left then. A nil receiver asks nothing.
func (p *Pages) Ask(ctx context.Context, wait, left time.Duration) []report.Paged {
	if p == nil {
		return nil
	}
	pause.For(ctx, wait)
	ctx, cancel := context.WithTimeout(ctx, left-wait)
	defer cancel()
	kinds := p.kinds()
	turn := time.NewTicker(askEvery)
	defer turn.Stop()
	for asked := true; asked && ctx.Err() == nil; {
		asked = false
		for _, k := range kinds {
			if len(k.took) == p.wanted(k) || k.paged.Failed != "" {
				continue
			}
			select {
			case <-ctx.Done():
			case <-turn.C:
				p.page(ctx, k)
				asked = true
			}
		}
	}
	out := make([]report.Paged, len(kinds))
	for i, k := range kinds {
		out[i] = k.sum(p.wanted(k))
	}
	return out
}

func (p *Pages) wanted(k *kind) int {
	if k.search {
		return max(1, p.Requests/5)
	}
	return p.Requests
}

// page asks for the next page of a kind.
func (p *Pages) page(ctx context.Context, k *kind) {
	if k.present.After == "" {
		k.present, k.listed = k.filter(), 0
		k.present.Limit = pageSize
	}
	began := time.Now()
	list, err := p.Client.Events.List(ctx, k.present)
	took := time.Since(began)
	if err != nil {
		if ctx.Err() == nil {
			k.paged.Failed = err.Error()
		}
		return
	}
	k.took = append(k.took, took)
	k.listed += len(list.Items)
	k.paged.Rows += float64(len(list.Items))
	switch {
	case list.Partial:
		k.paged.Partial++
	case list.Next == "" && k.found > 0 && k.listed != k.found:
		k.paged.Failed = fmt.Sprintf("%d events found, want %d", k.listed, k.found)
	case list.Next != "" && len(list.Items) < pageSize:
		k.paged.Failed = fmt.Sprintf("a page of %d with a next one, and not partial", len(list.Items))
	}
	k.present.After = list.Next
}

func (k *kind) sum(wanted int) report.Paged {
	out := k.paged
	f := k.filter()
	out.Name, out.Search, out.Requests = k.name, k.search, len(k.took)
	out.Example = fmt.Sprintf("namespace=%s node=%s check=%s status=%s selector=%s where=%s", f.Namespace, f.Node, f.Check, f.Status, f.Selector, f.Where)
	if out.Failed == "" && len(k.took) < wanted {
		out.Failed = fmt.Sprintf("only %d of %d requests could be made in the measured time: give more with --duration", len(k.took), wanted)
	}
	if len(k.took) == 0 {
		return out
	}
	out.Rows /= float64(len(k.took))
	slices.Sort(k.took)
	at := func(share float64) float64 {
		return milliseconds(k.took[min(len(k.took)-1, int(share*float64(len(k.took))))])
	}
	out.P50, out.P99, out.Max = at(0.5), at(0.99), milliseconds(k.took[len(k.took)-1])
	return out
}

func milliseconds(d time.Duration) float64 { return float64(d) / 1e6 }
