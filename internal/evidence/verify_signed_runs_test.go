package evidence

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/policy"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// signedEvidence returns valid evidence of one test node with a checkpoint, three directive runs and two
// signatures.
func signedEvidence(t testing.TB) *v1.Evidence {
	t.Helper()
	authority := testenv.Value(pki.Open(t.TempDir(), []string{"localhost"}, nil))(t)
	node := uuid.New()
	key := testenv.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	csr := testenv.Value(x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key))(t)
	certificate := testenv.Value(authority.IssueNodeCertificate(csr, node))(t)
	block, _ := pem.Decode(certificate)
	sum := sha256.Sum256(block.Bytes)
	definition := []byte("definition")
	hash := wire.DefinitionHash(definition)
	now := time.Now().Truncate(time.Millisecond)
	e := &v1.Evidence{
		Namespace: "default", Node: "db1", ID: node.String(), Since: now.Add(-time.Hour), Until: now.Add(time.Hour), CA: string(authority.CAPEM()), Certificates: []string{string(certificate)},
		Definitions: []v1.EvidenceDefinition{{Hash: hex.EncodeToString(hash[:]), Directive: "motd", Bytes: definition}},
	}
	link := policy.Link{7}
	e.Entries = append(e.Entries, v1.EvidenceEntry{Start: &v1.EvidenceBegin{Number: 4, SignedMs: uint64(now.UnixMilli()), Link: bytes.Clone(link[:])}})
	for i := range 3 {
		run := &v1.EvidenceRun{Directive: "motd", At: now, Definition: e.Definitions[0].Hash, SignedMs: uint64(now.UnixMilli()) + uint64(i), Components: 2, Codes: []byte{0x22 + byte(i)}}
		link = link.Next(&policy.LinkedRun{UnixMs: run.SignedMs, Definition: hash, Components: 2, Codes: run.Codes})
		e.Entries = append(e.Entries, v1.EvidenceEntry{Run: run})
		if i > 0 {
			end := policy.ChainEnd{Number: uint64(4 + i), UnixMs: run.SignedMs, Link: link}
			signature := testenv.Value(end.Sign(key))(t)
			e.Entries = append(e.Entries, v1.EvidenceEntry{Signature: &v1.EvidenceSignature{Number: end.Number, SignedMs: end.UnixMs, Assignment: make([]byte, 32), Certificate: sum[:], Signature: signature[:]}})
		}
	}
	return e
}

// TestChangesOfEvidenceAreFound changes each part of valid evidence, and expects a fault for each change.
func TestChangesOfEvidenceAreFound(t *testing.T) {
	e := signedEvidence(t)
	if found := Verify(e); len(found.Faults) > 0 || found.Runs != 3 || found.Covered != 3 || found.Signatures != 2 {
		t.Fatalf("right evidence: %+v", found)
	}
	other := signedEvidence(t)
	for _, manipulation := range []struct {
		want   string
		change func(e *v1.Evidence)
	}{
		{"the signature of run 6 is wrong", func(e *v1.Evidence) { e.Entries[4].Run.Codes[0] ^= 1 }},
		{"the signature of run 6 is wrong", func(e *v1.Evidence) { e.Entries[4].Run.Enforced = true }},
		{"the signature of run 6 is wrong", func(e *v1.Evidence) { e.Entries[5].Signature.Signature[9]++ }},
		{"the signature of run 6 is wrong", func(e *v1.Evidence) {
			e.Entries[5].Signature = e.Entries[3].Signature
			e.Entries[5].Signature.Number = 6
		}},
		{"the signature of run 6 is wrong", func(e *v1.Evidence) { e.Entries[5].Signature.Assignment[0]++ }},
		{"the signature of run 6 is wrong", func(e *v1.Evidence) { e.Entries = slices.Delete(e.Entries, 2, 4) }}, // a day with its signature
		{"the signature of run 5 is wrong", func(e *v1.Evidence) { e.Entries = append(e.Entries[:1], e.Entries[2:]...) }},
		{"the signature of run 5 is wrong", func(e *v1.Evidence) { e.Entries[1], e.Entries[2] = e.Entries[2], e.Entries[1] }},
		{"the definition", func(e *v1.Evidence) { e.Definitions[0].Bytes[0]++ }},
		{"a certificate is not that of node", func(e *v1.Evidence) { e.ID = other.ID }},
		{"a certificate is not that of node", func(e *v1.Evidence) { e.Certificates = other.Certificates }},
		{"the CA did not issue a certificate", func(e *v1.Evidence) { e.ID, e.Certificates = other.ID, other.Certificates }},
		{"the CA did not issue a certificate", func(e *v1.Evidence) { e.CA = other.CA }},
		{"more than one certificate of a CA", func(e *v1.Evidence) { e.CA += other.CA }},
		{"the certificate of the signature", func(e *v1.Evidence) { e.Certificates = nil }},
		{"has codes that no agent reports", func(e *v1.Evidence) { e.Entries[4].Run.Codes[0] = 0xff }},
		{"names no definition", func(e *v1.Evidence) { e.Entries[4].Run.Definition = "" }},
		{"when its certificate was not valid", func(e *v1.Evidence) { e.Entries[3].Signature.SignedMs = 1 }},
		{"has a wrong form", func(e *v1.Evidence) { e.Entries[3].Signature.Signature = nil }},
		{"was changed, added or removed", func(e *v1.Evidence) { e.Entries = append(e.Entries, e.Entries[0]) }},
		{"that the evidence does not have", func(e *v1.Evidence) { e.Definitions = nil }},
		{"the evidence has no certificate of a", func(e *v1.Evidence) { e.CA = "" }},
	} {
		var changed v1.Evidence
		testenv.NoError(t, json.Unmarshal(testenv.Value(json.Marshal(e))(t), &changed))
		manipulation.change(&changed)
		if found := Verify(&changed); !strings.Contains(strings.Join(found.Faults, "\n"), manipulation.want) {
			t.Errorf("faults %q, want %q", found.Faults, manipulation.want)
		}
	}
}

// TestRunsBeforeTheSignedChainAreNotSigned inserts a forged directive run before the signed hash chain, and
// expects an unsigned run. No signature may cover the run.
func TestRunsBeforeTheSignedChainAreNotSigned(t *testing.T) {
	e := signedEvidence(t)
	invented := *e.Entries[1].Run
	e.Entries = append([]v1.EvidenceEntry{{Run: &invented}}, e.Entries...)
	if found := Verify(e); found.Runs != 4 || found.Covered != 3 {
		t.Errorf("found %+v", found)
	}
}

// TestInterruptedChainIsReported interrupts the hash chain of signed runs with a reason, and expects the
// interruption among the findings.
func TestInterruptedChainIsReported(t *testing.T) {
	e := signedEvidence(t)
	e.Entries[0].Start.Reason, e.Entries[0].Start.SignedMs = "runs before it are missing", 1
	if found := Verify(e); len(found.Breaks) != 1 {
		t.Errorf("breaks %q", found.Breaks)
	}
}

// FuzzVerifyAll verifies random evidence, and expects no run to count as signed without a valid signature. It also
// expects no panic.
func FuzzVerifyAll(f *testing.F) {
	f.Add(testenv.Value(json.Marshal(signedEvidence(f)))(f))
	f.Add([]byte(`{"entries":[{"start":{}},{"run":{}},{"signature":{}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		_ = VerifyAll(bytes.NewReader(data), func(_ *v1.Evidence, found Findings) {
			if found.Covered > 0 && found.Signatures == 0 || found.Covered > found.Runs {
				t.Errorf("%+v", found)
			}
		})
	})
}
