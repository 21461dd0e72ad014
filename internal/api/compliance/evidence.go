package compliance

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"time"

	"github.com/muster-fleet/muster/internal/api/list"
	"github.com/muster-fleet/muster/internal/api/op"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
	reducer "github.com/muster-fleet/muster/internal/pipeline/compliance"
	"github.com/muster-fleet/muster/internal/policy"
	"github.com/muster-fleet/muster/internal/store/compliancelog"
	"github.com/muster-fleet/muster/internal/wire"
)

// signatureWait is the longest time from a run to the kept signature that covers it.
const signatureWait = 25 * time.Hour

// maxEvidencePeriod is the longest period of one request: the default time for which history is kept.
const maxEvidencePeriod = 400 * 24 * time.Hour

// answerEvidence answers an HTTP request with the signed history of a node's runs of policy directives.
func (s *complianceRequest) answerEvidence(ctx context.Context, in *struct {
	Namespace string    `query:"namespace" maxLength:"253" required:"true" doc:"Namespace of the node."`
	Node      string    `query:"node" maxLength:"253" required:"true"`
	Since     time.Time `query:"since" doc:"Start (RFC 3339); default 30 days ago."`
	Until     time.Time `query:"until" doc:"End (RFC 3339); default now."`
}) (*op.Body[v1.Evidence], error) {
	if err := s.RequireNamespace(ctx, in.Namespace); err != nil {
		return nil, err
	}
	id, ok := s.Directory.NodeByName(in.Namespace, in.Node)
	if !ok {
		return nil, s.NodeNotFoundError(ctx, in.Namespace, in.Node)
	}
	now := s.Now()
	period := list.Period{Since: in.Since, Until: in.Until}
	if err := period.Complete(now.UTC(), 30*24*time.Hour); err != nil {
		return nil, err
	}
	if period.Until.Sub(period.Since) > maxEvidencePeriod {
		return nil, model.Errorf(model.Invalid, "the period from %s to %s is longer than %s", period.Since.Format(time.RFC3339), period.Until.Format(time.RFC3339), model.Duration(maxEvidencePeriod)).
			WithHint("save the evidence of each year: muster report evidence save FILE --since TIME --until TIME")
	}
	e := evidenceOfNode{complianceRequest: s, namespace: in.Namespace, definitions: map[model.DefinitionID]bool{}, certificates: map[compliancelog.CertificateSum]bool{}}
	e.out = v1.Evidence{
		Namespace: in.Namespace, Node: in.Node, ID: s.Directory.Node(id).UID.String(), Since: period.Since, Until: period.Until, CA: s.CA(), Certificates: []string{},
		Definitions: []v1.EvidenceDefinition{}, Entries: []v1.EvidenceEntry{},
	}
	until := e.out.Until.Add(signatureWait)
	if err := s.History.Entries(ctx, id, e.out.Since, until, e.add); err != nil {
		return nil, err
	}
	if !until.Before(now) {
		end := s.Chain(id)
		e.addEnd(&end)
	}
	if err := e.addCertificates(ctx); err != nil {
		return nil, err
	}
	return op.Answer(e.out), nil
}

// evidenceOfNode collects the signed proof of one node's runs of policy directives, for auditors. It contains
// the runs, their signatures and the certificates.
type evidenceOfNode struct {
	*complianceRequest
	namespace    string
	out          v1.Evidence
	link         policy.Link // of the last entry
	definitions  map[model.DefinitionID]bool
	certificates map[compliancelog.CertificateSum]bool
	sums         []compliancelog.CertificateSum // of certificates, in the order of their signatures
}

// add adds one entry of the node's signed history of policy directive runs to the evidence.
func (e *evidenceOfNode) add(c *compliancelog.Change) {
	switch x := c.Seal; {
	case x == nil:
		e.addRun(c)
	case x.ChainStart == policy.ChainContinues:
		e.addSignature(x)
	default:
		begin := &v1.EvidenceBegin{Reason: x.ChainStart.String(), Number: x.Number, SignedMs: x.UnixMs, Link: bytes.Clone(x.Link[:])}
		if x.ChainStart == policy.ChainCheckpoint {
			begin.Reason = ""
		}
		e.link = x.Link
		e.out.Entries = append(e.out.Entries, v1.EvidenceEntry{Start: begin})
	}
}

// addSignature adds a stored signature, and the signer's certificate if the evidence lacks the certificate.
func (e *evidenceOfNode) addSignature(x *compliancelog.ChainEntry) {
	if !e.certificates[x.Certificate] {
		e.certificates[x.Certificate] = true
		e.sums = append(e.sums, x.Certificate)
	}
	e.out.Entries = append(e.out.Entries, v1.EvidenceEntry{Signature: &v1.EvidenceSignature{
		Number: x.Number, SignedMs: x.UnixMs, Assignment: bytes.Clone(x.Assignment[:]), Certificate: bytes.Clone(x.Certificate[:]), Signature: bytes.Clone(x.Signature[:]),
	}})
}

// addRun adds one run of a policy directive, with its result, to the evidence about a node.
func (e *evidenceOfNode) addRun(c *compliancelog.Change) {
	a := &c.After
	run := &v1.EvidenceRun{Directive: e.directiveName(e.namespace, a.Unit), At: time.UnixMilli(a.Executed).UTC(), Enforced: a.Enforced, Ended: a.Ended}
	if a.Definition != 0 {
		definition := e.statusEvaluator.Definition(a.Definition)
		run.Definition, run.Components, run.Codes = e.definitionHash(definition, a.Definition, run.Directive), a.Components, bytes.Clone(a.Codes)
		if c.Linked && definition != nil {
			run.SignedMs = uint64(c.SignedMs)
			e.link = e.link.Next(&policy.LinkedRun{
				UnixMs: run.SignedMs, Definition: definition.Hash, Enforced: a.Enforced, Ended: a.Ended, Components: a.Components, Codes: a.Codes,
			})
		}
	}
	e.out.Entries = append(e.out.Entries, v1.EvidenceEntry{Run: run})
}

// definitionHash adds a compiled policy directive to the evidence, and returns its hash. A directive of the evidence
// is not added twice.
func (e *evidenceOfNode) definitionHash(c *model.Definition, id model.DefinitionID, directive string) string {
	if c == nil {
		return fmt.Sprintf("unknown %d", id)
	}
	hash := hex.EncodeToString(c.Hash[:])
	if !e.definitions[id] {
		e.definitions[id] = true
		e.out.Definitions = append(e.out.Definitions, v1.EvidenceDefinition{Hash: hash, Directive: directive, Bytes: wire.AppendDefinition(nil, c)})
	}
	return hash
}

// addEnd adds the signature of the node's last run, unless a newer run exists, to the evidence. It adds none if
// a later run has continued the chain.
func (e *evidenceOfNode) addEnd(end *reducer.Chain) {
	if end.Number == 0 || end.Link != e.link {
		return
	}
	e.addSignature(&compliancelog.ChainEntry{Number: end.Number, UnixMs: end.UnixMs, Assignment: end.Assignment, Certificate: end.Certificate, Signature: end.Signature})
}

// addCertificates adds the certificates of all signatures to the evidence.
func (e *evidenceOfNode) addCertificates(ctx context.Context) error {
	for _, sum := range e.sums {
		der, err := e.History.Certificate(ctx, sum)
		if err != nil {
			return err
		}
		if der != nil {
			e.out.Certificates = append(e.out.Certificates, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
		}
	}
	return nil
}
