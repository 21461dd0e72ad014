package history

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
)

// The number of events of the fleet, which change in random order.
const (
	benchNodes  = 10_000
	benchChecks = 40
	benchBatch  = 2_000                  // as the dispatcher's
	benchEvery  = 250 * time.Millisecond // between batches
	benchOpen   = 20_000                 // events that fail, of 400,000
)

// benchFleet simulates a fleet that generates batches of status changes for benchmarks. With problems, half of the
// changes open a problem and half close one, once benchOpen events fail; each problem notifies one handler.
type benchFleet struct {
	rand     *rand.Rand
	problems bool
	now      time.Time
	number   uint64
	open     map[int]*Problem
	failing  []int // events with an open problem, in no order
	often    int   // event to which one of a hundred changes belongs; 0: none
}

// newFleet returns a simulated fleet in which no event fails yet.
func newFleet(problems bool) *benchFleet {
	return &benchFleet{rand: rand.New(rand.NewPCG(1, 2)), problems: problems, now: noonOfBench, open: map[int]*Problem{}}
}

var noonOfBench = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// batch returns a batch with n status changes of the simulated fleet.
func (f *benchFleet) batch(n int) Batch {
	b := Batch{Places: map[model.Partition]ChangePosition{}}
	f.now = f.now.Add(benchEvery)
	for range n {
		which := f.nextEvent()
		node, check := which/benchChecks, which%benchChecks
		p := model.Partition(node % model.Partitions)
		f.number++
		place := ChangePosition{At: journal.Position{Log: 1 << 62, Number: f.number}}
		b.Places[p] = place
		e := Entry{At: f.now, Executed: f.now, Kind: StatusChanged, Namespace: "load", Node: fmt.Sprintf("web-%05d", node),
			NodeID: model.NodeID(node + 1), SourceName: fmt.Sprintf("web-check-%03d", check), Source: model.CheckSource(model.CheckID(1000 + check)),
			Status: model.Critical, Previous: model.OK, Output: "DISK CRITICAL - free space: / 1024 MB (2% inode=98%):", Partition: p, Place: place}
		if f.problems {
			f.addProblem(&b, which, &e)
		}
		b.Entries = append(b.Entries, e)
	}
	return b
}

// nextEvent chooses the simulated event whose status changes next. With problems, every second one is a failing event,
// once there are enough of them.
func (f *benchFleet) nextEvent() int {
	if f.often > 0 && f.rand.IntN(100) == 0 {
		return f.often
	}
	if len(f.failing) < benchOpen || f.rand.IntN(2) == 0 {
		return f.rand.IntN(benchNodes * benchChecks)
	}
	i := f.rand.IntN(len(f.failing))
	return f.failing[i]
}

// addProblem opens or closes the problem of a simulated event, and adds a delivery of the notification. If the
// problem is already open, it is closed.
func (f *benchFleet) addProblem(b *Batch, which int, e *Entry) {
	pager := HandlerRef{Namespace: "load", Name: "pager"}
	p, kind := f.open[which], "closed"
	if p == nil {
		kind = "opened"
		p = &Problem{Problem: model.Problem{ID: f.problemID(), NodeID: e.NodeID, Source: e.Source, Definition: 7,
			Status: e.Status, Severity: model.High, Opened: f.now, Output: e.Output}, Namespace: e.Namespace, Node: e.Node, SourceName: e.SourceName}
		f.open[which], f.failing = p, append(f.failing, which)
		b.Opened = append(b.Opened, *p)
		b.Escalations = append(b.Escalations, Escalation{EscalationKey: EscalationKey{Problem: p.ID}, NodeID: p.NodeID, Source: p.Source,
			Group: p.ID, Lead: p.ID, Opened: p.Opened, Direct: []HandlerRef{pager}, Notified: []NotifiedHandler{{HandlerRef: pager, Incident: p.ID}}, Next: route.Escalation{}})
	} else {
		e.Status, e.Previous = model.OK, model.Critical
		p.Closed = f.now
		delete(f.open, which)
		i := slices.Index(f.failing, which)
		f.failing[i] = f.failing[len(f.failing)-1]
		f.failing = f.failing[:len(f.failing)-1]
		b.Closed = append(b.Closed, *p)
		b.Finished = append(b.Finished, EscalationKey{Problem: p.ID})
	}
	b.Deliveries = append(b.Deliveries, Delivery{Key: p.ID + "/" + kind + "/load/pager", Problem: p.ID, Handler: pager, Kind: kind,
		Payload: []byte(strings.Repeat(`{"payload":"of about 700 bytes"}`, 22)), Created: f.now})
}

// problemID returns a problem id of sixteen characters, like the ids of real problems.
func (f *benchFleet) problemID() string {
	return fmt.Sprintf("%08x%08x", f.now.Unix(), f.rand.Uint32())
}

// recordDeliveries records one successful attempt for each delivery that is due.
func recordDeliveries(b *testing.B, s Store, now time.Time) {
	for {
		due, _, err := s.Due(b.Context(), now, 1000, nil)
		if err != nil {
			b.Fatal(err)
		}
		if len(due) == 0 {
			return
		}
		var list []DeliveryAttempt
		for _, d := range due {
			list = append(list, DeliveryAttempt{ID: d.ID, Attempt: Attempt{At: now, State: Delivered}})
		}
		if err := s.RecordAttempts(b.Context(), list...); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRecord measures how fast history records the status changes of 400,000 events. Run it by: go test -bench
// Record -benchtime 400000x. The batches have the dispatcher's size. The changes "at the limit" make room for each
// other.
func BenchmarkRecord(b *testing.B) {
	for _, kind := range []string{"changes", "problems", "changes at the limit"} {
		b.Run(kind, func(b *testing.B) {
			dir, limit := b.TempDir(), SizeLimit{}
			if kind == "changes at the limit" {
				limit.Budget = 16 << 20
			}
			s, err := Open(b.Context(), filepath.Join(dir, "history.db"), limit)
			if err != nil {
				b.Fatal(err)
			}
			f := newFleet(kind == "problems")
			before, cpu := writtenBytes(b), processorTime(b)
			var storing time.Duration
			b.ResetTimer()
			for left := b.N; left > 0; left -= benchBatch {
				batch := f.batch(min(left, benchBatch))
				began := time.Now()
				if err := s.Record(b.Context(), batch); err != nil {
					b.Fatal(err)
				}
				if f.problems {
					recordDeliveries(b, s, f.now)
				}
				storing += time.Since(began)
			}
			if err := s.Close(); err != nil { // writes the WAL into the tables
				b.Fatal(err)
			}
			b.StopTimer()
			n := float64(b.N)
			b.ReportMetric(n/storing.Seconds(), "changes/s")
			b.ReportMetric(float64((processorTime(b)-cpu).Microseconds())/n, "cpu-µs/change")
			b.ReportMetric(float64(writtenBytes(b)-before)/n, "disk-B/change")
			b.ReportMetric(float64(folderBytes(b, dir))/n, "kept-B/change")
		})
	}
}

// BenchmarkEntries measures a query of 100 history entries among three million. Their creation takes a minute. Run it
// by: go test -bench Entries -benchtime 20x.
func BenchmarkEntries(b *testing.B) {
	s, err := Open(b.Context(), filepath.Join(b.TempDir(), "history.db"), SizeLimit{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	f := newFleet(false)
	f.often = 77
	for range 3_000_000 / benchBatch {
		if err := s.Record(b.Context(), f.batch(benchBatch)); err != nil {
			b.Fatal(err)
		}
	}
	for _, c := range []struct {
		name string
		want int
		q    EntryQuery
	}{
		{"a check that changes often", 100, EntryQuery{NodeID: 2, Check: "web-check-037"}},
		{"a check that changes rarely", 0, EntryQuery{NodeID: 5001, Check: "web-check-001"}},
		{"by name", 0, EntryQuery{Namespace: "load", Node: "web-05000", Check: "web-check-001"}},
		{"a node", 100, EntryQuery{NodeID: 5001}},
		{"a namespace", 100, EntryQuery{Namespace: "load"}},
		{"a namespace, further down", 100, EntryQuery{Namespace: "load", Before: noonOfBench.Add(100 * time.Second)}},
		{"an hour of a node", 0, EntryQuery{NodeID: 5001, Since: noonOfBench.Add(300 * time.Second), Before: noonOfBench.Add(302 * time.Second)}},
		{"no such node", 0, EntryQuery{Namespace: "load", Node: "none"}},
		{"no such namespace", 0, EntryQuery{Namespace: "none"}},
	} {
		b.Run(c.name, func(b *testing.B) {
			c.q.Limit = 100
			for b.Loop() {
				list, err := s.Entries(b.Context(), c.q)
				if err != nil || len(list) < c.want {
					b.Fatal(len(list), err)
				}
			}
		})
	}
}

// writtenBytes returns the number of bytes that the process has written to storage.
func writtenBytes(b *testing.B) (n int64) {
	data, err := os.ReadFile("/proc/self/io")
	if err != nil {
		b.Skip("no /proc/self/io: ", err)
	}
	for line := range strings.Lines(string(data)) {
		if _, err := fmt.Sscanf(line, "write_bytes: %d", &n); err == nil {
			return n
		}
	}
	b.Fatal("no write_bytes in /proc/self/io")
	return 0
}

// processorTime returns the CPU time of the benchmark's process.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// folderBytes returns the size of all files in a folder.
func folderBytes(b *testing.B, dir string) (n int64) {
	list, err := os.ReadDir(dir)
	if err != nil {
		b.Fatal(err)
	}
	for _, e := range list {
		info, err := e.Info()
		if err != nil {
			b.Fatal(err)
		}
		n += info.Size()
	}
	return n
}
