package load_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/play"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// dropping is a journal that replaces one result by a keepalive, in the first batch from a number on.
type dropping struct {
	journal.Journal
	from uint64
	mu   sync.Mutex
	done bool
}

// Append appends entries, one of them changed.
func (j *dropping) Append(ctx context.Context, entries ...journal.Entry) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i := range entries {
		if e := &entries[i]; !j.done && e.Waiter != nil && e.Data[0] == byte(wire.RecordBatch) {
			e.Data = j.drop(e.Data)
		}
	}
	return j.Journal.Append(ctx, entries...)
}

// drop replaces a result in an encoded batch by a keepalive.
func (j *dropping) drop(data []byte) []byte {
	var r wire.Record
	var b wire.Batch
	if err := r.Decode(data); err != nil {
		panic(err)
	}
	if err := b.Decode(r.Batch); err != nil {
		panic(err)
	}
	for i := range b.Signals {
		if b.First < j.from || b.Signals[i].Kind != wire.SignalResult {
			continue
		}
		b.Signals[i] = wire.Signal{Kind: wire.SignalKeepalive, AtMs: b.NowMs}
		_, body, err := wire.FrameKind(wire.AppendBatch(nil, &b))
		if err != nil {
			panic(err)
		}
		j.done = true
		return append(wire.AppendBatchRecord(nil, r.Node), body...)
	}
	return data
}

// TestOneLostOfAMillion loses one result of a million, and expects that the ledger finds this one and no other.
func TestOneLostOfAMillion(t *testing.T) {
	if testing.Short() || testenv.Race {
		t.Skip("short or with the race detector: a million results")
	}
	const agents, checks, rate, seconds = 100, 40, 200_000, 5
	sc := scenario.Uniform{Agents: agents, Checks: checks, Rate: rate, PerFrame: 100, Linger: 100 * time.Millisecond, Changes: 0.02,
		Steady: seconds * time.Second, Warmup: time.Second, Drain: time.Minute}.Scenario()
	s, addr, _ := startPath(t, pathOptions{dir: t.TempDir(), scenario: sc, sessions: func(j journal.Journal) journal.Journal {
		return &dropping{Journal: j, from: rate * seconds / agents / 2}
	}})
	rep, err := load.Run(t.Context(), load.Config{Options: play.Options{Server: addr, Scenario: sc, Spool: 16 << 20}, MaxLag: time.Hour, Subject: load.Subject{Before: play.InProcess(s.view)}})
	if err != nil {
		t.Fatal(err)
	}
	b := rep.Balance
	t.Logf("%+v, %q", b, rep.Verdict)
	if b.Sent < 1_000_000 || b.Acknowledged != b.Sent || b.Compared != agents*checks || b.Differ != 1 || b.Imbalances != 1 || !rep.Lost() {
		t.Errorf("%+v", b)
	}
	if len(rep.Verdict) != 1 || !strings.Contains(rep.Verdict[0], "1 of 4000 event states differ from the ledger: 1 acknowledged and lost; node load-000") {
		t.Errorf("verdict %q", rep.Verdict)
	}
}
