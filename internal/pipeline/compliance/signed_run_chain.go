package compliance

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/binary"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/policy"
	"github.com/muster-fleet/muster/internal/store/compliancelog"
	"github.com/muster-fleet/muster/internal/wire"
)

// Chain is the last link of a node's hash chain of signed compliance runs, stored on the server.
type Chain struct {
	policy.ChainEnd
	Stream      wire.StreamID // of the last run
	Broken      policy.ChainBreak
	FirstRunEnd uint64 // end of the first run since the chain broke, Unix ms
	Signature   [policy.SignatureBytes]byte
	Certificate compliancelog.CertificateSum
	key         [keyBytes]byte // of Certificate; zero: no certificate came
}

// keyBytes is the size of a public key on P-256 in its uncompressed form.
const keyBytes = 65

// publicKey returns the agent's public key that verifies the chain's signatures, or nil if none is known.
func (c *Chain) publicKey() *ecdsa.PublicKey {
	key, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), c.key[:])
	if err != nil {
		return nil
	}
	return key
}

// setCertificate stores the public key of the agent's certificate, to verify the signatures of the node's runs.
// A certificate with another kind of key is ignored, so that the signatures of its runs are wrong.
func (c *Chain) setCertificate(der []byte) {
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return
	}
	key, ok := cert.PublicKey.(*ecdsa.PublicKey)
	if !ok || key.Curve != elliptic.P256() {
		return
	}
	if point, err := key.Bytes(); err == nil && len(point) == keyBytes {
		c.key, c.Certificate = [keyBytes]byte(point), sha256.Sum256(der)
	}
}

// Chain returns the last link of a node's hash chain of signed compliance runs. Its Number is zero if none
// came.
func (v *View) Chain(node model.NodeID) (c Chain) {
	of := v.shard.PartitionOf(node)
	if of == nil {
		return c
	}
	p := &v.partitions[of.ID]
	p.Lock()
	defer p.Unlock()
	if n, ok := p.Find(node); ok && p.chains[n] != nil {
		c = *p.chains[n]
	}
	return c
}

// checkContinuation checks whether a signed run continues the node's hash chain, and returns how the chain
// breaks otherwise. late says that it is a run of before the chain's end, which adds nothing: it waited in the
// backlog, or somebody sent it again.
func (c *Chain) checkContinuation(r *wire.SignedRun, stream wire.StreamID) (broken policy.ChainBreak, late bool) {
	switch {
	case c.Number == 0:
		return policy.ChainFirst, false
	case r.Number == c.Number+1 && policy.Link(r.Previous) == c.Link:
		return policy.ChainContinues, false
	case r.Number == 1 && r.UnixMs > c.UnixMs, r.Number == 1 && stream != c.Stream:
		return policy.ChainRestart, false
	case stream == c.Stream && r.Number <= c.Number:
		return policy.ChainContinues, true
	case stream == c.Stream && r.Number > c.Number+1:
		return policy.ChainMissing, false
	}
	return policy.ChainMismatch, false
}

// dayMs is the length of a day, in ms.
const dayMs = uint64(24 * time.Hour / time.Millisecond)

// minuteMs is the length of a minute, in ms.
const minuteMs = int64(time.Minute / time.Millisecond)

// maxUnixMs is the latest time that a chain accepts, in ms, about the year 10,000.
const maxUnixMs = 1 << 48

// maxTimeDifference limits the difference between a run's signed time and the server's computed time. Within it,
// history uses the signed time.
const maxTimeDifference = 5 * time.Second

// extendChain adds a signed run to its node's hash chain of signed runs. It keeps the signature before the run
// where a day ends or the chain breaks. linked says that the run has a link, so that history needs an entry of
// it.
func (w *complianceApplier) extendChain(n uint32, s *wire.SignedRun, run *policy.LinkedRun, stream wire.StreamID) (linked bool) {
	c := w.p.chains[n]
	if c == nil {
		c = &Chain{}
		w.p.chains[n] = c
	}
	broken, late := c.checkContinuation(s, stream)
	if late || s.UnixMs > maxUnixMs {
		return false
	}
	newKey := len(s.Certificate) > 0 && sha256.Sum256(s.Certificate) != c.Certificate
	node := w.p.Node(n).ID
	if broken != policy.ChainContinues || newKey || s.UnixMs/dayMs != c.UnixMs/dayMs {
		if wrong := !w.storeSignature(node, c); wrong && broken == policy.ChainContinues {
			broken = policy.ChainSignature
		}
	}
	if len(s.Certificate) > 0 {
		before := c.key
		if newKey {
			c.setCertificate(s.Certificate)
		}
		if c.key != before && c.Number > 0 && broken == policy.ChainContinues {
			broken = policy.ChainKey
		}
		if w.view.history != nil && !w.logged {
			w.view.history.AddCertificate(bytes.Clone(s.Certificate), w.Received/int64(time.Millisecond))
		}
	}
	if broken != policy.ChainContinues {
		c.Broken, c.FirstRunEnd, c.Link = broken, s.UnixMs, s.Previous
		w.addEntry(compliancelog.Change{Seal: &compliancelog.ChainEntry{
			Node: node, At: w.Received / int64(time.Millisecond), ChainStart: broken, Number: s.Number, UnixMs: s.UnixMs, Link: c.Link,
		}})
	}
	c.Number, c.UnixMs, c.Assignment, c.Signature, c.Stream = s.Number, s.UnixMs, s.Assignment, s.Signature, stream
	if !s.Equal {
		c.Link = c.Link.Next(run)
	}
	return !s.Equal
}

// storeSignature verifies the newest signature over a node's signed runs, and stores a valid signature in
// history. It returns false if the signature is wrong, and true if the chain is new.
func (w *complianceApplier) storeSignature(node model.NodeID, c *Chain) bool {
	if c.Number == 0 {
		return true
	}
	key := c.publicKey()
	if key == nil || !c.Verify(key, &c.Signature) {
		if c.Broken == policy.ChainSignature {
			return false // the log has it
		}
		w.Logger().Warn("the signature of a node's runs is wrong: history has these runs without a signature", "node", node, "run", c.Number,
			"hint", "see the times without a signature: muster report evidence save, muster report evidence verify")
		return false
	}
	// The entry is of up to a minute later, because history stores whole minutes between its time and the signed time in one byte.
	at := w.Received / int64(time.Millisecond)
	if age := at - int64(c.UnixMs); age > 0 && age < int64(dayMs) {
		at += minuteMs - 1 - (age-1)%minuteMs
	}
	w.addEntry(compliancelog.Change{Seal: &compliancelog.ChainEntry{
		Node: node, At: at, Number: c.Number, UnixMs: c.UnixMs, Assignment: c.Assignment, Certificate: c.Certificate, Signature: c.Signature,
	}})
	return true
}

// chainSignatures returns the last link of each node's hash chain of runs, for a compliance history checkpoint.
// The checkpoint is at a time in Unix ms.
func (p *partition) chainSignatures(at int64) (seals []compliancelog.ChainEntry) {
	for _, n := range p.SortedNodes() {
		if c := p.chains[n]; c != nil && c.Number > 0 {
			seals = append(seals, compliancelog.ChainEntry{Node: p.Node(n).ID, At: at, ChainStart: policy.ChainCheckpoint, Number: c.Number, UnixMs: c.UnixMs, Link: c.Link})
		}
	}
	return seals
}

// append encodes the state of a node's hash chain of signed runs for a snapshot. A nil chain means that the
// node has none.
func (c *Chain) append(b []byte) []byte {
	if c == nil {
		return binary.AppendUvarint(b, 0)
	}
	b = binary.AppendUvarint(binary.AppendUvarint(b, c.Number), c.UnixMs)
	b = append(append(b, c.Link[:]...), c.Assignment[:]...)
	b = binary.AppendUvarint(b, uint64(c.Stream))
	b = binary.AppendUvarint(append(b, byte(c.Broken)), c.FirstRunEnd)
	b = append(append(b, c.Signature[:]...), c.Certificate[:]...)
	return append(b, c.key[:]...)
}

// decodeChain reads the state of a node's hash chain of signed runs from a snapshot, or returns nil.
func decodeChain(d *shard.Decoder) *Chain {
	c := &Chain{}
	if c.Number = d.Uint(); c.Number == 0 {
		return nil
	}
	c.UnixMs = d.Uint()
	d.Array(c.Link[:])
	d.Array(c.Assignment[:])
	c.Stream, c.Broken, c.FirstRunEnd = wire.StreamID(d.Uint()), policy.ChainBreak(d.Byte()), d.Uint()
	d.Array(c.Signature[:])
	d.Array(c.Certificate[:])
	d.Array(c.key[:])
	return c
}
