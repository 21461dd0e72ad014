package metrics

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/journal/memfs"
	"github.com/muster-fleet/muster/internal/queue"
	"github.com/muster-fleet/muster/internal/testenv"
)

// TestQueueMetrics expects the metrics to show depth, capacity and overflow of each queue.
func TestQueueMetrics(t *testing.T) {
	var r queue.Registry
	queue.New[int](&r, "b", 4, queue.Block)
	a := queue.New[int](&r, "a", 2, queue.Drop)
	_ = a.Put(t.Context(), 1)
	reg := prometheus.NewRegistry()
	reg.MustRegister(&Queues{Of: &r})
	if n, err := testutil.GatherAndCount(reg); err != nil || n != 8 {
		t.Fatalf("%d metrics, %v; want 8", n, err)
	}
	want := "# HELP muster_queue_depth Depth of the queue.\n# TYPE muster_queue_depth gauge\n" +
		"muster_queue_depth{queue=\"a\",unit=\"items\"} 1\nmuster_queue_depth{queue=\"b\",unit=\"items\"} 0\n"
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "muster_queue_depth"); err != nil {
		t.Error(err)
	}
}

// TestJournalMetrics compares the metrics of a journal with the journal's statistics.
func TestJournalMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := NewJournal(reg, "test")
	log, err := journal.Open("/j", journal.Options{FS: memfs.New(), Reserve: -1, Tick: -1, ObserveCommit: m.Committed})
	testenv.NoError(t, err)
	defer log.Close()
	m.RegisterStats(log)
	done := make(ackWaiter, 1)
	testenv.NoError(t, log.Append(t.Context(), journal.Entry{Data: []byte("one"), Waiter: done, Signals: 3}, journal.Entry{Data: []byte("two"), Signals: 1}))
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("not committed")
	}
	values := map[string]float64{}
	families, err := reg.Gather()
	testenv.NoError(t, err)
	for _, f := range families {
		switch one := f.GetMetric()[0]; {
		case one.Histogram != nil:
			values[f.GetName()] = one.GetHistogram().GetSampleSum()
		case one.Counter != nil:
			values[f.GetName()] = one.GetCounter().GetValue()
		default:
			values[f.GetName()] = one.GetGauge().GetValue()
		}
	}
	st := log.Stats()
	for name, want := range map[string]float64{
		"muster_journal_commit_entries": 2, "muster_journal_commit_signals": 4, "muster_journal_entry_bytes": float64(st.WrittenBytes) / 2,
		"muster_journal_signal_bytes": float64(st.WrittenBytes) / 4, "muster_journal_commit_bytes": float64(st.WrittenBytes),
		"muster_journal_written_bytes_total": float64(st.WrittenBytes), "muster_journal_raw_bytes_total": 8,
		"muster_journal_size_bytes": float64(st.SizeBytes), "muster_journal_budget_bytes": journal.DefaultBudget,
		"muster_journal_syncs_total": 1, "muster_journal_blocked": 0, "muster_journal_queued_bytes": 0,
	} {
		if values[name] != want {
			t.Errorf("%s = %v, want %v", name, values[name], want)
		}
	}
}

// ackWaiter is a test Waiter that sends a value to a channel for each committed journal entry.
type ackWaiter chan struct{}

// Committed tells the test that an entry was committed
func (k ackWaiter) Committed(uint64, journal.Position, error) { k <- struct{}{} }
