package record

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/journal/journaltest"
	"github.com/muster-fleet/muster/internal/load/stream"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// clock is a journal's, set by hand.
type clock struct{ now atomic.Int64 }

func (c *clock) Wall() int64         { return c.now.Load() }
func (c *clock) Mono() time.Duration { return time.Duration(c.now.Load()) }

// kept is a journal with entries as a server writes them.
type kept struct {
	t     *testing.T
	dir   string
	log   *journal.Log
	clock clock
	acks  *journaltest.Acks
	count int
}

var begin = time.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC)

// newKept returns an empty journal.
func newKept(t *testing.T) *kept {
	k := &kept{t: t, dir: t.TempDir(), acks: journaltest.NewAcks()}
	k.clock.now.Store(begin.UnixNano())
	k.open()
	t.Cleanup(func() { _ = k.log.Close() })
	return k
}

// open opens the journal.
func (k *kept) open() {
	var err error
	if k.log, err = journal.Open(k.dir, journal.Options{Clock: &k.clock, Tick: -1, Reserve: -1, SegmentSize: 20_000}); err != nil {
		k.t.Fatal(err)
	}
}

// append commits entries, so much later than those before.
func (k *kept) append(later time.Duration, entries ...journal.Entry) {
	k.t.Helper()
	k.clock.now.Add(int64(later))
	last := &entries[len(entries)-1]
	last.Waiter, last.Token = k.acks, uint64(k.count)
	if err := k.log.Append(k.t.Context(), entries...); err != nil {
		k.t.Fatal(err)
	}
	k.count++
	k.acks.Wait(k.count)
}

// batchOf returns an entry of an agent's frame.
func batchOf(node model.NodeID, b *wire.Batch) journal.Entry {
	_, body, err := wire.FrameKind(wire.AppendBatch(nil, b))
	if err != nil {
		panic(err)
	}
	return journal.Entry{Section: journal.Section(node % 256), Data: append(wire.AppendBatchRecord(nil, node), body...)}
}

// said is one result of a state.
type said struct {
	status model.Status
	output int
}

// TestTheJournalIsTheRecording records random journals, and expects the results of each node and check in their order,
// each once, however late or often they were sent.
func TestTheJournalIsTheRecording(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			k := newKept(t)
			random := rand.New(rand.NewPCG(seed, 4))
			type lane struct {
				wire.StreamKey
				node model.NodeID
			}
			last := map[lane]uint64{}
			want := map[state][]said{}
			signals, lates := 0, uint64(0)
			var sent []journal.Entry // some come again
			for range 150 {
				var entries []journal.Entry
				for range 1 + random.IntN(4) {
					node := model.NodeID(1000 + random.IntN(12))
					entries = append(entries, journal.Entry{Section: journal.All, Data: wire.AppendRecord(nil, &wire.Record{Kind: wire.RecordIntent, Intent: wire.IntentRecord{Revision: 3}})})
					if len(sent) > 0 && random.IntN(8) == 0 {
						entries = append(entries, sent[random.IntN(len(sent))])
						continue
					}
					at := lane{wire.StreamKey{Stream: wire.StreamID(node), Lane: wire.Lane(random.IntN(2))}, node}
					b := &wire.Batch{StreamKey: at.StreamKey, First: last[at] + 1, NowMs: 100_000_000}
					if random.IntN(15) == 0 {
						b.Gap = &wire.Gap{Last: b.First + 3, Reason: "budget"}
						last[at] = b.Gap.Last
					}
					for range random.IntN(6) {
						if b.Gap != nil {
							break
						}
						if last[at]++; random.IntN(6) == 0 {
							b.Signals = append(b.Signals, wire.Signal{Kind: wire.SignalKeepalive, AtMs: b.NowMs})
							continue
						}
						age := uint64(random.IntN(900))
						if random.IntN(10) == 0 {
							age = 60_000 + uint64(random.IntN(1e6))
							lates++
						}
						r := wire.Result{Status: model.Status(random.IntN(4)), Output: bytes.Repeat([]byte("secret"), random.IntN(30))}
						s := wire.ResultSignal(wire.Signal{Definition: model.DefinitionID(7 + random.IntN(6)), AtMs: b.NowMs - age}, r)
						b.Signals = append(b.Signals, s)
						of := state{node, s.Definition}
						want[of] = append(want[of], said{r.Status, len(r.Output)})
						signals++
					}
					if b.Gap == nil && len(b.Signals) == 0 {
						continue
					}
					e := batchOf(node, b)
					entries, sent = append(entries, e), append(sent, e)
				}
				k.append(time.Duration(random.IntN(3000))*time.Millisecond, entries...)
			}
			file, h := k.record(Options{})
			if h.Signals != uint64(signals) || h.Late != lates || h.States != len(want) || !h.Began.Equal(h.Began.Truncate(time.Second)) || h.Length > 8*time.Minute {
				t.Errorf("%d signals in %d states, %d late; the head says %+v", signals, len(want), lates, h)
			}
			r, err := stream.NewReader(bytes.NewReader(file), int64(len(file)))
			if err != nil {
				t.Fatal(err)
			}
			got := map[[2]uint32][]said{}
			err = r.Each(func(list []stream.Signal) error {
				for _, s := range list {
					of := [2]uint32{s.Node, s.Check}
					got[of] = append(got[of], said{s.Status, int(s.Output)})
				}
				return nil
			})
			if err != nil || len(got) != len(want) {
				t.Fatalf("%v: %d states of %d", err, len(got), len(want))
			}
			matched := map[[2]uint32]bool{} // numbers say nothing of names: the sequences tell them apart
			for of, list := range want {
				found := false
				for number, other := range got {
					if !matched[number] && reflect.DeepEqual(list, other) {
						matched[number], found = true, true
						break
					}
				}
				if !found {
					t.Errorf("%v: no state of the file has its %d results in their order", of, len(list))
				}
			}
			if bytes.Contains(file, []byte("secret")) {
				t.Error("an output is in the file")
			}
			again, _ := k.record(Options{})
			if !bytes.Equal(file, again) {
				t.Error("recorded twice, it is another file")
			}
		})
	}
}

// record records the journal, which is still open.
func (k *kept) record(o Options) ([]byte, *stream.Head) {
	k.t.Helper()
	var out bytes.Buffer
	o.Journal = Folder(k.dir)
	h, err := Journal(k.t.Context(), o, &out)
	if err != nil {
		k.t.Fatal(err)
	}
	return out.Bytes(), h
}

// steady appends one result of each of some nodes every second.
func (k *kept) steady(nodes, seconds int) {
	for i := range seconds {
		var entries []journal.Entry
		for n := range nodes {
			entries = append(entries, batchOf(model.NodeID(10+n), &wire.Batch{StreamKey: wire.StreamKey{Stream: 9}, First: uint64(k.count + 1), NowMs: 1_000_000 + uint64(i)*1000,
				Signals: []wire.Signal{wire.ResultSignal(wire.Signal{Definition: 5, AtMs: 1_000_000 + uint64(i)*1000 - 200}, wire.Result{Output: []byte("fine")})}}))
		}
		k.append(time.Second, entries...)
	}
}

// TestAPartOfIt records a part of a journal, and expects only its results, and measured intervals of checks.
func TestAPartOfIt(t *testing.T) {
	k := newKept(t)
	k.steady(3, 60)
	for _, c := range []struct {
		name         string
		since, until int // seconds
		signals      uint64
		length       time.Duration
	}{
		{"all", 0, 0, 180, 59*time.Second + 201*time.Millisecond},
		{"from the middle", 31, 0, 90, 29*time.Second + 201*time.Millisecond},
		{"up to the middle", 0, 31, 90, 29*time.Second + 201*time.Millisecond},
		{"within", 11, 21, 30, 9*time.Second + 201*time.Millisecond},
	} {
		o := Options{}
		if c.since > 0 {
			o.Since = begin.Add(time.Duration(c.since) * time.Second)
		}
		if c.until > 0 {
			o.Until = begin.Add(time.Duration(c.until) * time.Second)
		}
		_, h := k.record(o)
		if h.Signals != c.signals || h.Length != c.length || h.Nodes != 3 || h.Most != 1 || len(h.Checks) != 1 || h.Checks[0] != (stream.Check{Interval: time.Second, Nodes: 3, Signals: c.signals}) {
			t.Errorf("%s: %+v", c.name, h)
		}
	}
	for name, o := range map[string]Options{
		"before it":  {Journal: k.dir, Until: begin},
		"after it":   {Journal: k.dir, Since: begin.Add(time.Hour)},
		"no journal": {Journal: Folder(t.TempDir())},
	} {
		if _, err := Journal(t.Context(), o, &bytes.Buffer{}); err == nil || model.ClassOf(err) == model.Internal {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestListening records a running server until the asked end.
func TestListening(t *testing.T) {
	k := newKept(t)
	k.steady(2, 5)
	asked := 0
	_, h := k.record(Options{Since: begin.Add(3 * time.Second), Until: begin.Add(41 * time.Second), More: func() bool {
		asked++
		k.steady(2, 10)
		return true
	}})
	if asked != 4 || h.Signals != 2*38 {
		t.Errorf("asked %d times, %d signals", asked, h.Signals)
	}
	if _, err := Journal(t.Context(), Options{Journal: k.dir, More: func() bool {
		k.steady(1, 400)
		if err := k.log.Cut(k.log.Head()); err != nil {
			t.Fatal(err)
		}
		return true
	}}, &bytes.Buffer{}); model.ClassOf(err) != model.Conflict || !errors.Is(err, journal.ErrTrimmed) {
		t.Errorf("read too slowly: %v", err)
	}
}
