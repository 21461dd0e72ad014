package metric

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/store/series"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// TestNumbersOfChecksAreStored applies check results with numbers, and expects each number once in the series store.
// One result is late, and all are replayed. It expects each number once in the series store, with the labels of its
// check, node and tags.
func TestNumbersOfChecksAreStored(t *testing.T) {
	s := openSeries(t, t.TempDir())
	defer s.Close()
	definitions := func(model.DefinitionID) *model.Definition {
		return (&model.CheckDefinition{Definition: model.Definition{ID: 3, Unit: 30, Namespace: 1, Name: "queue"}, FailAfter: 1, RecoverAfter: 1}).ToDefinition()
	}
	open := func(o SeriesOptions) (*View, *shard.Shard) {
		of := shard.New(shard.Options{Workers: 1, Definitions: definitions})
		event.New(of, event.Options{})
		return New(of, Options{Definitions: definitions, Series: o}), of
	}
	v, of := open(SeriesOptions{Store: s, Names: func(model.NodeID) (string, string) { return "web-1", "default" }})
	without, second := open(SeriesOptions{})
	batch := func(number, atMs uint64, values ...model.Value) []byte {
		nowMs := 10_000 + number*1000
		b := wire.Batch{StreamKey: wire.StreamKey{Stream: 9}, First: number, NowMs: nowMs, Signals: []wire.Signal{
			wire.ResultSignal(wire.Signal{Definition: 3, AtMs: nowMs - 10_000 + atMs}, wire.Result{Output: []byte("x"), Extra: wire.AppendExtra(nil, &wire.Extra{Values: values})})}}
		_, body, err := wire.FrameKind(wire.AppendBatch(nil, &b))
		testenv.NoError(t, err)
		return append(wire.AppendBatchRecord(nil, 7), body...)
	}
	at := time.Unix(1e9-1800, 0)
	commits := []*testCommit{
		{1, [][]byte{batch(1, 9000, model.Value{Name: "waiting", Value: 7, Tags: map[string]string{"queue": "mail", "node": "x", "a-b": "1", "a.b": "2", "empty": ""}}, model.Value{Name: "/home", Value: 0.5})}},
		{2, [][]byte{batch(2, 9500, model.Value{Name: "waiting", Value: 8}, model.Value{Name: "stamped", Value: 1, At: at}, model.Value{Name: "future", Value: 2, At: at.Add(24 * time.Hour)}), batch(2, 9500)}},
		{3, [][]byte{batch(3, 2000, model.Value{Name: "waiting", Value: 6})}}, // late: sent after the second one
		{4, [][]byte{batch(4, 9900)}},
	}
	for range 2 { // the second time as a start does
		for _, c := range commits {
			testenv.NoError(t, of.Apply(c))
			testenv.NoError(t, second.Apply(c))
		}
	}
	got := seriesOf(t, s, "queue")
	want := []string{
		`{__name__="_home", check="queue", item="/home", namespace="default", node="web-1"} 0:0.5`,
		`{__name__="future", check="queue", item="future", namespace="default", node="web-1"} 2000:2`,
		`{__name__="stamped", check="queue", item="stamped", namespace="default", node="web-1"} -1800000:1`,
		`{__name__="waiting", a_b="1", check="queue", item="waiting", namespace="default", node="web-1", queue="mail"} 0:7`,
		`{__name__="waiting", check="queue", item="waiting", namespace="default", node="web-1"} -5000:6 1500:8`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("stored\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if c := s.Counts(); c.Values != 6 {
		t.Errorf("counts %+v", c)
	}
	if clocks := v.partitions[3].nodes[0].clocks; len(clocks) != 1 || !slices.Equal(clocks, without.partitions[3].nodes[0].clocks) {
		t.Errorf("clocks %+v, without a store %+v", clocks, without.partitions[3].nodes[0].clocks)
	}
}

// TestScrapedSamplesAreStored applies check results with scraped samples, and expects their series with the labels of the
// server. Labels with its names and series that a remote store would refuse are left out.
func TestScrapedSamplesAreStored(t *testing.T) {
	s := openSeries(t, t.TempDir())
	defer s.Close()
	definitions := func(model.DefinitionID) *model.Definition {
		return (&model.CheckDefinition{Definition: model.Definition{ID: 3, Unit: 30, Namespace: 1, Name: "queue"}, FailAfter: 1, RecoverAfter: 1}).ToDefinition()
	}
	of := shard.New(shard.Options{Workers: 1, Definitions: definitions})
	event.New(of, event.Options{})
	New(of, Options{Definitions: definitions, Series: SeriesOptions{Store: s, Names: func(model.NodeID) (string, string) { return "web-1", "default" }}})
	var block wire.SampleBlock
	add := func(ms int64, value float64, labels ...string) {
		var list []wire.SeriesLabel
		for i := 0; i < len(labels); i += 2 {
			list = append(list, wire.SeriesLabel{Name: labels[i], Value: labels[i+1]})
		}
		block.Add(list, []wire.Sample{{Ms: ms, Value: value}})
	}
	add(0, 1, "__name__", "up", "job", "node", "node", "other")
	add(0, math.NaN(), "__name__", "quantile")
	add(1e12-5000, 3, "__name__", "stamped") // before the result
	add(0, 4, "__name__", "wrong", "a-b", "x")
	add(0, 5, "__name__", "unsorted", "b", "x", "a", "x")
	add(0, 6, "__name__", "twice", "a", "x", "a", "x")
	nowMs := uint64(11_000)
	b := wire.Batch{StreamKey: wire.StreamKey{Stream: 9}, First: 1, NowMs: nowMs, Signals: []wire.Signal{
		wire.ResultSignal(wire.Signal{Definition: 3, AtMs: nowMs - 1000}, wire.Result{Output: []byte("x"), Samples: block.Append(nil)})}}
	_, body, err := wire.FrameKind(wire.AppendBatch(nil, &b))
	testenv.NoError(t, err)
	testenv.NoError(t, of.Apply(&testCommit{1, [][]byte{append(wire.AppendBatchRecord(nil, 7), body...)}}))
	got := seriesOf(t, s, "queue")
	want := []string{
		`{__name__="quantile", check="queue", namespace="default", node="web-1"} 0:NaN`,
		`{__name__="stamped", check="queue", namespace="default", node="web-1"} -5000:3`,
		`{__name__="up", check="queue", job="node", namespace="default", node="web-1"} 0:1`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("stored\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestThresholdsOfChecksAreStored applies check results with warning and critical thresholds, and expects each
// threshold as a series. They come from performance data, or from the check in their place.
func TestThresholdsOfChecksAreStored(t *testing.T) {
	ten, five := 10.0, 5.0
	check := &model.CheckDefinition{Metrics: &model.Metrics{Format: "nagios"}, Thresholds: []model.Threshold{
		{Metric: "load", Warning: &model.Bounds{Max: &ten}, Critical: &model.Bounds{MinToken: "{{ .labels.min }}"}},
		{Metric: "load", Tags: map[string]string{"cpu": "1"}, Unknown: &model.Bounds{Min: &five}},
	}}
	output := "ok | load=1;2;4;0;64 load=1 swap=9%;@10:20;5:;;100\nmore | temp=U;1 temp=20;~:30;10:40 'other'=1"
	values := []model.Value{{Name: "load", Value: 1, Tags: map[string]string{"cpu": "1", "bound": "x"}}, {Name: "load", Value: 1}, {Name: "swap", Value: 9}, {Name: "temp", Value: 20}, {Name: "other", Value: 1}, {Name: "none", Value: 1}}
	var got []string
	var perfdata perfdataReader
	x := numberWriter{check: "queue", node: "web-1", namespace: "default"}
	perfdata.reset(check, []byte(output))
	for i := range values {
		x.findBounds(check, &values[i], perfdata.next(&values[i]))
		for _, b := range x.bounds {
			x.setLabels(&values[i], "", b)
			if l := x.samples.labels; i > 0 || b.label == "" {
				got = append(got, fmt.Sprintf("%s{%s} %g", l.Get("__name__"), l.Get("bound"), b.value))
			} else {
				got = append(got, fmt.Sprintf("%s %g", l, b.value))
			}
		}
	}
	label := func(name, bound string) string {
		return `{__name__="` + name + `", bound="` + bound + `", check="queue", cpu="1", item="load", namespace="default", node="web-1"}`
	}
	want := []string{
		label("load_warning", "max") + " 10", label("load_critical", "max") + " 4", "load_min{x} 0", "load_max{x} 64", label("load_unknown", "min") + " 5",
		"load_warning{max} 10",
		"swap_warning{inside_min} 10", "swap_warning{inside_max} 20", "swap_critical{min} 5", "swap_max{} 100",
		"temp_warning{max} 30", "temp_critical{min} 10", "temp_critical{max} 40",
	}
	if !slices.Equal(got, want) {
		t.Errorf("bounds\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, format := range []string{"", "graphite"} {
		check.Metrics, check.Thresholds = &model.Metrics{Format: format}, nil
		perfdata.reset(check, []byte(output))
		if x.findBounds(check, &values[0], perfdata.next(&values[0])); len(x.bounds) > 0 {
			t.Errorf("format %q: bounds %v", format, x.bounds)
		}
	}
}

// seriesOf returns the labels and values of all series of a check, sorted. Each value has its time in ms since 1e12
// ms.
func seriesOf(t *testing.T, s series.Store, check string) (list []string) {
	t.Helper()
	q := testenv.Value(s.Querier(math.MinInt64, math.MaxInt64))(t)
	defer q.Close()
	set := q.Select(context.Background(), true, nil, labels.MustNewMatcher(labels.MatchEqual, "check", check))
	for set.Next() {
		var points []string
		it := set.At().Iterator(nil)
		for it.Next() == chunkenc.ValFloat {
			ms, value := it.At()
			points = append(points, fmt.Sprintf("%d:%g", ms-1e12, value))
		}
		list = append(list, set.At().Labels().String()+" "+strings.Join(points, " "))
	}
	testenv.NoError(t, set.Err())
	slices.Sort(list)
	return list
}

// TestPerfdataBecomesSeries applies results with unparsed performance data, and expects a series of each number
// and threshold. It expects series of the numbers and bounds of a check without metrics. A check without
// numbers, an unknown status and the last word of a cut output have none.
func TestPerfdataBecomesSeries(t *testing.T) {
	s := openSeries(t, t.TempDir())
	defer s.Close()
	named := map[model.DefinitionID]*model.Metrics{1: nil, 2: {Format: model.NoMetrics}, 3: {Format: "graphite"}}
	definitions := func(id model.DefinitionID) *model.Definition {
		return (&model.CheckDefinition{Definition: model.Definition{ID: id, Unit: 30 + model.UnitID(id), Namespace: 1, Name: fmt.Sprint("check", id)}, FailAfter: 1, RecoverAfter: 1, Metrics: named[id]}).ToDefinition()
	}
	of := shard.New(shard.Options{Workers: 1, Definitions: definitions})
	event.New(of, event.Options{})
	New(of, Options{Definitions: definitions, Series: SeriesOptions{Store: s, Names: func(model.NodeID) (string, string) { return "web-1", "default" }}})
	output := "disk ok | /=12MB;20;@30:40;0;100 bad '/ho me'=5\nmore\nlines | inodes=7%;;; \xff=1 U=U"
	b := wire.Batch{StreamKey: wire.StreamKey{Stream: 9}, First: 1, NowMs: 10_000}
	add := func(definition model.DefinitionID, r wire.Result) {
		b.Signals = append(b.Signals, wire.ResultSignal(wire.Signal{Definition: definition, AtMs: 10_000 - 100*uint64(len(b.Signals))}, r))
	}
	add(1, wire.Result{Output: []byte(output)})
	add(1, wire.Result{Output: []byte(output), Status: model.Unknown})
	add(2, wire.Result{Output: []byte(output)})
	add(3, wire.Result{Output: []byte(output)})
	add(1, wire.Result{Output: []byte("without numbers")})
	add(1, wire.Result{Output: []byte("ok | inodes=8% cut=1… [cut 7 bytes]"), Cut: 7})
	add(1, wire.Result{Output: []byte("parsed | inodes=9%"), Extra: wire.AppendExtra(nil, &wire.Extra{Values: []model.Value{{Name: "own", Value: 1}}})})
	_, body, err := wire.FrameKind(wire.AppendBatch(nil, &b))
	testenv.NoError(t, err)
	testenv.NoError(t, of.Apply(&testCommit{1, [][]byte{append(wire.AppendBatchRecord(nil, 7), body...)}}))
	label := func(metric, bound, item, unit string) string {
		if bound != "" {
			bound = `, bound="` + bound + `"`
		}
		if unit != "" {
			unit = `, unit="` + unit + `"`
		}
		return `{__name__="` + metric + `"` + bound + `, check="check1", item="` + item + `", namespace="default", node="web-1"` + unit + `}`
	}
	want := []string{
		label("_", "", "/", "MB") + " 1000:12",
		label("__critical", "inside_max", "/", "MB") + " 1000:40",
		label("__critical", "inside_min", "/", "MB") + " 1000:30",
		label("__max", "", "/", "MB") + " 1000:100",
		label("__min", "", "/", "MB") + " 1000:0",
		label("__warning", "max", "/", "MB") + " 1000:20",
		label("_ho_me", "", "/ho me", "") + " 1000:5",
		label("inodes", "", "inodes", "%") + " 500:8 1000:7",
		label("own", "", "own", "") + " 400:1",
	}
	if got := seriesOf(t, s, "check1"); !slices.Equal(got, want) {
		t.Errorf("stored\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if c := s.Counts(); c.Values != 10 {
		t.Errorf("counts %+v", c)
	}
}

// TestRejectedNumbersHaveNoThresholds exceeds the limit of series per check, and expects neither numbers nor
// thresholds above the limit. A refused number, which the agent or the server parsed, has no bounds either. The
// refusal goes with the next result without numbers.
func TestRejectedNumbersHaveNoThresholds(t *testing.T) {
	s := testenv.Value(series.Open(t.TempDir(), series.Options{LateWindow: time.Hour, MaxCheckSeries: 1}))(t)
	defer s.Close()
	named := map[model.DefinitionID]*model.Metrics{1: {Format: "nagios"}, 2: nil, 3: {Format: model.NoMetrics}}
	definitions := func(id model.DefinitionID) *model.Definition {
		return (&model.CheckDefinition{Definition: model.Definition{ID: id, Unit: 31, Namespace: 1, Name: "queue"}, FailAfter: 1, RecoverAfter: 1, Metrics: named[id]}).ToDefinition()
	}
	of := shard.New(shard.Options{Workers: 1, Definitions: definitions})
	event.New(of, event.Options{})
	v := New(of, Options{Definitions: definitions, Series: SeriesOptions{Store: s, Names: func(model.NodeID) (string, string) { return "web-1", "default" }}})
	number := uint64(0)
	refused := func(definition model.DefinitionID, r wire.Result) int {
		number++
		b := wire.Batch{StreamKey: wire.StreamKey{Stream: 9}, First: number, NowMs: 10_000 + number}
		b.Signals = []wire.Signal{wire.ResultSignal(wire.Signal{Definition: definition, AtMs: b.NowMs}, r)}
		_, body, err := wire.FrameKind(wire.AppendBatch(nil, &b))
		testenv.NoError(t, err)
		testenv.NoError(t, of.Apply(&testCommit{number, [][]byte{append(wire.AppendBatchRecord(nil, 7), body...)}}))
		return v.RejectedNumbers(7)[31].Numbers
	}
	output := []byte("ok | a=1;2 b=1;2;3;4;5 c=1;2")
	parsed := wire.Result{Output: output, Extra: wire.AppendExtra(nil, &wire.Extra{Values: []model.Value{{Name: "a", Value: 1}, {Name: "b", Value: 1}, {Name: "c", Value: 1}}})}
	for _, c := range []struct {
		name       string
		definition model.DefinitionID
		last       wire.Result
	}{
		{"output without numbers", 2, wire.Result{Output: []byte("ok")}},
		{"format none", 3, wire.Result{Output: output}},
		{"unknown", 2, wire.Result{Output: output, Status: model.Unknown}},
	} {
		if got := refused(1, parsed); got != 2 {
			t.Errorf("%d numbers refused of three that the agent parsed", got)
		}
		if got := refused(2, wire.Result{Output: output}); got != 2 {
			t.Errorf("%d numbers refused of three in the performance data", got)
		}
		if got := refused(c.definition, c.last); got != 0 {
			t.Errorf("%s: still %d numbers refused", c.name, got)
		}
	}
	var names []string
	for _, l := range seriesOf(t, s, "queue") {
		name, _, _ := strings.Cut(l, ", check=")
		names = append(names, name)
	}
	if want := []string{`{__name__="a"`, `{__name__="a_warning", bound="max"`}; !slices.Equal(names, want) {
		t.Errorf("series %q, want %q", names, want)
	}
}
