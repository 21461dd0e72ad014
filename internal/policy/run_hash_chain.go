package policy

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math/big"
)

// The runs of directives on a node form a chain. A run that differs from the run before it of its directive adds a link: a hash
// of the run and of the link before. An equal run adds none. The node signs the last link with each run, so that one signature
// covers all links before it, and the history of compliance, which keeps only runs that differ, has all that a link needs.

// Sizes of the parts of a signed run, in bytes.
const (
	LinkBytes      = sha256.Size
	SignatureBytes = 64 // r and s of ECDSA on P-256, big-endian
)

// Link is a hash over a compliance run and all earlier runs of its node, like a blockchain. It covers a changed
// run and the previous link. The zero Link begins a chain.
type Link [LinkBytes]byte

// LinkedRun has the fields of a compliance run that the hash chain of its node covers. A Link chains the runs
// of a node.
type LinkedRun struct {
	UnixMs     uint64   // end of the run by the clock of the agent, corrected to the server's
	Definition [16]byte // model.Definition.Hash
	Enforced   bool
	Ended      bool // it ended before its last component
	Components int
	Codes      Codes
}

// Equal reports whether two compliance runs are equal except for their times.
func (r *LinkedRun) Equal(other *LinkedRun) bool {
	return r.Definition == other.Definition && r.Enforced == other.Enforced && r.Ended == other.Ended && r.Components == other.Components && bytes.Equal(r.Codes, other.Codes)
}

// Heads of the hashed texts. So a hash of one kind is never one of the other.
const (
	linkHead  = "muster run link 1\x00"
	chainHead = "muster run chain 1\x00"
)

// Next returns the hash that links the next compliance run to all earlier runs of the node.
func (l *Link) Next(r *LinkedRun) (next Link) {
	b := make([]byte, 0, len(linkHead)+LinkBytes+8+16+2+4+len(r.Codes))
	b = append(append(b, linkHead...), l[:]...)
	b = binary.BigEndian.AppendUint64(b, r.UnixMs)
	b = append(append(b, r.Definition[:]...), bit(r.Enforced), bit(r.Ended))
	b = binary.BigEndian.AppendUint32(b, uint32(r.Components))
	return sha256.Sum256(append(b, r.Codes...))
}

// bit converts a bool to 1 or 0.
func bit(v bool) byte {
	if v {
		return 1
	}
	return 0
}

// ChainEnd is the end of a node's hash chain of compliance runs, which the node signs. A chain links each run
// to the run before.
type ChainEnd struct {
	Number     uint64 // runs of the chain, also equal ones
	UnixMs     uint64 // end of the last run
	Link       Link
	Assignment [32]byte // wire.AssignmentHash of the assignment that the run was of
}

// hash returns the hash over the fields of a chain's end, which the node signs. The node signs this hash.
func (e *ChainEnd) hash() [32]byte {
	b := append(make([]byte, 0, len(chainHead)+16+LinkBytes+32), chainHead...)
	b = binary.BigEndian.AppendUint64(b, e.Number)
	b = binary.BigEndian.AppendUint64(b, e.UnixMs)
	return sha256.Sum256(append(append(b, e.Link[:]...), e.Assignment[:]...))
}

// Sign signs the end of a node's hash chain of compliance runs with the node's key.
func (e *ChainEnd) Sign(key *ecdsa.PrivateKey) (signature [SignatureBytes]byte, err error) {
	hash := e.hash()
	r, s, err := ecdsa.Sign(rand.Reader, key, hash[:])
	if err != nil {
		return signature, err
	}
	r.FillBytes(signature[:SignatureBytes/2])
	s.FillBytes(signature[SignatureBytes/2:])
	return signature, nil
}

// Verify reports whether the owner of a given public key has signed the end of the hash chain.
func (e *ChainEnd) Verify(key *ecdsa.PublicKey, signature *[SignatureBytes]byte) bool {
	hash := e.hash()
	return ecdsa.Verify(key, hash[:], new(big.Int).SetBytes(signature[:SignatureBytes/2]), new(big.Int).SetBytes(signature[SignatureBytes/2:]))
}

// ChainBreak is the reason why a compliance run does not continue its node's hash chain of signed runs.
type ChainBreak byte

// Reasons why a run does not continue a node's chain. Their numbers are stored.
const (
	ChainContinues  ChainBreak = iota
	ChainFirst                 // the server knew no chain of the node
	ChainRestart               // the agent began a new chain: its state was empty
	ChainMissing               // runs before it did not arrive
	ChainMismatch              // the link before it is another one: state of an older copy, or two machines with one identity
	ChainKey                   // the key of the node changed
	ChainSignature             // the signature before it was wrong
	ChainCheckpoint            // it continues: a checkpoint of history repeats the link

	chainBreaks
)

// IsKnown reports whether the number is a known reason for a break in a hash chain of runs.
func (c ChainBreak) IsKnown() bool { return c > ChainContinues && c < chainBreaks }

// String describes for people why a compliance run does not continue its node's hash chain.
func (c ChainBreak) String() string {
	switch c {
	case ChainContinues, ChainCheckpoint:
		return "continues"
	case ChainFirst:
		return "first signed run"
	case ChainRestart:
		return "the agent began anew with empty state"
	case ChainMissing:
		return "runs before it did not arrive"
	case ChainMismatch:
		return "does not follow the run before it: older state, or two machines with one identity"
	case ChainKey:
		return "the key of the node changed"
	case ChainSignature:
		return "the signature of the runs before it was wrong"
	}
	return "unknown reason"
}

// chainPositionVersion is the first byte of a stored chain position.
const chainPositionVersion = 1

// AppendPosition appends the encoded length and last hash of a hash chain, for an agent's restart. An agent
// continues its chain from them after a restart.
func (e *ChainEnd) AppendPosition(dst []byte) []byte {
	return append(binary.AppendUvarint(append(dst, chainPositionVersion), e.Number), e.Link[:]...)
}

// DecodePosition decodes the length and last hash of a hash chain, in the form of AppendPosition.
func (e *ChainEnd) DecodePosition(data []byte) error {
	if len(data) == 0 || data[0] != chainPositionVersion {
		return errors.New("unknown version of the chain's position")
	}
	number, n := binary.Uvarint(data[1:])
	if n <= 0 || len(data) != 1+n+LinkBytes {
		return errors.New("the chain's position is damaged")
	}
	*e = ChainEnd{Number: number, Link: Link(data[1+n:])}
	return nil
}
