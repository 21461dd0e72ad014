package metric

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// multiPartitionCommit is a test commit with entries of several partitions.
type multiPartitionCommit struct {
	testCommit
	sections  []journal.Section
	bySection map[journal.Section][][]byte
}

// Sections returns the partitions that have entries, ascending.
func (c *multiPartitionCommit) Sections() []journal.Section { return c.sections }

// Entries calls fn for each entry of a partition.
func (c *multiPartitionCommit) Entries(of journal.Section, fn func([]byte) error) error {
	for _, e := range c.bySection[of] {
		if err := fn(e); err != nil {
			return err
		}
	}
	return nil
}

// TestResultIsIndependentOfWorkers applies random values with one worker and several workers, and expects equal
// states and trigger changes. The nodes are in many partitions.
func TestResultIsIndependentOfWorkers(t *testing.T) {
	const partitions, nodes, commits = 16, 40, 60
	random := rand.New(rand.NewPCG(1, 2))
	var log []*multiPartitionCommit
	for number := range uint64(commits) {
		c := &multiPartitionCommit{testCommit: testCommit{number: number + 1}, bySection: map[journal.Section][][]byte{}}
		for section := range journal.Section(partitions) {
			c.sections = append(c.sections, section)
			for node := int(section) + 1; node <= nodes; node += partitions {
				definition, list := model.DefinitionID(5), []wire.BlockValue{{Value: item.FromFloat(float64(random.IntN(8)))}, {Position: 1, Value: item.FromUnsigned(random.Uint64N(1000))}}
				if node%3 == 0 { // with discovered items
					definition, list = 20, []wire.BlockValue{disks("sda", fmt.Sprint(80+random.IntN(20)), fmt.Sprintf("sd%d", random.IntN(3)), "95")}
				}
				b := wire.Batch{StreamKey: wire.StreamKey{Stream: wire.StreamID(node)}, First: number + 1, NowMs: (number + 1) * 1000, Signals: []wire.Signal{{
					Kind: wire.SignalValueBlock, Definition: definition, AtMs: number*1000 + 900, Body: wire.AppendValueBlock(nil, &wire.ValueBlock{Rows: uint32(len(list)), Columns: wire.AppendColumns(nil, []int64{0}, list)}),
				}}}
				_, body, err := wire.FrameKind(wire.AppendBatch(nil, &b))
				testenv.NoError(t, err)
				c.bySection[section] = append(c.bySection[section], append(wire.AppendBatchRecord(nil, model.NodeID(node)), body...))
			}
		}
		log = append(log, c)
	}
	hashes := map[int][]string{}
	for _, workers := range []int{1, 4} {
		definitions := func(id model.DefinitionID) *model.Definition { return testDefinition(id) }
		s := shard.New(shard.Options{Workers: workers, Definitions: definitions})
		v := New(s, Options{Definitions: definitions})
		go func() { _ = s.Run(t.Context()) }()
		for _, c := range log {
			s.Deliver(c)
		}
		testenv.NoError(t, s.WaitApplied(t.Context(), journal.Position{Log: 1, Number: commits}))
		verdicts := 0
		for p := range model.Partition(partitions) {
			hash := s.Hash(p)
			for _, one := range v.partitions[p].pending {
				hashes[workers] = append(hashes[workers], fmt.Sprintf("%d %d %d %s %v %s", p, one.Commit, one.Node, one.Trigger, one.Problem, one.Output))
				verdicts++
			}
			hashes[workers] = append(hashes[workers], fmt.Sprintf("%d %x", p, hash))
		}
		if verdicts < 200 {
			t.Errorf("%d workers: %d verdicts", workers, verdicts)
		}
	}
	for i, want := range hashes[1] {
		if i >= len(hashes[4]) || hashes[4][i] != want {
			t.Fatalf("four workers differ from one at %s", want)
		}
	}
}
