package compliancelog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/klauspost/compress/zstd"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/policy"
	"github.com/muster-fleet/muster/internal/wire"
)

// State is the state of a directive on a node at a given time: the codes of the directive's latest run until then.
type State struct {
	Node       model.NodeID
	Unit       model.UnitID
	Definition model.DefinitionID
	Executed   int64 // end of the first run in this state, Unix ms
	Changed    int64 // end of the first run with these codes, Unix ms
	Enforced   bool
	Ended      bool // the run ended before its last component
	Components int
	Codes      policy.Codes
}

// Change is one entry of the history: the state of a directive on a node before and after a run. Before.Definition is
// zero where no run was before; After.Definition is zero where the directive left the node. An entry with a Seal
// changes no state.
type Change struct {
	Before, After State
	Linked        bool  // the run added a link to the chain of the node's runs
	SignedMs      int64 // time in its link, Unix ms
	Seal          *Seal // nil: a run
}

// Seal is an entry of the history about the chain of a node's signed runs: a kept signature, or the beginning of a
// chain.
type Seal struct {
	Node        model.NodeID
	At          int64             // when the server made the entry, Unix ms
	ChainStart  policy.ChainBreak // why a chain begins with Link; policy.ChainContinues: a kept signature of its end
	Number      uint64            // of the run: the first one of a chain that begins, the last one that a signature covers
	UnixMs      uint64            // end of the run, as the node signed it
	Link        policy.Link       // of a begin; a kept signature covers the links of the entries before it
	Assignment  [32]byte          // of a kept signature, as the fields below
	Certificate CertificateSum
	Signature   [policy.SignatureBytes]byte
}

// CertificateSum identifies a certificate: the SHA-256 of its DER.
type CertificateSum [32]byte

// Intended reports whether the declaration or the mode changed, so that other codes are no drift.
func (c *Change) Intended() bool {
	return c.Before.Definition != c.After.Definition || c.Before.Enforced != c.After.Enforced
}

// key names a directive on a node, whose state the history keeps.
type key struct {
	node model.NodeID
	unit model.UnitID
}

// Flags of an entry.
const (
	flagRemoved    = 1 << iota // the directive left the node
	flagDefinition             // another definition: its id follows
	flagWhole                  // the number of components and all codes follow, instead of the codes that changed
	flagOne                    // one code changed: their number is left out
	flagEnforced
	flagEnded
	flagLinked // the run has a link
	flagTime   // the time in its link differs from the time of the entry: the difference follows
)

// encoder encodes entries of the history and appends them to a block. An entry names node and directive by the number
// of the first entry of the block that has them (from 1), or by 0 and their ids; its time is the difference to the
// entry before. The directive of a Seal is 0.
type encoder struct {
	data     []byte
	keys     map[key]int
	sums     map[[32]byte]int // numbers of assignments and certificates
	executed int64            // of the last entry
	earliest int64            // earliest Executed of the block; 0: no entry
}

// appendKey appends the node and directive of an entry, and the entry's time.
func (e *encoder) appendKey(k key, at int64) {
	if number, known := e.keys[k]; known {
		e.data = binary.AppendUvarint(e.data, uint64(number))
	} else {
		if e.keys == nil {
			e.keys = map[key]int{}
		}
		e.keys[k] = len(e.keys) + 1
		e.data = binary.AppendUvarint(append(e.data, 0), uint64(k.node))
		e.data = binary.AppendUvarint(e.data, uint64(k.unit))
	}
	e.data = binary.AppendVarint(e.data, at-e.executed)
	if e.executed = at; e.earliest == 0 || at < e.earliest {
		e.earliest = at
	}
}

// appendSeal appends an entry about the chain of a node's signed runs. Its unit is zero, and an assignment or
// certificate is named as keys are.
func (e *encoder) appendSeal(s *Seal) {
	e.appendKey(key{s.Node, 0}, s.At)
	e.data = binary.AppendUvarint(append(e.data, byte(s.ChainStart)), s.Number)
	e.data = binary.AppendVarint(e.data, int64(s.UnixMs)-s.At)
	if s.ChainStart != policy.ChainContinues {
		e.data = append(e.data, s.Link[:]...)
		return
	}
	for _, sum := range [...][32]byte{s.Assignment, s.Certificate} {
		if number, known := e.sums[sum]; known {
			e.data = binary.AppendUvarint(e.data, uint64(number))
			continue
		}
		if e.sums == nil {
			e.sums = map[[32]byte]int{}
		}
		e.sums[sum] = len(e.sums) + 1
		e.data = append(append(e.data, 0), sum[:]...)
	}
	e.data = append(e.data, s.Signature[:]...)
}

// append encodes an entry and appends it to the block.
func (e *encoder) append(c *Change) {
	if c.Seal != nil {
		e.appendSeal(c.Seal)
		return
	}
	a := &c.After
	e.appendKey(key{a.Node, a.Unit}, a.Executed)
	if a.Definition == 0 {
		e.data = append(e.data, flagRemoved)
		return
	}
	flags, count, changes := byte(0), 0, []byte(nil)
	if c.Before.Definition != a.Definition {
		flags |= flagDefinition | flagWhole
	} else if count, changes = differenceOf(c.Before.Codes, a.Codes, a.Components); count < 0 || len(changes) >= len(a.Codes) && len(changes) > 0 {
		flags |= flagWhole
	} else if count == 1 {
		flags |= flagOne
	}
	if a.Enforced {
		flags |= flagEnforced
	}
	if a.Ended {
		flags |= flagEnded
	}
	if c.Linked {
		flags |= flagLinked
	}
	if c.Linked && c.SignedMs != a.Executed {
		flags |= flagTime
	}
	e.data = append(e.data, flags)
	if flags&flagTime != 0 {
		e.data = binary.AppendVarint(e.data, c.SignedMs-a.Executed)
	}
	if flags&flagDefinition != 0 {
		e.data = binary.AppendUvarint(e.data, uint64(a.Definition))
	}
	switch {
	case flags&flagWhole != 0:
		e.data = append(binary.AppendUvarint(e.data, uint64(a.Components)), a.Codes...)
	case flags&flagOne != 0:
		e.data = append(e.data, changes...)
	default:
		e.data = append(binary.AppendUvarint(e.data, uint64(count)), changes...)
	}
}

// differenceOf returns how many component codes differ between two runs, and encodes the differences: for each, the
// number of components since the last one, and the new code in three bits. A negative count says that a new code needs
// four: Waived, which only a Waiver's beginning sets.
func differenceOf(before, after policy.Codes, components int) (count int, changes []byte) {
	next := 0
	for i := after.NextDifference(before, 0, components); i < components; i = after.NextDifference(before, next, components) {
		code := after.At(i)
		if code > policy.CouldNotCheck {
			return -1, nil
		}
		changes = binary.AppendUvarint(changes, uint64(i-next)<<3|uint64(code))
		count, next = count+1, i+1
	}
	return count, changes
}

// errBlock reports a block that is damaged.
var errBlock = errors.New("the block is damaged")

// reading selects the entries that a read of the history wants, and collects the states to which they lead.
type reading struct {
	states  map[key]*State // by node and directive
	until   int64          // Unix ms; the reader leaves out later entries
	accepts func(model.NodeID) bool
	visit   func(*Change) // nil: nobody asks. The change, its codes and its Seal are valid until it returns
	change  Change        // reused for each entry
	seal    Seal          // likewise
	before  policy.Codes  // likewise: of the change
	// resumes selects the entries of a checkpoint whose states are unknown, because the blocks before it lack nodes.
	resumes bool
	sizes   map[model.NodeID]int64 // bytes of the entries of each node; nil: nobody asks
}

// count adds the size of an entry to the bytes of its node; before and after are the bytes left in the block, and it
// returns after.
func (r *reading) count(node model.NodeID, before, after int) int {
	if r.sizes != nil {
		r.sizes[node] += int64(before - after)
	}
	return after
}

// decode decodes the entries of a block and applies them to the states of the read.
func (r *reading) decode(data []byte) error {
	d := decoder{rest: data}
	executed := int64(0)
	var k key
	for rest := len(d.rest); rest > 0; rest = r.count(k.node, rest, len(d.rest)) {
		k = d.key()
		executed += d.varint()
		if k.unit == 0 && !d.failed {
			r.seal = d.seal(executed)
			if r.seal.Node = k.node; d.failed {
				return errBlock
			}
			if r.visit != nil && executed <= r.until && r.accepts(k.node) {
				r.change = Change{Seal: &r.seal}
				r.visit(&r.change)
			}
			continue
		}
		flags := d.byte()
		removed, relevant := flags&flagRemoved != 0, executed <= r.until && r.accepts(k.node)
		if d.failed || removed && flags != flagRemoved || flags&(flagLinked|flagTime) == flagTime || flags&(flagDefinition|flagWhole) == flagDefinition || flags&(flagOne|flagWhole) == flagOne|flagWhole {
			return errBlock
		}
		c := &r.change
		*c = Change{After: State{Node: k.node, Unit: k.unit}, Linked: flags&flagLinked != 0, SignedMs: executed}
		if flags&flagTime != 0 {
			c.SignedMs += d.varint()
		}
		state := r.states[k]
		relevant = relevant && (!r.resumes || state == nil)
		if state != nil {
			c.Before, c.After = *state, *state
		}
		a := &c.After
		a.Executed, a.Enforced, a.Ended = executed, flags&flagEnforced != 0, flags&flagEnded != 0
		if flags&flagDefinition != 0 {
			a.Definition = model.DefinitionID(d.uvarint(math.MaxUint32))
		}
		same := false
		switch {
		case removed:
			*a = State{Node: k.node, Unit: k.unit, Executed: executed}
		case flags&flagWhole != 0:
			a.Components = int(d.uvarint(wire.MaxComponents))
			codes := policy.Codes(d.bytes((a.Components + 1) / 2))
			if d.failed || codes.Check(a.Components) != nil {
				return errBlock
			}
			a.Codes = slices.Clone(codes)
			same = bytes.Equal(codes, c.Before.Codes)
		case !relevant:
			d.skipDifferences(flags)
		default:
			if r.visit != nil {
				r.before = append(r.before[:0], c.Before.Codes...)
				c.Before.Codes = r.before
			}
			same = d.applyDifferences(a, flags) == 0
		}
		if d.failed || relevant && !removed && a.Definition == 0 {
			return errBlock
		}
		if !relevant {
			continue
		}
		if a.Changed = executed; same && a.Definition == c.Before.Definition {
			a.Changed = c.Before.Changed
		}
		if r.visit != nil {
			r.visit(c)
		}
		switch {
		case removed:
			delete(r.states, k)
		case state != nil:
			*state = *a
		default:
			r.states[k] = &State{}
			*r.states[k] = *a
		}
	}
	return nil
}

// decoder decodes the parts of an entry from the bytes of a block.
type decoder struct {
	rest   []byte
	failed bool
	keys   []key // of the entries before
	sums   [][32]byte
}

// seal reads the part of a chain entry (Seal) that follows its key and time.
func (d *decoder) seal(at int64) (s Seal) {
	s.At, s.ChainStart, s.Number = at, policy.ChainBreak(d.byte()), d.uvarint(math.MaxUint64)
	s.UnixMs = uint64(at + d.varint())
	if s.ChainStart != policy.ChainContinues {
		copy(s.Link[:], d.bytes(policy.LinkBytes))
		d.failed = d.failed || !s.ChainStart.IsReason()
		return s
	}
	s.Assignment, s.Certificate = d.sum(), d.sum()
	copy(s.Signature[:], d.bytes(policy.SignatureBytes))
	return s
}

// sum reads the checksum of an assignment or of a certificate.
func (d *decoder) sum() (sum [32]byte) {
	number := d.uvarint(math.MaxUint32)
	switch {
	case number == 0:
		copy(sum[:], d.bytes(len(sum)))
		d.sums = append(d.sums, sum)
	case number <= uint64(len(d.sums)):
		sum = d.sums[number-1]
	default:
		d.failed = true
	}
	return sum
}

// key reads the node and directive of an entry.
func (d *decoder) key() (k key) {
	number := d.uvarint(math.MaxUint32)
	switch {
	case number == 0:
		k = key{model.NodeID(d.uvarint(math.MaxUint32)), model.UnitID(d.uvarint(math.MaxUint32))}
		d.keys = append(d.keys, k)
	case number <= uint64(len(d.keys)):
		return d.keys[number-1]
	}
	if k.node == 0 {
		d.failed = true
	}
	return k
}

// changedCodes returns how many changed component codes follow in the entry.
func (d *decoder) changedCodes(flags byte) uint64 {
	if flags&flagOne != 0 {
		return 1
	}
	return d.uvarint(wire.MaxComponents)
}

// skipDifferences skips the part of an entry that lists the components with a changed status code.
func (d *decoder) skipDifferences(flags byte) {
	for range d.changedCodes(flags) {
		d.uvarint(wire.MaxComponents << 3)
	}
}

// applyDifferences applies the changed component codes of an entry to a state, and returns how many there are.
func (d *decoder) applyDifferences(a *State, flags byte) (changed int) {
	next := uint64(0)
	for range d.changedCodes(flags) {
		change := d.uvarint(wire.MaxComponents << 3)
		if next += change >> 3; d.failed || next >= uint64(a.Components) {
			d.failed = true
			return changed
		}
		if code := policy.Status(change & 7); code != a.Codes.At(int(next)) {
			a.Codes.Set(int(next), code)
			changed++
		}
		next++
	}
	return changed
}

// varint reads a signed number from a block.
func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.rest)
	if n <= 0 {
		d.failed, d.rest = true, nil
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

// uvarint reads an unsigned number of at most a limit from a block.
func (d *decoder) uvarint(most uint64) uint64 {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 || v > most {
		d.failed, d.rest = true, nil
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

// byte reads one byte of a block.
func (d *decoder) byte() byte {
	if b := d.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

// bytes reads the next n bytes of a block.
func (d *decoder) bytes(n int) []byte {
	if n > len(d.rest) {
		d.failed, d.rest = true, nil
		return nil
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}

// Forms of a stored block: its first byte.
const (
	formPlain byte = 1 // the entries
	formZstd  byte = 2 // compressed entries
)

// compression compresses and decompresses the complete blocks of a store.
type compression struct {
	writer *zstd.Encoder
	reader *zstd.Decoder
}

// maxBlock bounds a block in memory: a checkpoint of a partition with 4,000 nodes of 10,000 components.
const maxBlock = 64 << 20

// newCompression returns a zstd compressor and decompressor for blocks.
func newCompression() (c compression, err error) {
	if c.writer, err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true)); err == nil {
		c.reader, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(maxBlock))
	}
	return c, err
}

// seal compresses a complete block for the database.
func (c *compression) seal(data []byte) []byte { return c.writer.EncodeAll(data, []byte{formZstd}) }

// open decompresses a block from the database and returns its encoded entries.
func (c *compression) open(stored []byte) ([]byte, error) {
	switch {
	case len(stored) > 0 && stored[0] == formPlain:
		return stored[1:], nil
	case len(stored) > 0 && stored[0] == formZstd:
		data, err := c.reader.DecodeAll(stored[1:], nil)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errBlock, err)
		}
		return data, nil
	}
	return nil, errBlock
}
