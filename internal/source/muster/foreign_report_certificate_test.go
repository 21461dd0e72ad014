package muster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"testing"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// TestReportsWithForeignCertificatesAreRefused sends reports with different certificates, and expects refusals of
// foreign certificates. They are those of the session, of another node and of another key, or none. The server keeps
// certificates with the signatures of runs.
func TestReportsWithForeignCertificatesAreRefused(t *testing.T) {
	w := newTestServer(t, func(c *Config) { c.Kinds = []wire.SignalKind{wire.SignalReport} })
	uid := w.addNode(1, 1)
	a := w.openAgent(uid)
	authority := testenv.Value(pki.Open(t.TempDir(), []string{"localhost"}, nil))(t)
	issue := func(node uuid.UUID) []byte {
		key := testenv.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
		csr := testenv.Value(x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key))(t)
		block, _ := pem.Decode(testenv.Value(authority.IssueNodeCertificate(csr, node))(t))
		return block.Bytes
	}
	own := issue(uid)
	session := w.server.registry.Get(1001)
	session.Node.Key = pki.FingerprintOf(testenv.Value(x509.ParseCertificate(own))(t))
	session.proven.Store(true) // publishes the key to the reader
	batch := valueBatch(1, 1, 1, 1, 1, 1)
	for i, signed := range [][]byte{
		nil, wire.AppendSignedRun(nil, &wire.SignedRun{Number: 1, Certificate: own}), wire.AppendSignedRun(nil, &wire.SignedRun{Number: 2, Certificate: issue(uuid.New())}),
		wire.AppendSignedRun(nil, &wire.SignedRun{Number: 3, Certificate: issue(uid)}), wire.AppendSignedRun(nil, &wire.SignedRun{Number: 4, Certificate: []byte{1}}),
	} {
		batch.Signals[i].Kind, batch.Signals[i].Body = wire.SignalReport, wire.AppendReport(nil, &wire.Report{Signed: signed})
	}
	a.send(batch)
	a.waitAck(5)
	a.expectRefused("3 certificate", "4 certificate", "5 certificate")
}
