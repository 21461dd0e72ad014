package metric

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/muster-fleet/muster/internal/measure"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/store/series"
	"github.com/muster-fleet/muster/internal/wire"
)

// storeCheckValues adds the numbers and thresholds in a check result to the series store. They have no steps
// and no triggers. The numbers are those that the agent parsed, or else the performance data in the output.
func (w *metricApplier) storeCheckValues(n uint32, s *wire.Signal, from *shard.SignalOrigin) {
	if w.result.Decode(s.Body) != nil || len(w.result.Extra)+len(w.result.Samples) == 0 && bytes.IndexByte(w.result.Output, '|') < 0 {
		if len(w.p.refusals) > 0 {
			w.p.clearRejected(n, w.Definition(s.Definition).AsCheck())
		}
		return
	}
	check := w.Definition(s.Definition).AsCheck()
	if len(w.result.Extra)+len(w.result.Samples) == 0 && !readsPerfdata(check, &w.result) {
		w.p.clearRejected(n, check)
		return
	}
	executed := w.p.nodes[n].sendTime(w.Received, from) - from.Age(s.AtMs) // also without a store: it moves the sender's clock
	store := w.view.opts.Series.Store
	if store == nil || w.stored {
		return
	}
	extra, err := wire.DecodeExtra(w.result.Extra)
	if check == nil || err != nil {
		return
	}
	x := &w.numbers
	x.applier, x.refusal = w, RejectedNumbers{At: w.Received}
	x.id = w.p.Node(n).ID
	x.node, x.namespace = w.view.opts.Series.Names(x.id)
	x.check, x.ms = check.Name, executed/1e6
	x.storeScrape(w.result.Samples)
	if len(extra.Values) > 0 {
		x.storeValues(check, extra.Values, w.result.Output)
	} else if readsPerfdata(check, &w.result) {
		x.storePerfdata(measure.Perfdata(w.result.Output, w.result.Cut > 0))
	}
	w.p.setRejected(checkOnNode{n, check.Unit}, &x.refusal)
}

// readsPerfdata reports whether the server parses the performance data in a result. It does unless the check declares
// metrics, or the status of the result is unknown because its command did not run to its end.
func readsPerfdata(check *model.CheckDefinition, r *wire.Result) bool {
	return check != nil && check.Metrics == nil && r.Status != model.Unknown
}

// numberWriter adds the numbers of one check result to the series store. It has buffers, which are reused.
type numberWriter struct {
	applier                *metricApplier
	id                     model.NodeID
	check, node, namespace string
	ms                     int64 // time of the run, Unix ms
	bounds                 []bound
	samples                sampleDecoder
	refusal                RejectedNumbers
}

// storeValues adds the numbers that an agent parsed from a check's output to the series store.
func (x *numberWriter) storeValues(check *model.CheckDefinition, values []model.Value, output []byte) {
	var perfdata perfdataReader
	perfdata.reset(check, output)
	for i := range values {
		value, ms := &values[i], x.ms
		if at := value.At.UnixMilli(); !value.At.IsZero() {
			ms = min(at, x.applier.Received/1e6)
		}
		long := false // remote stores refuse such a series
		for _, text := range value.Tags {
			long = long || len(text) > maxLabelValue
		}
		if long {
			continue
		}
		if !x.storeNumber(value, "", bound{value: value.Value}, ms) {
			continue
		}
		x.findBounds(check, value, perfdata.next(value))
		for _, of := range x.bounds {
			x.storeNumber(value, "", of, ms)
		}
	}
}

// storePerfdata adds the numbers and thresholds of performance data to the series store. It adds all numbers
// before the first bound, so that bounds cannot use up the limit of series.
func (x *numberWriter) storePerfdata(list []model.Perfdatum) {
	kept := list[:0]
	for i := range list {
		value, ok := measure.NewValue(list[i].Label, list[i].Value, time.Time{}, nil, nil)
		if ok = ok && len(list[i].Unit) <= maxUnit && utf8.ValidString(value.Name) && utf8.ValidString(list[i].Unit); ok && x.storeNumber(&value, list[i].Unit, bound{value: value.Value}, x.ms) {
			kept = append(kept, list[i])
		}
	}
	for i := range kept {
		value := model.Value{Name: kept[i].Label, Value: kept[i].Value}
		x.bounds = x.bounds[:0]
		x.addPerfdataBounds(&kept[i])
		for _, of := range x.bounds {
			x.storeNumber(&value, kept[i].Unit, of, x.ms)
		}
	}
}

// storeNumber adds a number, or one of its thresholds, to the series store. ok is false if a limit refuses a
// new series.
func (x *numberWriter) storeNumber(value *model.Value, unit string, b bound, ms int64) (ok bool) {
	x.setLabels(value, unit, b)
	return x.insert(value.Name, ms, b.value, b.suffix != "")
}

// insert adds a sample with the labels in x.samples to the series store. ok is false if a limit refuses a new series. name is
// the name of the number, which may be a bound.
func (x *numberWriter) insert(name string, ms int64, value float64, bound bool) (ok bool) {
	w := x.applier
	var of series.Series
	outcome := w.view.opts.Series.Store.Insert(w.p.ID, &of, x.samples.labels, ms, value)
	switch outcome {
	case series.Stored:
		w.sending.addSample(x.samples.labels, ms, value)
	case series.NamespaceFull, series.CheckFull:
		x.refusal.add(strings.Clone(name), outcome, bound)
		if outcome == series.NamespaceFull && !bound {
			w.view.refusals.add(x.namespace, x.id)
		}
	}
	w.view.samples.Add(1)
	return outcome != series.NamespaceFull && outcome != series.CheckFull
}

// Labels of series of numbers in results of checks.
const (
	LabelBound = "bound" // the end of a threshold: min, max, inside_min or inside_max
	LabelUnit  = "unit"  // of performance data
)

// Bounds of the values of labels, in bytes.
const (
	maxLabelValue = 2048
	maxUnit       = 32 // of performance data
)

// storeScrape adds the samples that a check scraped to the series store. Labels of the server win over labels of
// the block. A malformed block has no samples: the session has validated it.
func (x *numberWriter) storeScrape(block []byte) {
	if len(block) == 0 {
		return
	}
	w, reader, b := x.applier, &x.samples.reader, &x.samples.builder
	err := reader.Reset(block)
	for err == nil && reader.Next() {
		b.Reset()
		b.Add(series.LabelCheck, x.check)
		b.Add(series.LabelNode, x.node)
		b.Add(series.LabelNamespace, x.namespace)
		usable := len(reader.Labels) <= maxScrapedLabels
		for i, l := range reader.Labels {
			switch {
			case l.Name == series.LabelCheck || l.Name == series.LabelNode || l.Name == series.LabelNamespace:
			case len(l.Name)+len(l.Value) > maxLabelValue, !labelPattern.MatchString(l.Name), !utf8.ValidString(l.Value), i > 0 && reader.Labels[i-1].Name >= l.Name:
				usable = false
			default:
				b.Add(l.Name, l.Value)
			}
		}
		if !usable {
			continue // remote stores refuse such a series
		}
		b.Sort()
		b.Overwrite(&x.samples.labels)
		for _, s := range reader.Samples {
			ms := x.ms
			if s.Ms != 0 {
				ms = min(s.Ms, w.Received/1e6)
			}
			x.insert(x.samples.labels.Get(series.LabelMetric), ms, s.Value, false)
		}
	}
}

// maxScrapedLabels bounds the labels of a series that an agent scraped, before the server adds its own.
const maxScrapedLabels = 64

// labelPattern matches names of labels.
var labelPattern = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

// setLabels sets the labels of the series of a number in check results. The series may also have the values of a bound of
// the number. Tags of the number are labels, unless another label has the name.
func (x *numberWriter) setLabels(value *model.Value, unit string, of bound) {
	b := &x.samples.builder
	b.Reset()
	b.Add(series.LabelMetric, series.MetricName(value.Name)+of.suffix)
	b.Add(series.LabelCheck, x.check)
	b.Add(series.LabelItem, value.Name)
	b.Add(series.LabelNode, x.node)
	b.Add(series.LabelNamespace, x.namespace)
	if of.label != "" {
		b.Add(LabelBound, of.label)
	}
	if unit != "" {
		b.Add(LabelUnit, unit)
	}
	if len(value.Tags) > 0 {
		taken := []string{series.LabelMetric, series.LabelCheck, series.LabelItem, series.LabelNode, series.LabelNamespace, series.LabelTemplate}
		if of.label != "" {
			taken = append(taken, LabelBound)
		}
		for _, tag := range slices.Sorted(maps.Keys(value.Tags)) {
			if name := strings.ReplaceAll(series.MetricName(tag), ":", "_"); value.Tags[tag] != "" && !slices.Contains(taken, name) {
				b.Add(name, value.Tags[tag])
				taken = append(taken, name)
			}
		}
	}
	b.Sort()
	b.Overwrite(&x.samples.labels)
}

// checkOnNode identifies a check on a node of a partition.
type checkOnNode struct {
	node  uint32 // the shard's index
	check model.UnitID
}

// RejectedNumbers counts the numbers of a check's last result that the limit of series rejected. It is no part
// of the view's state, because the series store decides.
type RejectedNumbers struct {
	Numbers, Bounds int    // refused
	Label           string // of the last refused number
	Outcome         series.Outcome
	At              int64 // receive time of the result, Unix ns
}

// add counts a number or threshold that the limit of series rejected.
func (r *RejectedNumbers) add(label string, outcome series.Outcome, bound bool) {
	if bound {
		r.Bounds++
		return
	}
	r.Numbers++
	r.Label, r.Outcome = label, outcome
}

// setRejected stores the rejected numbers of a check's newest result on a node, replacing older counts.
func (p *metricPartition) setRejected(of checkOnNode, r *RejectedNumbers) {
	switch {
	case r.Numbers+r.Bounds == 0:
		delete(p.refusals, of)
		return
	case p.refusals == nil:
		p.refusals = map[checkOnNode]RejectedNumbers{}
	}
	p.refusals[of] = *r
}

// clearRejected removes the count of a check's rejected numbers on a node after a result without numbers. check
// may be nil.
func (p *metricPartition) clearRejected(n uint32, check *model.CheckDefinition) {
	if check != nil {
		delete(p.refusals, checkOnNode{n, check.Unit})
	}
}

// deleteRejected deletes the counts of a check's rejected numbers on a node. It removes the refusals of all
// checks on the node if check is 0.
func (p *metricPartition) deleteRejected(n uint32, check model.UnitID) {
	if check != 0 {
		delete(p.refusals, checkOnNode{n, check})
		return
	}
	maps.DeleteFunc(p.refusals, func(of checkOnNode, _ RejectedNumbers) bool { return of.node == n })
}

// Reason explains why the numbers have no series, and which limit an operator can raise.
func (r *RejectedNumbers) Reason() string {
	limit := "the namespace has its limit of series (spec.limits.series)"
	if r.Outcome == series.CheckFull {
		limit = "the check has as many series on this node as it may have, because it printed ever new labels"
	}
	return fmt.Sprintf("%d numbers in the last result have no series: %s. Print fewer labels, or write metrics: {format: none}", r.Numbers, limit)
}

// RejectedNumbers returns the rejected numbers in the last results of a node's checks.
func (v *View) RejectedNumbers(node model.NodeID) map[model.UnitID]RejectedNumbers {
	of := v.shard.PartitionOf(node)
	if of == nil {
		return nil
	}
	p := &v.partitions[of.ID]
	p.Lock()
	defer p.Unlock()
	n, ok := p.Find(node)
	if !ok {
		return nil
	}
	found := map[model.UnitID]RejectedNumbers{}
	for key, r := range p.refusals {
		if key.node == n {
			found[key.check] = r
		}
	}
	return found
}
