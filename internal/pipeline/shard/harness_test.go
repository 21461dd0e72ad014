package shard

import (
	"slices"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// commit is a journal.Commit in memory.
type commit struct {
	pos       journal.Position
	listening time.Duration
	sections  []journal.Section
	entries   map[journal.Section][][]byte
}

func (c *commit) Position() journal.Position  { return c.pos }
func (c *commit) Received() int64             { return int64(1_800_000_000*time.Second + c.listening) }
func (c *commit) Listening() time.Duration    { return c.listening }
func (c *commit) Sections() []journal.Section { return c.sections }
func (c *commit) Retain()                     {}
func (c *commit) Release()                    {}
func (c *commit) Entries(s journal.Section, fn func([]byte) error) error {
	for _, data := range c.entries[s] {
		if err := fn(data); err != nil {
			return err
		}
	}
	return nil
}

func (c *commit) add(s journal.Section, r *wire.Record) {
	if c.entries == nil {
		c.entries = map[journal.Section][][]byte{}
	}
	if at, found := slices.BinarySearch(c.sections, s); !found {
		c.sections = slices.Insert(c.sections, at, s)
	}
	c.entries[s] = append(c.entries[s], wire.AppendRecord(nil, r))
}

// batch adds value blocks of a node, numbered from first on.
func (c *commit) batch(t testing.TB, node model.NodeID, first uint64, blocks int) {
	b := &wire.Batch{StreamKey: wire.StreamKey{Stream: 1}, First: first, NowMs: 1}
	for range blocks {
		b.Signals = append(b.Signals, wire.Signal{Kind: countSignal, Chunk: 10, AtMs: 1, Body: wire.AppendValueBlock(nil, &wire.ValueBlock{Rows: 1, Columns: []byte{0}})})
	}
	c.addBatch(t, node, b)
}

func (c *commit) keepalive(t testing.TB, node model.NodeID, first uint64) {
	c.addBatch(t, node, &wire.Batch{StreamKey: wire.StreamKey{Stream: 1}, First: first, NowMs: 1, Signals: []wire.Signal{{Kind: wire.SignalKeepalive, AtMs: 1}}})
}

func (c *commit) addBatch(t testing.TB, node model.NodeID, b *wire.Batch) {
	t.Helper()
	_, body, err := wire.FrameKind(wire.AppendBatch(nil, b))
	if err != nil {
		t.Fatal(err)
	}
	c.add(journal.Section(node%model.Partitions), &wire.Record{Kind: wire.RecordBatch, Node: node, Batch: body})
}
