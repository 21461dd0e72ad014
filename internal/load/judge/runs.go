package judge

import (
	"bytes"
	"fmt"
	"maps"

	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/plan"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/policy"
)

// Kinds of findings about runs of directives.
const (
	UnacknowledgedRuns report.Kind = "signals not acknowledged"
	WrongStatus        report.Kind = "nodes with wrong statuses"
	WrongHeld          report.Kind = "directives on a wrong number of nodes"
	WrongHistory       report.Kind = "directives with wrong history"
	Uncovered          report.Kind = "runs without a valid signature"
	BrokenChain        report.Kind = "chains of runs broken or changed"
	WrongInventory     report.Kind = "wrong inventories"
)

// Directives compares the ledgers of members of the fleet, and the runs on the server, with their plan. State nil: nobody could
// read it.
func Directives(p *plan.Directives, members map[int]*observe.Ledger, state *observe.Runs) []report.Finding {
	var list findings
	acked, sent := make([]uint64, p.Nodes), make([]uint64, p.Nodes)
	for node := range p.Nodes {
		if a := members[p.First+node]; a != nil {
			acked[node], sent[node] = a.Taken, a.Signals
			if !a.Stopped {
				list.add(UnacknowledgedRuns, int(a.Signals-a.Taken), "node %d: %d of %d", node, a.Taken, a.Signals)
			}
		}
	}
	if state == nil {
		return list
	}
	list.add(Unknown, state.Unknown, "see the server's nodes")
	holders := map[int]int{}
	for node := range p.Nodes {
		counts := map[string]int{}
		rounds := p.Rounds(node, acked[node])
		for place, d := range p.Held(node) {
			holders[int(d)]++
			addCounts(counts, p, node, int(d), rounds[place])
		}
		if acked[node] == sent[node] && !maps.Equal(counts, state.Nodes[node]) {
			list.add(WrongStatus, 1, "node %d: %v instead of %v", node, state.Nodes[node], counts)
		}
		if m, ok := state.Machines[node]; ok && acked[node] == sent[node] {
			list.judgeMachine(p, node, rounds, p.Changes(node, acked[node]), &m)
		}
	}
	for d, nodes := range holders {
		if name := plan.DirectiveName(d); state.Directives[name] != nodes {
			list.add(WrongHeld, 1, "%s: %d nodes instead of %d", name, state.Directives[name], nodes)
		}
	}
	list.add(WrongHeld, len(state.Directives)-len(holders), "%d directives instead of %d", len(state.Directives), len(holders))
	return list
}

// addCounts adds the components of a directive behind some runs by their statuses.
func addCounts(counts map[string]int, p *plan.Directives, node, d int, runs uint64) {
	if runs == 0 {
		counts[policy.Pending.String()] += p.Components
		return
	}
	of, _ := p.Codes(node, d, p.Version(node, d, runs-1)).Counts(p.Components)
	for status, n := range of {
		if n > 0 {
			counts[policy.Status(status).String()] += n
		}
	}
}

// judgeMachine compares all that the server has of a node: each status, each entry of history, the signatures and the inventory.
func (f *findings) judgeMachine(p *plan.Directives, node int, rounds []uint64, changes uint64, m *observe.MachineHistory) {
	for place, number := range p.Held(node) {
		d, name := int(number), fmt.Sprintf("node %d, %s", node, plan.DirectiveName(int(number)))
		var history [][]byte
		for round := range rounds[place] {
			history = append(history, p.Codes(node, d, p.Version(node, d, round)))
		}
		history = withoutRepeated(history) // a run that equals the one before it makes no entry
		statuses := m.Statuses[plan.DirectiveName(d)]
		for i := range p.Components {
			if rounds[place] == 0 || i < len(statuses) && statuses[i] == p.Codes(node, d, p.Version(node, d, rounds[place]-1)).At(i).String() {
				continue
			}
			f.add(WrongStatus, 1, "%s, component %d: %q", name, i, statuses)
			break
		}
		got := m.History[plan.DirectiveName(d)]
		if d == 0 {
			got = withoutRepeated(got) // a changed definition makes an entry, too
		}
		if len(got) != len(history) {
			f.add(WrongHistory, 1, "%s: %d entries instead of %d", name, len(got), len(history))
			continue
		}
		for i := range got {
			if !bytes.Equal(got[i], history[i]) {
				f.add(WrongHistory, 1, "%s: entry %d is %x instead of %x", name, i, got[i], history[i])
				break
			}
		}
	}
	f.add(Uncovered, m.Runs-m.Covered, "node %d: %d of %d are covered", node, m.Covered, m.Runs)
	f.add(BrokenChain, len(m.Faults)+max(0, len(m.Breaks)-1), "node %d: %q, %q", node, m.Faults, m.Breaks)
	var packages []string
	for i := range p.Entries() {
		if changes > 0 {
			packages = append(packages, p.Entry(node, i, changes-1).Field(1))
		}
	}
	if fmt.Sprint(packages) != fmt.Sprint(m.Packages) {
		f.add(WrongInventory, 1, "node %d: %.300v instead of %.300v", node, m.Packages, packages)
	}
}

// withoutRepeated returns a list without entries that equal the one before them.
func withoutRepeated(list [][]byte) (out [][]byte) {
	for _, codes := range list {
		if len(out) == 0 || !bytes.Equal(out[len(out)-1], codes) {
			out = append(out, codes)
		}
	}
	return out
}
