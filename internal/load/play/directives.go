package play

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/tls"
	"fmt"
	"time"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/inventory"
	"github.com/muster-fleet/muster/internal/load/plan"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/policy"
	"github.com/muster-fleet/muster/internal/wire"
)

// directives is the Source of directives: a signal is a signed run of one directive, or a change of the inventory. Its nodes
// are members of the fleet; those of the plan are numbered within the class.
type directives struct {
	*plan.Directives
	booted   time.Time // zero of the boot clock
	machines []machine
}

// machine is the state of one node.
type machine struct {
	certificate tls.Certificate
	shown       bool // the certificate went with a run
	end         policy.ChainEnd
	assignment  [32]byte
	held        []heldDirective // as plan.Directives.Held
}

// heldDirective is a directive that a node has, with its last run.
type heldDirective struct {
	definition *model.Definition
	enforced   bool
	last       policy.LinkedRun // without time and codes
	version    uint64           // of the codes of the last run, from 1; zero: none
}

// NewDirectives returns the Source of a plan of directives; nodes sign by their certificates. booted is zero of the boot clock.
func NewDirectives(p *plan.Directives, booted time.Time, certificate func(member int) (tls.Certificate, error)) (Source, error) {
	s := &directives{p, booted, make([]machine, p.Nodes)}
	for node := range s.machines {
		m := &s.machines[node]
		var err error
		if m.certificate, err = certificate(p.First + node); err != nil {
			return nil, err
		}
		m.held = make([]heldDirective, len(p.Held(node)))
	}
	return s, nil
}

// Unit returns the unit of components.
func (s *directives) Unit() report.Unit { return report.Component }

// Timetable implements Source.
func (s *directives) Timetable(member int) (interval time.Duration, offsets []time.Duration) {
	return s.Every, s.Offsets(member - s.First)
}

// Weight implements Source.
func (s *directives) Weight(member int, tick uint64) int {
	if _, place := s.Signal(member-s.First, tick); place < 0 {
		return 0
	}
	return s.Components
}

// Assigned implements Source.
func (s *directives) Assigned(member int, held *link.Assignment) bool {
	node := member - s.First
	m, want := &s.machines[node], s.Held(node)
	mode := model.NodePolicyModeOf(wire.PropertyLookup(held.Properties))
	found := 0
	for _, definition := range held.Definitions {
		d := definition.AsDirective()
		if d == nil {
			continue
		}
		number, _ := s.Number(d.Name)
		place := placeOf(want, number)
		if place < 0 || len(d.Components) != s.Components {
			return false
		}
		found++
		x := &m.held[place]
		if x.definition == nil || x.definition.ID != definition.ID {
			x.definition = definition
		}
		x.enforced = mode.EnforcesDirective(d)
	}
	m.assignment = held.Hash
	return found == len(want)
}

// placeOf returns the index of a directive in the node's list; -1 if the node lacks it.
func placeOf(held []uint16, number int) int {
	for i, d := range held {
		if int(d) == number {
			return i
		}
	}
	return -1
}

// AppendSignal implements Source.
func (s *directives) AppendSignal(dst []byte, member int, tick uint64, at time.Duration) []byte {
	node := member - s.First
	m := &s.machines[node]
	signal := wire.Signal{AtMs: uint64(at.Milliseconds())}
	round, place := s.Signal(node, tick)
	if place < 0 {
		signal.Kind, signal.Body = wire.SignalInventory, wire.AppendInventory(nil, s.change(node, round))
	} else {
		signal.Kind, signal.Definition = wire.SignalReport, m.held[place].definition.ID
		signal.Body = wire.AppendReport(nil, s.run(m, node, place, round, at))
	}
	return wire.AppendSignal(dst, &signal)
}

// change returns the inventory of a node in the first round, and the update of a package in each other.
func (s *directives) change(node int, round uint64) *wire.Inventory {
	sum := uint64(0)
	list := make([]model.InventoryEntry, 0, s.Entries())
	for i := range s.Entries() {
		e := s.Entry(node, i, round)
		sum += e.Hash()
		list = append(list, e.Wire())
	}
	if round == 0 {
		return &wire.Inventory{Complete: true, Sum: sum, Added: list}
	}
	before, after := s.Entry(node, 0, round-1), s.Entry(node, 0, round)
	return &wire.Inventory{Base: sum - after.Hash() + before.Hash(), Sum: sum, Added: []model.InventoryEntry{after.Wire()}, Removed: []model.InventoryEntry{before.Wire()}}
}

// run returns the report of a directive, signed and linked as agents do.
func (s *directives) run(m *machine, node, place int, round uint64, at time.Duration) *wire.Report {
	x, d := &m.held[place], int(s.Held(node)[place])
	version := s.Version(node, d, round)
	r := &wire.Report{Components: uint32(s.Components), Codes: s.Codes(node, d, version), Enforced: x.enforced, DurationMs: uint32(plan.RunTime.Milliseconds()), HeldMs: uint64(at.Milliseconds())}
	run := policy.LinkedRun{Definition: x.definition.Hash, Enforced: x.enforced, Components: s.Components}
	signed := &wire.SignedRun{Number: m.end.Number + 1, UnixMs: uint64(s.booted.Add(at).UnixMilli()), Previous: m.end.Link, Assignment: m.assignment,
		Equal: run.Equal(&x.last) && (x.version == version+1 || x.version > 0 && bytes.Equal(r.Codes, s.Codes(node, d, x.version-1)))}
	x.last, x.version = run, version+1
	next := policy.ChainEnd{Number: signed.Number, UnixMs: signed.UnixMs, Link: m.end.Link, Assignment: m.assignment}
	if !signed.Equal {
		run.UnixMs, run.Codes = signed.UnixMs, r.Codes
		next.Link = next.Link.Next(&run)
	}
	var err error
	if signed.Signature, err = next.Sign(m.certificate.PrivateKey.(*ecdsa.PrivateKey)); err != nil {
		panic(fmt.Sprintf("BUG: a key that cannot sign: %v", err))
	}
	if !m.shown {
		signed.Certificate, m.shown = m.certificate.Certificate[0], true
	}
	m.end, r.Signed = next, wire.AppendSignedRun(nil, signed)
	return r
}

// Wrong implements Source: a report of a directive that no node has, and one that is no report.
func (s *directives) Wrong(int) []wire.Signal {
	return []wire.Signal{
		{Kind: wire.SignalReport, Definition: 1 << 31, Body: wire.AppendReport(nil, &wire.Report{Components: 1, Codes: []byte{byte(policy.Compliant)}})},
		{Kind: wire.SignalInventory, Body: wire.AppendInventory(nil, &wire.Inventory{Complete: true, Added: []model.InventoryEntry{{Section: uint32(inventory.Packages)}}})},
	}
}
