package event

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/wire"
)

// drawCheckDefinitions makes eight random compiled checks, two versions for each of four checks
func drawCheckDefinitions(t *rapid.T) map[model.DefinitionID]*model.CheckDefinition {
	definitions := map[model.DefinitionID]*model.CheckDefinition{}
	for id := model.DefinitionID(10); id < 18; id++ {
		c := &model.CheckDefinition{Pipelines: [][]string{nil, {"alerts"}}[id%2],
			Definition: model.Definition{ID: id, Unit: model.CheckID(1000 + id%4), Namespace: 1},
			FailAfter:  rapid.Uint32Range(0, 3).Draw(t, "failAfter"), RecoverAfter: rapid.Uint32Range(0, 2).Draw(t, "recoverAfter"), FlapStart: rapid.Uint32Range(0, 30).Draw(t, "flapStart"),
			TTL: time.Duration(rapid.IntRange(0, 3).Draw(t, "ttl")) * time.Minute, Sensu: id%4 == 1,
		}
		for s := range c.Severities {
			c.Severities[s] = model.DefaultSeverity(model.Status(s))
		}
		definitions[id] = c
	}
	return definitions
}

// drawJournal returns random journal commits about six nodes in four partitions
func drawJournal(t *rapid.T, tb testing.TB) []*testCommit {
	var commits []*testCommit
	var at, down time.Duration
	numbers := map[string]uint64{}
	id := rapid.Uint32Range(1, 6)
	for number := range rapid.IntRange(1, 40).Draw(t, "commits") {
		at += time.Duration(rapid.IntRange(0, 90).Draw(t, "seconds")) * time.Second
		c := newCommit(uint64(number+1), at, down)
		for range rapid.IntRange(0, 6).Draw(t, "entries") {
			node := model.NodeID(id.Draw(t, "node"))
			sec := journal.Section(node % 4)
			check := model.CheckID(rapid.Uint32Range(1000, 1003).Draw(t, "check"))
			switch rapid.IntRange(0, 15).Draw(t, "kind") {
			case 0, 1:
				c.addRecord(sec, &wire.Record{Kind: wire.RecordSession, Node: node, Session: &wire.SessionRecord{
					Session: rapid.Uint64Range(1, 2).Draw(t, "session"), Start: rapid.Bool().Draw(t, "begun"),
					Clean: rapid.Bool().Draw(t, "clean"), Namespace: model.NamespaceID(rapid.Uint32Range(1, 2).Draw(t, "ns")),
					TimeoutMs: 60_000, Backlog: rapid.Uint64Range(0, 3).Draw(t, "backlog"),
				}})
			case 2:
				c.addRecord(journal.All, &wire.Record{Kind: wire.RecordStarted})
				down += time.Minute
			case 3:
				m := &wire.ForgetRecord{Check: check, Deleted: rapid.IntRange(0, 5).Draw(t, "gone") == 0}
				switch rapid.IntRange(0, 4).Draw(t, "of") {
				case 0:
					c.addRecord(journal.All, &wire.Record{Kind: wire.RecordForget, Forget: m})
				case 1:
					m.Check = 0
					if m.Deleted {
						m.Deregistered = "default/web01"
					}
					fallthrough
				default:
					c.addRecord(sec, &wire.Record{Kind: wire.RecordForget, Node: node, Forget: m})
				}
			case 4:
				c.addRecord(sec, &wire.Record{Kind: wire.RecordAction, Node: node, Action: &wire.Action{
					Verb: rapid.SampledFrom([]string{"resolve", "delete", "acknowledge", "unacknowledge"}).Draw(t, "verb"), Check: check, By: "ann",
				}})
			case 5:
				c.addRecord(sec, &wire.Record{Kind: wire.RecordServerResult, Node: node, ServerResult: &wire.ServerResult{
					Definition: model.DefinitionID(rapid.Uint32Range(10, 18).Draw(t, "definition")), Status: model.Status(rapid.IntRange(0, 3).Draw(t, "status")),
				}})
			case 6:
				c.addRecord(journal.All, &wire.Record{Kind: wire.RecordIntent, Intent: wire.IntentRecord{Revision: int64(number)}})
			default:
				key := wire.StreamKey{Stream: wire.StreamID(rapid.Uint64Range(1, 20).Draw(t, "stream")), Lane: wire.Lane(rapid.IntRange(0, 1).Draw(t, "lane"))}
				of := fmt.Sprint(node, key)
				b := &wire.Batch{StreamKey: key, First: numbers[of] + 1, NowMs: 1 << 40}
				if rapid.IntRange(0, 9).Draw(t, "again") == 0 {
					b.First = max(b.First, 3) - 2
				}
				if rapid.IntRange(0, 9).Draw(t, "gap") == 0 {
					b.Gap = &wire.Gap{Last: b.First + 2, Reason: "full", Counts: []wire.GapCount{{Kind: wire.SignalResult, Definition: 11, Count: 3}}}
					numbers[of] = max(numbers[of], b.Gap.Last)
				} else {
					for range rapid.IntRange(1, 4).Draw(t, "signals") {
						s := wire.ResultSignal(wire.Signal{Definition: model.DefinitionID(rapid.Uint32Range(10, 18).Draw(t, "definition")), AtMs: b.NowMs - uint64(rapid.IntRange(0, 200_000).Draw(t, "age"))}, wire.Result{Status: model.Status(rapid.IntRange(0, 3).Draw(t, "status")), Output: []byte(rapid.StringN(0, 300, 300).Draw(t, "output"))})
						if rapid.IntRange(0, 9).Draw(t, "keepalive") == 0 {
							s = wire.Signal{Kind: wire.SignalKeepalive, AtMs: b.NowMs}
						}
						b.Signals = append(b.Signals, s)
					}
					numbers[of] = max(numbers[of], b.First+uint64(len(b.Signals))-1)
				}
				_, body, err := wire.FrameKind(wire.AppendBatch(nil, b))
				if err != nil {
					tb.Fatal(err)
				}
				c.addRecord(sec, &wire.Record{Kind: wire.RecordBatch, Node: node, Batch: body})
			}
		}
		commits = append(commits, c)
	}
	return commits
}

// replayedView is a View (the state of all events) that a test runs without worker goroutines.
type replayedView struct {
	*View
	emitted map[model.Partition][]Transition
}

// replayCommits returns a View after restored snapshots and applied commits, all without worker goroutines. It
// applies the commits after a position.
func replayCommits(tb testing.TB, definitions map[model.DefinitionID]*model.CheckDefinition, workers int, after journal.Position, restore func(*View), commits []*testCommit) *replayedView {
	r := &replayedView{emitted: map[model.Partition][]Transition{}}
	r.View = newView(viewOptions{
		Workers: workers, EmitAfter: after,
		Definitions: func(id model.DefinitionID) *model.CheckDefinition { return definitions[id] },
		Emit: func(list []Transition) {
			for _, t := range list {
				r.emitted[t.Partition] = append(r.emitted[t.Partition], t)
			}
		},
	})
	if restore != nil {
		restore(r.View)
	}
	r.applyCommits(tb, commits)
	return r
}

// applyCommits applies commits on the caller's goroutine and checks the indexes.
func (r *replayedView) applyCommits(tb testing.TB, commits []*testCommit) {
	for _, c := range commits {
		if err := r.Apply(c); err != nil {
			tb.Fatal(err)
		}
	}
	for _, p := range r.partitions[:4] {
		p.checkIndexes(tb)
	}
}

// requireEqualViews fails the test if the states of two views differ, by the hash of each partition
func requireEqualViews(t *rapid.T, what string, a, b *View) {
	for p := range model.Partition(4) {
		if a.Hash(p) != b.Hash(p) {
			x, _ := a.Snapshot(p, nil)
			y, _ := b.Snapshot(p, nil)
			t.Fatalf("%s: partition %d differs\n%q\n%q", what, p, x, y)
		}
	}
}

// transitionKey formats all fields of an event change as one text, for comparisons
func transitionKey(t Transition) string {
	id := ""
	if t.Problem != nil {
		id = t.Problem.ID
	}
	return fmt.Sprint(t.At, t.Index, t.Kind, t.Node, t.Namespace, t.Source, t.Definition, t.Status, t.Previous, t.First, t.Severity, t.Received, t.Executed, t.Output, t.Count, t.Expired, id)
}

// transitionKeys returns the changes of events after a journal position as texts, for comparisons
func transitionKeys(list []Transition, after journal.Position) (out []string) {
	for _, t := range list {
		if order, _ := t.At.Compare(after); order > 0 {
			out = append(out, transitionKey(t))
		}
	}
	return out
}

// TestReplayAndSnapshotsGiveEqualViews replays random journals in different ways, and expects equal events and
// transitions. It uses one or four workers and any snapshots.
func TestReplayAndSnapshotsGiveEqualViews(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		definitions := drawCheckDefinitions(rt)
		commits := drawJournal(rt, t)
		whole := replayCommits(t, definitions, 1, journal.Position{}, nil, commits)
		requireEqualViews(rt, "four workers", whole.View, replayCommits(t, definitions, 4, journal.Position{}, nil, commits).View)

		type saved struct {
			body []byte
			at   journal.Position
		}
		var snapshots [4]saved
		lowest, highest := uint64(len(commits)), uint64(0)
		for p := range snapshots {
			k := rapid.IntRange(0, len(commits)).Draw(rt, "snapshot")
			part := replayCommits(t, definitions, 2, journal.Position{}, nil, commits[:k])
			snapshots[p].body, snapshots[p].at = part.Snapshot(model.Partition(p), nil)
			if snapshots[p].at.Number != uint64(k) {
				rt.Fatalf("snapshot after commit %d says %d", k, snapshots[p].at.Number)
			}
			lowest, highest = min(lowest, uint64(k)), max(highest, uint64(k))
		}
		reacted := journal.Position{Log: testLog, Number: highest}
		again := replayCommits(t, definitions, 2, reacted, func(v *View) {
			for p, s := range snapshots {
				if err := v.Restore(model.Partition(p), s.at, s.body); err != nil {
					rt.Fatal(err)
				}
			}
		}, commits[lowest:])
		requireEqualViews(rt, "snapshots", whole.View, again.View)
		for p := range model.Partition(4) {
			if want, got := transitionKeys(whole.emitted[p], reacted), transitionKeys(again.emitted[p], journal.Position{}); !slices.Equal(want, got) {
				rt.Fatalf("partition %d: transitions\n%q, want\n%q", p, got, want)
			}
		}
		compareLists(rt, whole.View, scanAllStates(rt, whole.View), maxIDs{nodes: 7, namespaces: 3, checks: 4})
	})
}

// FuzzPageToken parses random texts as page tokens, and expects an error or exactly one position in the list.
func FuzzPageToken(f *testing.F) {
	const log = 7
	for _, at := range []listPosition{{severity: int(model.Disaster)}, {severity: 3, partition: 255, node: 1<<32 - 1, check: 1000}} {
		f.Add(encodePageToken(at, log))
	}
	f.Add("")
	f.Add("AQ")
	f.Add(encodePageToken(listPosition{}, log+1))
	f.Fuzz(func(t *testing.T, text string) {
		at, err := parsePageToken(text, log)
		if err != nil {
			if class := model.ClassOf(err); class != model.Invalid && class != model.Conflict {
				t.Errorf("%q is refused as %s", text, class.Label())
			}
			return
		}
		if at.severity > int(model.Disaster) || at.partition >= model.Partitions {
			t.Errorf("%q means %+v", text, at)
		}
		if again, err := parsePageToken(encodePageToken(at, log), log); err != nil || again != at {
			t.Errorf("%q means %+v, written again %+v, %v", text, at, again, err)
		}
	})
}

// FuzzDecodeSection decodes random bytes as events in a snapshot, and expects an error or equal bytes after encoding
func FuzzDecodeSection(f *testing.F) {
	golden := newGoldenView(f)
	f.Add(eventReducer{golden}.Encode(golden.Partition(1), nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		decode := func(data []byte) (*View, error) {
			v, d := newView(viewOptions{}), shard.NewDecoder(data)
			for _, id := range []model.NodeID{1, 7} {
				v.Partition(1).AddNode(id, 1)
			}
			eventReducer{v}.Decode(v.Partition(1), d)
			return v, d.Err()
		}
		v, err := decode(data)
		if err != nil {
			return
		}
		first := eventReducer{v}.Encode(v.Partition(1), nil)
		again, err := decode(first)
		if err != nil || !bytes.Equal(eventReducer{again}.Encode(again.Partition(1), nil), first) {
			t.Fatalf("the section of what was decoded is another: %v", err)
		}
	})
}
