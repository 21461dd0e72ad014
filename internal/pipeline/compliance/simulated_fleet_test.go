package compliance

import (
	"fmt"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/journal/journaltest"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/policy"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// simulatedFleet makes signed reports of nodes that each have some of 325 directives.
type simulatedFleet struct {
	components  int
	definitions map[model.DefinitionID]*model.Definition
	nodes       []simulatedNode
	report      wire.Report
	number      uint64 // of the last commit
}

// simulatedNode is a node of a simulatedFleet. It has a stream, a chain of runs, and the number of runs of each
// directive.
type simulatedNode struct {
	stream, runs uint64
	link         policy.Link
	ran          []byte
}

// newSimulatedFleet returns a fleet in which each node has as many directives with as many components.
func newSimulatedFleet(nodes, directives, components int) *simulatedFleet {
	f := &simulatedFleet{
		components: components, definitions: map[model.DefinitionID]*model.Definition{}, nodes: make([]simulatedNode, nodes),
		report: wire.Report{Components: uint32(components), Codes: policy.NewCodes(components)},
	}
	for unit := model.UnitID(1000); unit < 1325; unit++ {
		d := &model.DirectiveDefinition{Definition: model.Definition{ID: model.DefinitionID(unit), Unit: unit, Namespace: 1, Name: fmt.Sprint("directive ", unit)}, Interval: 5 * time.Minute, Components: make([]model.Component, components)}
		for i := range d.Components {
			d.Components[i].Name = fmt.Sprint("component ", i)
		}
		f.definitions[d.ID] = d.ToDefinition()
	}
	for i := range f.nodes {
		f.nodes[i].ran = make([]byte, directives)
	}
	return f
}

// definition returns a definition by its id.
func (f *simulatedFleet) definition(id model.DefinitionID) *model.Definition {
	return f.definitions[id]
}

// directive returns the definition id of a node's k-th directive.
func (f *simulatedFleet) directive(node, k int) model.DefinitionID {
	return model.DefinitionID(1000 + (node*7+k*11)%325)
}

// run appends a report of one signed directive run to the signals that a node will send. All its components
// differ from the run before.
func (f *simulatedFleet) run(node, k int, unixMs uint64, signals []wire.Signal) []wire.Signal {
	n := &f.nodes[node]
	n.ran[k]++
	status := policy.Compliant
	if n.ran[k]%2 == 0 {
		status = policy.NonCompliant
	}
	for i := range f.components {
		policy.Codes(f.report.Codes).Set(i, status)
	}
	n.runs++
	signed := wire.SignedRun{Number: n.runs, UnixMs: unixMs, Previous: n.link}
	run := policy.LinkedRun{UnixMs: unixMs, Components: f.components, Codes: f.report.Codes}
	n.link = n.link.Next(&run)
	f.report.Signed = wire.AppendSignedRun(nil, &signed)
	return append(signals, wire.Signal{Kind: wire.SignalReport, Definition: f.directive(node, k), AtMs: 10_000_000, Body: wire.AppendReport(nil, &f.report)})
}

// commit returns the next empty journal commit of the simulated fleet, and its time in Unix ms.
func (f *simulatedFleet) commit() (*journaltest.Commit, uint64) {
	f.number++
	at := 1e18 + int64(f.number)*int64(50*time.Millisecond)
	return &journaltest.Commit{At: journal.Position{Log: 1, Number: f.number}, Listened: time.Duration(f.number) * 50 * time.Millisecond, Time: at}, uint64(at / int64(time.Millisecond))
}

// send adds the signals of a node to a journal commit, as one batch.
func (f *simulatedFleet) send(t testing.TB, c *journaltest.Commit, node int, signals []wire.Signal) {
	t.Helper()
	id := model.NodeID(node + 1)
	n := &f.nodes[node]
	batch := wire.Batch{StreamKey: wire.StreamKey{Stream: wire.StreamID(id), Lane: wire.Live}, First: n.stream + 1, NowMs: 10_000_000, Signals: signals}
	n.stream += uint64(len(signals))
	_, frame, err := wire.FrameKind(wire.AppendBatch(nil, &batch))
	testenv.NoError(t, err)
	c.AddEntry(journal.Section(id%model.Partitions), append(wire.AppendBatchRecord(nil, id), frame...))
}

// runAll applies a run of each directive on each node.
func (f *simulatedFleet) runAll(t testing.TB, events *event.View) {
	t.Helper()
	for node := range f.nodes {
		c, at := f.commit()
		var signals []wire.Signal
		for k := range f.nodes[node].ran {
			signals = f.run(node, k, at, signals)
		}
		f.send(t, c, node, signals)
		testenv.NoError(t, events.Apply(c))
	}
}
