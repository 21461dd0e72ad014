package textlog

import (
	"encoding/binary"
	"slices"

	"github.com/muster-fleet/muster/internal/model"
)

// A filter is a Bloom filter of the words and streams of a block. A word is a run of letters, digits and underscores, with ASCII
// letters in lower case. Each byte of a character beyond ASCII counts as a letter, so a filter knows no alphabet.

// Of a filter; 10 bits and 6 probes let 1 % of the absent words pass.
const (
	bitsPerHash = 10
	probes      = 6
)

// wordClass maps each byte to lower case if words may contain the byte, otherwise to zero.
type wordClass [256]byte

// newWordClass returns a table of lower-case bytes, with zero for each byte that separates words. They are
// ASCII letters, digits, underscores, and all bytes beyond ASCII.
func newWordClass() *wordClass {
	t := &wordClass{}
	for c := range t {
		switch b := byte(c); {
		case b >= 'A' && b <= 'Z':
			t[c] = b + 'a' - 'A'
		case b >= 'a' && b <= 'z', b >= '0' && b <= '9', b == '_', b >= 0x80:
			t[c] = b
		}
	}
	return t
}

// FNV-1a.
const (
	hashSeed  = 14695981039346656037
	hashPrime = 1099511628211
)

// mixHash makes each bit of an FNV hash depend on all others, for use in a Bloom filter.
func mixHash(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	return h
}

// appendWordHashes appends the hash of each word of a text to dst.
func (t *wordClass) appendWordHashes(dst []uint64, text []byte) []uint64 {
	h := uint64(hashSeed)
	for _, c := range text {
		if c = t[c]; c != 0 {
			h = (h ^ uint64(c)) * hashPrime
		} else if h != hashSeed {
			dst = append(dst, mixHash(h))
			h = hashSeed
		}
	}
	if h != hashSeed {
		dst = append(dst, mixHash(h))
	}
	return dst
}

// streamHash returns the hash that stands for one item of a node in a block's Bloom filter. It begins with
// another seed than the hash of a word.
func streamHash(node model.NodeID, key string) uint64 {
	h := uint64(hashSeed ^ 1)
	for _, b := range binary.LittleEndian.AppendUint32(nil, uint32(node)) {
		h = (h ^ uint64(b)) * hashPrime
	}
	for i := range len(key) {
		h = (h ^ uint64(key[i])) * hashPrime
	}
	return mixHash(h)
}

// nodeHash returns the hash that stands for a node, with all its items, in a block's Bloom filter.
func nodeHash(node model.NodeID) uint64 { return streamHash(node, "") }

// buildFilter builds the Bloom filter of a block from the words, items and nodes in its rows. It uses the memory of
// hashes.
func (t *wordClass) buildFilter(e *rowEncoder, hashes *[]uint64) []byte {
	list := (*hashes)[:0]
	d := rowDecoder{heads: e.heads, texts: e.texts}
	for d.next() {
		list = t.appendWordHashes(list, d.texts[d.offset:d.offset+len(d.row.Text)])
	}
	for _, of := range d.streams {
		list = append(list, streamHash(of.node, of.key), nodeHash(of.node))
	}
	slices.Sort(list)
	*hashes = list
	list = slices.Compact(list)
	filter := make([]byte, (len(list)*bitsPerHash+7)/8)
	bits := uint64(len(filter)) * 8
	for _, h := range list {
		for i := range uint64(probes) {
			bit := bitPosition(h, i, bits)
			filter[bit/8] |= 1 << (bit % 8)
		}
	}
	return filter
}

// bitPosition returns the position of the i-th bit of a hash in a Bloom filter. The filter has bits bits.
func bitPosition(h, i, bits uint64) uint64 { return (h + i*(h>>32|1)) % bits }

// mayContain reports whether a Bloom filter contains all given hashes, with rare false positives. It may return
// true by mistake (a false positive), but never false by mistake.
func mayContain(filter []byte, hashes []uint64) bool {
	bits := uint64(len(filter)) * 8
	if bits == 0 {
		return len(hashes) == 0
	}
	for _, h := range hashes {
		for i := range uint64(probes) {
			if bit := bitPosition(h, i, bits); filter[bit/8]&(1<<(bit%8)) == 0 {
				return false
			}
		}
	}
	return true
}
