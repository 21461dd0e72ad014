package agent

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/sha256"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/agent/spool"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/policy"
	"github.com/muster-fleet/muster/internal/wire"
)

// runChainPosition is the name of the spool's position that holds the end of the chain of runs: a crash loses both the last run
// and its place in the chain, or none.
const runChainPosition = "chain of directive runs"

// reportSigner signs each report of a policy directive, together with the previous report's hash, and spools
// the report.
type reportSigner struct {
	agent *Agent

	mu              sync.Mutex // held until the spool has the run, so that both have the same order
	loaded          bool
	end             policy.ChainEnd
	assignment      [32]byte
	last            map[model.UnitID]policy.LinkedRun // the last run of each directive since the start, without its time
	sentCertificate [32]byte                          // sum of the certificate that went with a run last
	shownDay        int64                             // on this day since 1970
}

// setAssignment stores the hash of the new assignment (list of checks), for the signatures of later reports. It
// forgets the runs of directives that left the node, as the server does.
func (s *reportSigner) setAssignment(hash [32]byte, directives map[model.UnitID][]model.DefinitionID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.assignment = hash
	for unit := range s.last {
		if directives[unit] == nil {
			delete(s.last, unit)
		}
	}
}

// append signs a directive's report and appends the report to the spool. An agent without a key on P-256 appends it
// unsigned.
func (s *reportSigner) append(definition *model.Definition, report *wire.Report) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	signal := &wire.Signal{Kind: wire.SignalReport, Definition: definition.ID, AtMs: s.agent.cfg.Machine.BootMs()}
	certificate := s.agent.credentials.id.Load().Certificate
	key, ok := certificate.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		signal.Body = wire.AppendReport(nil, report)
		return s.agent.spool.Append(signal, false)
	}
	if !s.loaded {
		if data := s.agent.spool.Position(runChainPosition); data != nil {
			if err := s.end.DecodePosition(data); err != nil {
				s.agent.cfg.Log.Error("cannot continue the chain of signed runs; a new one begins", "err", err)
			}
		}
		s.loaded, s.last = true, map[model.UnitID]policy.LinkedRun{}
	}
	now := s.agent.serverTime()
	run := policy.LinkedRun{
		Definition: definition.Hash, Enforced: report.Enforced, Ended: report.Ended != "", Components: int(report.Components), Codes: report.Codes,
	}
	before, known := s.last[definition.Unit]
	signed := &wire.SignedRun{
		Number: s.end.Number + 1, UnixMs: uint64(max(now.UnixMilli(), 0)), Equal: known && run.Equal(&before), Previous: s.end.Link, Assignment: s.assignment,
	}
	next := policy.ChainEnd{Number: signed.Number, UnixMs: signed.UnixMs, Link: s.end.Link, Assignment: s.assignment}
	unlinked := run
	if !signed.Equal {
		run.UnixMs = signed.UnixMs
		next.Link = next.Link.Next(&run)
	}
	var err error
	if signed.Signature, err = next.Sign(key); err != nil {
		return err
	}
	s.last[definition.Unit] = unlinked
	der, day := certificate.Certificate[0], now.Unix()/int64(24*time.Hour/time.Second)
	if sum := sha256.Sum256(der); sum != s.sentCertificate || day != s.shownDay {
		signed.Certificate, s.sentCertificate, s.shownDay = bytes.Clone(der), sum, day
	}
	report.Signed, s.end = wire.AppendSignedRun(nil, signed), next
	signal.Body = wire.AppendReport(nil, report)
	return s.agent.spool.AppendWithPosition(signal, &spool.Position{Name: runChainPosition, Value: next.AppendPosition(nil)})
}
