package metric

import (
	"fmt"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// BenchmarkCheckResult measures applying results of checks to the views of events and metrics. The results have
// no performance data, or five numbers with two thresholds each, or the same output of a check that declares no
// numbers.
func BenchmarkCheckResult(b *testing.B) {
	const checks = 20
	perfdata := "OK - load average: 0.32, 0.41, 0.38 on db1 |"
	for i := range 5 {
		perfdata += fmt.Sprintf(" load%d=0.%d;15;20;0;", i, i)
	}
	for _, of := range []struct {
		name, output string
		metrics      *model.Metrics
	}{
		{"without", "OK - load average: 0.32, 0.41, 0.38 on db1, and as many bytes again as a plug-in prints for its perfdata at the end of the line", nil},
		{"numbers", perfdata, nil},
		{"none", perfdata, &model.Metrics{Format: model.NoMetrics}},
	} {
		b.Run(of.name, func(b *testing.B) {
			store := openSeries(b, b.TempDir())
			defer store.Close()
			definitions := func(id model.DefinitionID) *model.Definition {
				return (&model.CheckDefinition{Definition: model.Definition{ID: id, Unit: 30 + model.UnitID(id), Namespace: 1, Name: fmt.Sprint("check", id)}, FailAfter: 1, RecoverAfter: 1, Metrics: of.metrics}).ToDefinition()
			}
			views := shard.New(shard.Options{Workers: 1, Definitions: definitions})
			event.New(views, event.Options{})
			New(views, Options{Definitions: definitions, Series: SeriesOptions{Store: store, Names: func(model.NodeID) (string, string) { return "web-1", "default" }}})
			apply := func(number int) {
				nowMs := uint64(10_000 + number*1000)
				batch := wire.Batch{StreamKey: wire.StreamKey{Stream: 9}, First: uint64(number*checks + 1), NowMs: nowMs}
				for i := range checks {
					batch.Signals = append(batch.Signals, wire.ResultSignal(wire.Signal{Definition: model.DefinitionID(1 + i), AtMs: nowMs}, wire.Result{Output: []byte(of.output)}))
				}
				_, body, err := wire.FrameKind(wire.AppendBatch(nil, &batch))
				testenv.NoError(b, err)
				testenv.NoError(b, views.Apply(&testCommit{uint64(number + 1), [][]byte{append(wire.AppendBatchRecord(nil, 7), body...)}}))
			}
			for number := range 10 {
				apply(number)
			}
			b.ResetTimer()
			b.ReportAllocs()
			for number := range b.N {
				apply(10 + number)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*checks), "ns/result")
		})
	}
}
