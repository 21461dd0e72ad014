package play

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/plan"
	"github.com/muster-fleet/muster/internal/model"
)

// ValueReader reads the values and problems that the server has.
type ValueReader struct {
	API       *client.Client
	Plan      *plan.Plan
	Namespace string
	Name      func(node int) string
	Started   time.Time // of the values
	Seed      uint64

	nodes map[string]int
	items []map[string]int // by class: the item of a key
}

const (
	nodesPerQuery = 40
	rawNodes      = 16 // whose values are all compared
	queriedNodes  = 200
)

// index maps the names of the plan to nodes and items.
func (r *ValueReader) index() {
	r.nodes, r.items = map[string]int{}, nil
	for i := range r.Plan.Nodes {
		r.nodes[r.Name(i)] = i
	}
	for _, c := range r.Plan.Classes {
		keys := map[string]int{}
		for i := range c.Items {
			keys[c.Items[i].Key] = i
			if c.Items[i].Window > 0 {
				keys[c.Items[i].TriggerName()] = i
			}
		}
		r.items = append(r.items, keys)
	}
}

// find returns the node and the item that the labels of a series name.
func (r *ValueReader) find(node, key string) (n, i int, ok bool) {
	if n, ok = r.nodes[node]; !ok {
		return 0, 0, false
	}
	for c := range r.Plan.Classes {
		if class := &r.Plan.Classes[c]; n >= class.First && n < class.First+class.Nodes {
			i, ok = r.items[c][key]
		}
	}
	return n, i, ok
}

// Read reads the series of all items and all problems.
func (r *ValueReader) Read(ctx context.Context) (observe.Line, error) {
	s, err := r.read(ctx)
	return observe.Line{State: s}, err
}

// read reads the series of all items and all problems.
func (r *ValueReader) read(ctx context.Context) (*observe.State, error) {
	r.index()
	s := &observe.State{Raw: map[int][][]float64{}}
	for i := range r.Plan.Nodes {
		items := len(r.Plan.Class(i).Items)
		s.Counts, s.Sums = append(s.Counts, make([]float64, items)), append(s.Sums, make([]float64, items))
	}
	for first := 0; first < r.Plan.Nodes; first += nodesPerQuery {
		for function, into := range map[string][][]float64{"count_over_time": s.Counts, "sum_over_time": s.Sums} {
			rows, err := r.query(ctx, function+"("+r.selector(first, min(first+nodesPerQuery, r.Plan.Nodes))+")")
			if err != nil {
				return nil, err
			}
			for _, row := range rows {
				node, of, ok := r.find(row.Metric["node"], row.Metric["item"])
				if !ok {
					s.Unknown++
					continue
				}
				v, err := strconv.ParseFloat(row.Value.Value, 64)
				if err != nil {
					return nil, fmt.Errorf("read a series of %s: %w", row.Metric["node"], err)
				}
				into[node][of] += v
			}
		}
	}
	for k := range min(rawNodes, r.Plan.Nodes) {
		node := (int(r.Seed%97) + k*max(1, r.Plan.Nodes/rawNodes)) % r.Plan.Nodes
		if err := r.readRaw(ctx, s, node); err != nil {
			return nil, err
		}
	}
	if err := r.readSeriesLimit(ctx, s); err != nil {
		return nil, err
	}
	return s, r.readProblems(ctx, s)
}

// readSeriesLimit reads the reason why the server refused series of the namespace.
func (r *ValueReader) readSeriesLimit(ctx context.Context, s *observe.State) error {
	of, err := r.API.Resources.State(ctx, kind.Namespace().KindInfo, "", r.Namespace)
	if err != nil {
		return fmt.Errorf("read the limits of namespace %q: %w", r.Namespace, err)
	}
	for _, limit := range of.Limits {
		if limit.Name == "series" {
			s.SeriesLimit = limit.Reason
		}
	}
	return nil
}

// selector returns the selector of the nodes' series since the start of the values, without performance data of checks.
func (r *ValueReader) selector(first, last int) string {
	var names []string
	for i := first; i < last; i++ {
		names = append(names, r.Name(i))
	}
	return fmt.Sprintf(`{node=~"%s",template!=""}[%ds]`, strings.Join(names, "|"), int(math.Ceil((time.Since(r.Started) + beforeStart).Seconds())))
}

// readRaw reads all values of a node's items.
func (r *ValueReader) readRaw(ctx context.Context, s *observe.State, node int) error {
	rows, err := r.query(ctx, r.selector(node, node+1))
	if err != nil {
		return err
	}
	values := make([][]float64, len(s.Counts[node]))
	for _, row := range rows {
		_, of, ok := r.find(row.Metric["node"], row.Metric["item"])
		if !ok {
			continue // counted before
		}
		for _, point := range row.Values {
			v, err := strconv.ParseFloat(point.Value, 64)
			if err != nil {
				return fmt.Errorf("read a series of node %d: %w", node, err)
			}
			values[of] = append(values[of], v)
		}
	}
	s.Raw[node] = values
	return nil
}

// query evaluates an expression at the present time.
func (r *ValueReader) query(ctx context.Context, expression string) ([]v1.SeriesRow, error) {
	result, err := r.API.QuerySeries(ctx, r.Namespace, expression, time.Now())
	if err != nil {
		return nil, err
	}
	return result.Rows()
}

// Query queries the rate of up to 20,000 series, as a chart does.
func (r *ValueReader) Query(ctx context.Context) error {
	names := r.selector(0, min(queriedNodes, r.Plan.Nodes))
	names, _, _ = strings.Cut(names, "[")
	_, err := r.query(ctx, "sum by (template) (rate("+names+"[1m]))")
	return err
}

// Unused returns an error if a trigger of an item has an open problem: the plan does not have its end.
func (r *ValueReader) Unused(ctx context.Context) error {
	r.index()
	return r.eachProblem(ctx, true, func(p *v1.Problem) error {
		if _, _, ok := r.find(p.Node, p.Source.Instance); ok {
			return used("node %s has an open problem (%s)", p.Node, p.Source.Instance)
		}
		return nil
	})
}

// beforeStart is the length of the time before the start that the reader includes, because the clocks of loader and server may
// differ.
const beforeStart = 10 * time.Second

// readProblems reads the problems of all triggers since the start of the values.
func (r *ValueReader) readProblems(ctx context.Context, s *observe.State) error {
	s.Problems = map[observe.Trigger]observe.Problems{}
	return r.eachProblem(ctx, false, func(p *v1.Problem) error {
		if p.Opened.Before(r.Started.Add(-beforeStart)) {
			return nil // of an earlier run
		}
		node, of, ok := r.find(p.Node, p.Source.Instance)
		if !ok {
			s.Unknown++
			return nil
		}
		key := observe.Trigger{Node: node, Item: of}
		known := s.Problems[key]
		known.Opened++
		known.Open = known.Open || p.Closed.IsZero()
		s.Problems[key] = known
		return nil
	})
}

// eachProblem calls f with each problem of a trigger, or with each open one.
func (r *ValueReader) eachProblem(ctx context.Context, open bool, f func(p *v1.Problem) error) error {
	for after := ""; ; {
		page, err := r.API.Problems.List(ctx, r.Namespace, "", "", open, 1000, after)
		if err != nil {
			return err
		}
		for i := range page.Items {
			if page.Items[i].Source.Kind != model.SourceTrigger.String() {
				continue // of a keepalive, a check or a directive
			}
			if err := f(&page.Items[i]); err != nil {
				return err
			}
		}
		if after = page.Next; after == "" {
			return nil
		}
	}
}
