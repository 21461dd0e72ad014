package rules

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/series"
)

// BenchmarkEvaluate evaluates a group of ten rules over 10,000 series. Five rules are aggregates, and five are alerts
// that do not fire.
func BenchmarkEvaluate(b *testing.B) {
	store, err := series.Open(b.TempDir(), series.Options{LateWindow: 24 * time.Hour, Range: 2 * time.Hour})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	spec := model.RuleGroupSpec{Interval: model.Duration(time.Second)}
	for i := range 5 {
		spec.Rules = append(spec.Rules, model.Rule{Record: fmt.Sprintf("sum:%d", i), Expr: "sum by (site) (load)"}, model.Rule{Alert: fmt.Sprintf("High%d", i), Expr: "load > 1e6"})
	}
	r := &testEngine{t: b, store: store, now: time.Unix(0, 0), nodes: map[string]model.NodeID{}}
	r.declare(spec)
	r.engine = New(r.options())
	r.of = newEvaluator(r.engine, "", false)
	if err := r.of.reloadGroups(b.Context(), r.units); err != nil {
		b.Fatal(err)
	}
	for i := range 10_000 {
		var s series.Series
		l := labels.FromStrings("__name__", "load", "namespace", "default", "node", fmt.Sprint("n", i), "site", fmt.Sprint(i%10))
		for t := range 60 {
			store.Insert(model.Partition(i%256), &s, l, int64(t)*1000, float64(i+t))
		}
	}
	r.now = time.Unix(59, 0)
	g := r.of.Groups()[0]
	var before, after syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &before)
	for b.Loop() {
		g.due = r.now
		r.of.evaluate(b.Context(), g)
	}
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &after)
	b.ReportMetric(float64(after.Utime.Nano()+after.Stime.Nano()-before.Utime.Nano()-before.Stime.Nano())/1e6/float64(b.N), "cpu-ms/op")
}
