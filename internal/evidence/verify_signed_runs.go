// Package evidence verifies the evidence of a node's directive runs without a server: it computes the links of the runs again and
// checks the node's signatures of them, its certificates and the definitions. In: the history of a node, as muster report evidence save
// writes it. Out: the runs that signatures cover, and faults. The package has no goroutines and no locks; start reading at VerifyAll.
package evidence

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/google/uuid"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/policy"
	"github.com/muster-fleet/muster/internal/wire"
)

// Findings is the result of verifying the evidence (signed runs of directives) of one node. It also lists the faults.
type Findings struct {
	Runs       int       // runs of the period that differ from the ones before them
	Covered    int       // of these, runs that a valid signature covers
	Signatures int       // valid ones
	Last       time.Time // end of the last run that a signature covers, by the node's clock
	Breaks     []string  // places where a chain begins anew, with the reason
	Faults     []string  // signatures, certificates, definitions and runs that were changed
}

// VerifyAll verifies the evidence of each node in a file, and calls visit with the findings of each. It calls
// visit with the findings of each node.
func VerifyAll(r io.Reader, visit func(*v1.Evidence, Findings)) error {
	for d := json.NewDecoder(r); ; {
		var e v1.Evidence
		if err := d.Decode(&e); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return model.Errorf(model.Invalid, "read the evidence file: %w", err).WithHint("muster report evidence save did not write this file, or the file is cut")
		}
		visit(&e, Verify(&e))
	}
}

// verification has the state and the findings while the evidence of one node is verified. It has the findings so far,
// and the end of the chain of runs.
type verification struct {
	*v1.Evidence
	Findings
	keys        map[[32]byte]*x509.Certificate
	definitions map[string]bool // by hash
	link        policy.Link
	begun       bool // the link is known
	open        int  // runs since the last valid signature
}

// Verify checks the signed runs of directives (the evidence) of one node. The runs between two signatures must be
// unchanged and complete.
func Verify(e *v1.Evidence) Findings {
	v := verification{Evidence: e, keys: map[[32]byte]*x509.Certificate{}, definitions: map[string]bool{}}
	v.readCertificates()
	for i := range e.Definitions {
		d := &e.Definitions[i]
		if hash := wire.DefinitionHash(d.Bytes); hex.EncodeToString(hash[:]) != d.Hash {
			v.recordFault("the definition %s of directive %s was changed", d.Hash, d.Directive)
			continue
		}
		v.definitions[d.Hash] = true
	}
	for i := range e.Entries {
		switch x := &e.Entries[i]; {
		case x.Start != nil:
			v.beginChain(x.Start)
		case x.Signature != nil:
			v.verifySignature(x.Signature)
		case x.Run != nil:
			v.checkRun(x.Run)
		}
	}
	return v.Findings
}

// recordFault records one fault in the evidence that the verification has found.
func (v *verification) recordFault(format string, args ...any) {
	v.Faults = append(v.Faults, fmt.Sprintf(format, args...))
}

// readCertificates verifies the certificates that the evidence contains for its signatures. The CA of the
// evidence must have issued them for the node.
func (v *verification) readCertificates() {
	roots := x509.NewCertPool()
	// The first certificate alone is trusted, because its hash is the one that people compare.
	switch block, rest := pem.Decode([]byte(v.CA)); {
	case block == nil || block.Type != "CERTIFICATE" || !roots.AppendCertsFromPEM(pem.EncodeToMemory(block)):
		v.recordFault("the evidence has no certificate of a CA")
	case strings.TrimSpace(string(rest)) != "":
		v.recordFault("the evidence has more than one certificate of a CA")
	}
	for _, text := range v.Certificates {
		block, _ := pem.Decode([]byte(text))
		if block == nil {
			v.recordFault("a certificate cannot be read")
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			v.recordFault("a certificate cannot be read: %v", err)
			continue
		}
		node, err := pki.NodeOf(cert)
		if id, parsed := uuid.Parse(v.ID); err != nil || parsed != nil || node != id {
			v.recordFault("a certificate is not that of node %s", v.ID)
			continue
		}
		if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: cert.NotBefore, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
			v.recordFault("the CA did not issue a certificate: %v", err)
			continue
		}
		v.keys[sha256.Sum256(block.Bytes)] = cert
	}
}

// beginChain begins a new hash chain of signed directive runs, at a start entry of the evidence.
func (v *verification) beginChain(x *v1.EvidenceBegin) {
	if len(x.Link) != policy.LinkBytes {
		v.recordFault("the link before run %d has %d bytes", x.Number, len(x.Link))
		return
	}
	link := policy.Link(x.Link)
	if v.begun && x.Reason == "" && link != v.link {
		v.recordFault("a run before run %d was changed, added or removed: its link does not follow", x.Number)
	}
	if !v.begun || x.Reason != "" {
		v.open = 0 // no later signature covers the runs before
	}
	if v.link, v.begun = link, true; x.Reason != "" {
		at := time.UnixMilli(int64(x.SignedMs)) // no signature covers this time, so a break counts whatever its time
		v.Breaks = append(v.Breaks, fmt.Sprintf("%s: %s", at.UTC().Format(time.DateTime), x.Reason))
	}
}

// checkRun checks one directive run in the evidence, and adds the run's hash to the signed chain.
func (v *verification) checkRun(x *v1.EvidenceRun) {
	at := x.At
	if x.SignedMs != 0 {
		at = time.UnixMilli(int64(x.SignedMs)) // a signature covers it, unlike At
	}
	counts := !at.Before(v.Since) && !at.After(v.Until) && x.Definition != ""
	if counts {
		v.Runs++
	}
	if x.SignedMs == 0 {
		return
	}
	run := policy.LinkedRun{UnixMs: x.SignedMs, Enforced: x.Enforced, Ended: x.Ended, Components: x.Components, Codes: x.Codes}
	hash, err := hex.DecodeString(x.Definition)
	switch {
	case err != nil || len(hash) != len(run.Definition):
		v.recordFault("the run of %s at %s names no definition", x.Directive, x.At.UTC().Format(time.DateTime))
		return
	case run.Codes.Check(x.Components) != nil:
		v.recordFault("the run of %s at %s has codes that no agent reports", x.Directive, x.At.UTC().Format(time.DateTime))
		return
	case !v.definitions[x.Definition]:
		v.recordFault("the run of %s at %s is of a definition that the evidence does not have", x.Directive, x.At.UTC().Format(time.DateTime))
	}
	copy(run.Definition[:], hash)
	if v.link = v.link.Next(&run); counts {
		v.open++
	}
}

// verifySignature verifies one signature in the evidence, which covers the directive runs since the previous
// signature. The signature covers the runs since the previous signature.
func (v *verification) verifySignature(x *v1.EvidenceSignature) {
	at := time.UnixMilli(int64(x.SignedMs))
	if len(x.Assignment) != 32 || len(x.Certificate) != 32 || len(x.Signature) != policy.SignatureBytes {
		v.recordFault("the signature of run %d has a wrong form", x.Number)
		return
	}
	if !v.begun {
		return // nothing before it is known
	}
	cert := v.keys[[32]byte(x.Certificate)]
	if cert == nil {
		v.recordFault("the certificate of the signature of run %d is missing", x.Number)
		return
	}
	if at.Before(cert.NotBefore) || at.After(cert.NotAfter) {
		v.recordFault("run %d is of %s, when its certificate was not valid", x.Number, at.UTC().Format(time.DateTime))
		return
	}
	end := policy.ChainEnd{Number: x.Number, UnixMs: x.SignedMs, Link: v.link, Assignment: [32]byte(x.Assignment)}
	key, ok := cert.PublicKey.(*ecdsa.PublicKey)
	signature := [policy.SignatureBytes]byte(x.Signature)
	if !ok || !end.Verify(key, &signature) {
		v.recordFault("the signature of run %d is wrong: a run before it, or the signature, was changed", x.Number)
		return
	}
	v.Signatures++
	v.Covered += v.open
	if v.open = 0; at.After(v.Last) {
		v.Last = at
	}
}

// Text returns a sentence with the number of directive runs that have valid signatures.
func (f *Findings) Text() string {
	text := fmt.Sprintf("valid signatures (%d) cover %d of %d runs that differ", f.Signatures, f.Covered, f.Runs)
	if !f.Last.IsZero() {
		text += ", the last one of " + f.Last.UTC().Format(time.DateTime)
	}
	return text
}
