package compliancelog

import (
	"bytes"
	"cmp"
	_ "embed" // of the dictionary
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

// State is a directive's state on a node after a run, with each component's (checked part's) status. It has the
// codes of the directive's latest run until then.
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

// Change is a history entry about a run that changed the state of a directive on a node. It has the states before and
// after a run. Before.Definition is zero where no run was before; After.Definition is zero where the directive left
// the node. An entry with a Seal changes no state.
type Change struct {
	Before, After State
	Linked        bool        // the run added a link to the chain of the node's runs
	SignedMs      int64       // time in its link, Unix ms
	Seal          *ChainEntry // nil: a run
}

// ChainEntry is a history entry about the hash chain that links the signed runs of a node. It is a kept
// signature, or the beginning of a chain.
type ChainEntry struct {
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

// CertificateSum is the SHA-256 of an encoded certificate, as its id.
type CertificateSum [32]byte

// shortened returns the first 8 bytes of the checksum, as a number.
func (c *CertificateSum) shortened() int64 { return int64(binary.BigEndian.Uint64(c[:])) }

// IsIntended reports whether a changed directive or mode (audit or enforce) caused the change, instead of
// drift.
func (c *Change) IsIntended() bool {
	return c.Before.Definition != c.After.Definition || c.Before.Enforced != c.After.Enforced
}

// key identifies a directive on a node in the history.
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

// encoder encodes history entries into a block. An entry names node and directive by the number of the first entry
// that has them (from 1), or by 0 and their ids; its time is the difference to the entry before. The directive of a
// Seal is 0. The numbers of nodes and directives hold until the next checkpoint, across blocks. Each block begins with
// its own number, so that a reader notices a missing block. Block 0 begins all numbers anew.
type encoder struct {
	data     []byte
	hashes   []byte
	block    int // number of the block
	nodes    map[model.NodeID]*numberedNode
	keys     int   // how many are numbered
	executed int64 // of the last entry
	earliest int64 // earliest Executed of the block; 0: no entry
}

// numberedNode has the numbers that blocks use for a node's directives. It also has parts of the node's last
// hash-chain entry.
type numberedNode struct {
	units       []numberedDirective // ascending by unit
	chainNumber uint64
	assignment  [32]byte // of the last kept signature
	certificate CertificateSum
}

// numberedDirective has the number that a block uses for a directive of a node.
type numberedDirective struct {
	unit   model.UnitID
	number uint32
}

// nextBlock begins the next block, which continues the numbering of nodes and directives.
func (e *encoder) nextBlock() {
	e.data, e.hashes, e.block, e.executed, e.earliest = nil, nil, e.block+1, 0, 0
}

// content returns the encoded entries and hashes of the block being filled.
func (e *encoder) content() blockContent { return blockContent{e.data, e.hashes} }

// appendKey appends the node and directive of an entry, and the entry's time. It returns the node.
func (e *encoder) appendKey(k key, at int64) *numberedNode {
	if len(e.data) == 0 {
		e.data = binary.AppendUvarint(e.data, uint64(e.block))
	}
	node := e.nodes[k.node]
	if node == nil {
		if e.nodes == nil {
			e.nodes = map[model.NodeID]*numberedNode{}
		}
		node = &numberedNode{}
		e.nodes[k.node] = node
	}
	i, known := slices.BinarySearchFunc(node.units, k.unit, func(u numberedDirective, unit model.UnitID) int { return cmp.Compare(u.unit, unit) })
	if known {
		e.data = binary.AppendUvarint(e.data, uint64(node.units[i].number))
	} else {
		e.keys++
		if n := len(node.units); n == cap(node.units) {
			node.units = append(make([]numberedDirective, 0, n+n/16+1), node.units...) // not twice as large
		}
		node.units = slices.Insert(node.units, i, numberedDirective{k.unit, uint32(e.keys)})
		e.data = binary.AppendUvarint(append(e.data, 0), uint64(k.node))
		e.data = binary.AppendUvarint(e.data, uint64(k.unit))
	}
	e.data = binary.AppendVarint(e.data, at-e.executed)
	if e.executed = at; e.earliest == 0 || at < e.earliest {
		e.earliest = at
	}
	return node
}

// Parts of a Seal's first byte: ChainStart, and fields that follow.
const (
	sealStart       = 0x0f
	sealMinutes     = 0x10 // UnixMs is whole minutes before At: their number follows, instead of the difference in ms
	sealAssignment  = 0x20 // another assignment than in the node's last Seal follows
	sealCertificate = 0x40 // likewise: the certificate
)

// minuteMs is the length of a minute, in ms.
const minuteMs = 60_000

// appendChainEntry encodes an entry about the hash chain of a node's signed runs into the block. Its unit is
// zero, and its number is the difference to the node's last one.
func (e *encoder) appendChainEntry(s *ChainEntry) {
	node := e.appendKey(key{s.Node, 0}, s.At)
	flags := byte(s.ChainStart)
	before := s.At - int64(s.UnixMs)
	if before >= 0 && before%minuteMs == 0 {
		flags |= sealMinutes
		before /= minuteMs
	}
	kept := s.ChainStart == policy.ChainContinues
	if kept && s.Assignment != node.assignment {
		flags |= sealAssignment
	}
	if kept && s.Certificate != node.certificate {
		flags |= sealCertificate
	}
	e.data = binary.AppendVarint(append(e.data, flags), int64(s.Number-node.chainNumber))
	e.data = binary.AppendVarint(e.data, before)
	if node.chainNumber = s.Number; !kept {
		e.hashes = append(e.hashes, s.Link[:]...)
		return
	}
	if flags&sealAssignment != 0 {
		e.hashes = append(e.hashes, s.Assignment[:]...)
	}
	if flags&sealCertificate != 0 {
		e.hashes = append(e.hashes, s.Certificate[:]...)
	}
	e.hashes = append(e.hashes, s.Signature[:]...)
	node.assignment, node.certificate = s.Assignment, s.Certificate
}

// append encodes an entry into the block.
func (e *encoder) append(c *Change) {
	if c.Seal != nil {
		e.appendChainEntry(c.Seal)
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
	} else if count, changes = encodeDifferences(c.Before.Codes, a.Codes, a.Components); count < 0 || len(changes) >= len(a.Codes) && len(changes) > 0 {
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

// encodeDifferences encodes the status codes of directive components that differ between two runs. It returns
// their number. For each it has the number of components since the last one, and the new code in three bits. A
// negative count says that a new code needs four: Waived, which only a Waiver's beginning sets.
func encodeDifferences(before, after policy.Codes, components int) (count int, changes []byte) {
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

// Errors of blocks.
var (
	errBlock   = errors.New("the block is damaged")
	errMissing = errors.New("the block before it is missing")
)

// historyReader reads the history of one partition, and computes the states after each entry. It reads one
// partition, in the order of the blocks.
type historyReader struct {
	states  map[key]*State // by node and directive
	until   int64          // Unix ms; the reader leaves out later entries
	accepts func(model.NodeID) bool
	visit   func(*Change) // nil: nobody asks. The change, its codes and its Seal are valid until it returns
	change  Change        // reused for each entry
	seal    ChainEntry    // likewise
	before  policy.Codes  // likewise: of the change
	// resumes selects the entries of a checkpoint whose states are unknown, because the blocks before it lack nodes.
	resumes bool
	skips   bool                   // leave out all entries of the checkpoint, because the entries before lead to its states
	sizes   map[model.NodeID]int64 // bytes of the entries of each node; nil: nobody asks
	block   uint64                 // number of the next block
	keys    []numberedKey          // by number
	hashes  decoder                // of the row
}

// numberedKey is a directive on a node to which the entries of blocks refer by a number.
type numberedKey struct {
	key
	accepted bool
	state    *State      // nil: none
	seal     *ChainEntry // last one of the node, under its directive 0; nil: none
}

// addSize adds the encoded size of a history entry to the total size of the entry's node. The arguments before
// and after are the bytes left in the block, and it returns after.
func (r *historyReader) addSize(node model.NodeID, before, after int) int {
	if r.sizes != nil {
		r.sizes[node] += int64(before - after)
	}
	return after
}

// decodeStored decodes all history blocks in one decompressed row of the database. compression.decompressRow
// returns such a row.
func (r *historyReader) decodeStored(row blockContent) error {
	d := decoder{rest: row.entries}
	r.hashes = decoder{rest: row.hashes}
	for more := true; more; more = len(d.rest) > 0 {
		block := d.bytes(int(d.uvarint(maxBlock)))
		if d.failed {
			return errBlock
		}
		if err := r.decode(block); err != nil {
			return err
		}
	}
	return nil
}

// decode decodes the entries of a block, and updates the reader's directive states by each entry.
func (r *historyReader) decode(data []byte) error {
	d := decoder{rest: data}
	number := uint64(0)
	if len(data) > 0 {
		number = d.uvarint(math.MaxUint32)
	}
	switch {
	case d.failed:
		return errBlock
	case number == 0:
		r.keys = r.keys[:0]
	case number != r.block:
		return errMissing
	}
	r.block = number + 1
	executed := int64(0)
	for rest := len(d.rest) + len(r.hashes.rest); len(d.rest) > 0; {
		k := r.readKey(&d)
		executed += d.varint()
		if d.failed {
			return errBlock
		}
		var err error
		if k.unit == 0 {
			err = r.decodeChainEntry(&d, k, executed)
		} else {
			err = r.decodeRun(&d, k, executed)
		}
		if err != nil {
			return err
		}
		rest = r.addSize(k.node, rest, len(d.rest)+len(r.hashes.rest))
	}
	return nil
}

// readKey reads the node and directive of an entry. It returns nil if the entry is damaged. The result is valid
// until the next call.
func (r *historyReader) readKey(d *decoder) *numberedKey {
	number := d.uvarint(math.MaxUint32)
	if number > 0 && number <= uint64(len(r.keys)) {
		return &r.keys[number-1]
	}
	k := key{model.NodeID(d.uvarint(math.MaxUint32)), model.UnitID(d.uvarint(math.MaxUint32))}
	if number > 0 || k.node == 0 {
		d.failed = true
	}
	if d.failed {
		return nil
	}
	r.keys = append(r.keys, numberedKey{key: k, accepted: r.accepts(k.node), state: r.states[k]})
	return &r.keys[len(r.keys)-1]
}

// decodeChainEntry decodes the rest of an entry about a hash chain, after its node and time.
func (r *historyReader) decodeChainEntry(d *decoder, k *numberedKey, at int64) error {
	if k.seal == nil {
		k.seal = &ChainEntry{Node: k.node}
	}
	s := k.seal
	flags := d.byte()
	s.At, s.ChainStart = at, policy.ChainBreak(flags&sealStart)
	s.Number += uint64(d.varint())
	before := d.varint()
	if flags&sealMinutes != 0 {
		d.failed = d.failed || before < 0 || before > math.MaxInt64/minuteMs
		before *= minuteMs
	}
	s.UnixMs = uint64(at - before)
	r.seal = *s
	if s.ChainStart != policy.ChainContinues {
		r.seal.Assignment, r.seal.Certificate = [32]byte{}, CertificateSum{}
		copy(r.seal.Link[:], r.hashes.bytes(policy.LinkBytes))
		d.failed = d.failed || !s.ChainStart.IsKnown() || flags&^(sealStart|sealMinutes) != 0
	} else {
		if flags&sealAssignment != 0 {
			copy(s.Assignment[:], r.hashes.bytes(len(s.Assignment)))
		}
		if flags&sealCertificate != 0 {
			copy(s.Certificate[:], r.hashes.bytes(len(s.Certificate)))
		}
		r.seal.Assignment, r.seal.Certificate = s.Assignment, s.Certificate
		copy(r.seal.Signature[:], r.hashes.bytes(policy.SignatureBytes))
		d.failed = d.failed || flags&^(sealStart|sealMinutes|sealAssignment|sealCertificate) != 0
	}
	if d.failed || r.hashes.failed {
		return errBlock
	}
	if r.visit != nil && at <= r.until && k.accepted && !r.skips {
		r.change = Change{Seal: &r.seal}
		r.visit(&r.change)
	}
	return nil
}

// decodeRun decodes the rest of an entry about a run, after its node, directive and time. It applies the entry
// to the states of the read.
func (r *historyReader) decodeRun(d *decoder, k *numberedKey, executed int64) error {
	flags := d.byte()
	removed, relevant := flags&flagRemoved != 0, executed <= r.until && k.accepted && !r.skips
	if d.failed || removed && flags != flagRemoved || flags&(flagLinked|flagTime) == flagTime || flags&(flagDefinition|flagWhole) == flagDefinition || flags&(flagOne|flagWhole) == flagOne|flagWhole {
		return errBlock
	}
	c, state := &r.change, k.state
	*c = Change{After: State{Node: k.node, Unit: k.unit}, Linked: flags&flagLinked != 0, SignedMs: executed}
	if flags&flagTime != 0 {
		c.SignedMs += d.varint()
	}
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
		if relevant {
			if d.failed || codes.Check(a.Components) != nil {
				return errBlock
			}
			a.Codes = slices.Clone(codes)
			same = bytes.Equal(codes, c.Before.Codes)
		}
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
		return nil
	}
	if a.Changed = executed; same && a.Definition == c.Before.Definition {
		a.Changed = c.Before.Changed
	}
	if r.visit != nil {
		r.visit(c)
	}
	switch {
	case removed:
		delete(r.states, k.key)
		k.state = nil
	case state != nil:
		*state = *a
	default:
		k.state = &State{}
		*k.state = *a
		r.states[k.key] = k.state
	}
	return nil
}

// decoder decodes the parts of an entry from the bytes of a block.
type decoder struct {
	rest   []byte
	failed bool
}

// changedCount reads how many directive components have a new status code in the entry.
func (d *decoder) changedCount(flags byte) uint64 {
	if flags&flagOne != 0 {
		return 1
	}
	return d.uvarint(wire.MaxComponents)
}

// skipDifferences skips the part of an entry with the new status codes of directive components.
func (d *decoder) skipDifferences(flags byte) {
	for range d.changedCount(flags) {
		d.uvarint(wire.MaxComponents << 3)
	}
}

// applyDifferences changes the component status codes of a state as an entry says, and counts the changes.
func (d *decoder) applyDifferences(a *State, flags byte) (changed int) {
	next := uint64(0)
	for range d.changedCount(flags) {
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

// Forms of a stored row: its first byte. The length of the blocks follows, the blocks, each behind its length, and the
// hashes. Forms 1 and 2 were used before the first release.
const (
	formPlain byte = 3 // the blocks
	formZstd  byte = 4 // compressed blocks
)

// blockContent has the encoded entries and hashes of one or more blocks. Hashes and signatures are apart from
// the other bytes of the entries, because nothing makes them smaller, and the others compress badly between
// them.
type blockContent struct {
	entries, hashes []byte
}

// size returns the number of bytes of the entries and hashes.
func (c *blockContent) size() int { return len(c.entries) + len(c.hashes) }

// addBlock adds a block to the blocks that one database row stores together.
func (c *blockContent) addBlock(block blockContent) {
	c.entries = append(binary.AppendUvarint(c.entries, uint64(len(block.entries))), block.entries...)
	c.hashes = append(c.hashes, block.hashes...)
}

// encodeRow encodes one block as a row for the database, compressed on request.
func (c *compression) encodeRow(block blockContent, compress bool) []byte {
	var row blockContent
	if row.addBlock(block); compress {
		return c.compressRow(row)
	}
	stored := binary.AppendUvarint([]byte{formPlain}, uint64(len(row.entries)))
	return append(append(stored, row.entries...), row.hashes...)
}

// compression compresses and decompresses the complete blocks and the certificates of a store.
type compression struct {
	writer, certificateWriter *zstd.Encoder
	reader                    *zstd.Decoder
}

// certificateDictionary is the certificate of some node. Stored certificates name the parts that are equal in it, so
// it never changes. Another dictionary would get another id.
//
//go:embed certificate.der
var certificateDictionary []byte

// certificateDictionaryID is the id of certificateDictionary in compressed certificates.
const certificateDictionaryID = 1

// maxBlock limits the size of a block in memory. The largest block is a checkpoint of a partition with 4,000 nodes of
// 10,000 components.
const maxBlock = 64 << 20

// newCompression returns a zstd compressor and decompressor for blocks.
func newCompression() (c compression, err error) {
	if c.writer, err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true)); err == nil {
		c.certificateWriter, err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true), zstd.WithEncoderDictRaw(certificateDictionaryID, certificateDictionary))
	}
	if err == nil {
		c.reader, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(maxBlock), zstd.WithDecoderDictRaw(certificateDictionaryID, certificateDictionary))
	}
	return c, err
}

// compressRow compresses the complete blocks of a row for the database.
func (c *compression) compressRow(row blockContent) []byte {
	compressed := c.writer.EncodeAll(row.entries, nil)
	stored := binary.AppendUvarint(append(make([]byte, 0, 1+binary.MaxVarintLen32+len(compressed)+len(row.hashes)), formZstd), uint64(len(compressed)))
	return append(append(stored, compressed...), row.hashes...)
}

// compressCertificate compresses a certificate (DER) for the database.
func (c *compression) compressCertificate(der []byte) []byte {
	return c.certificateWriter.EncodeAll(der, nil)
}

// decompressCertificate decompresses a certificate from the database and returns its DER.
func (c *compression) decompressCertificate(stored []byte) ([]byte, error) {
	return c.reader.DecodeAll(stored, nil)
}

// decompressRow decompresses a row of the database and returns its blocks.
func (c *compression) decompressRow(stored []byte) (row blockContent, err error) {
	d := decoder{rest: stored}
	form := d.byte()
	row.entries = d.bytes(int(d.uvarint(maxBlock)))
	row.hashes = d.rest
	switch {
	case d.failed || form != formPlain && form != formZstd:
		return blockContent{}, errBlock
	case form == formZstd:
		if row.entries, err = c.reader.DecodeAll(row.entries, nil); err != nil {
			return blockContent{}, fmt.Errorf("%w: %w", errBlock, err)
		}
	}
	return row, nil
}
