package wire

import (
	"encoding/binary"
	"fmt"
	"math"
	"unsafe"
)

// SeriesLabel is a label of a Prometheus series.
type SeriesLabel struct{ Name, Value string }

// Sample is a value of a Prometheus series with its time in Unix milliseconds.
type Sample struct {
	Ms    int64
	Value float64
}

// SampleBlock encodes the values of Prometheus series for one journal record. docs/protocol/samples.md has the format.
// The zero value is empty.
type SampleBlock struct {
	texts  []byte
	number map[string]uint64 // of each text, from 0
	last   []numberedText    // names and values of the series that was added last, in turn
	series []byte
}

// numberedText is a label text with its number in the table of texts of a sample block.
type numberedText struct {
	text   string
	number uint64
}

// samplesVersion is the first byte of an encoded block of samples.
const samplesVersion = 1

// Add adds the labels and values of one Prometheus series to the block. The texts of the labels must not change until
// Append returns.
func (b *SampleBlock) Add(labels []SeriesLabel, samples []Sample) {
	b.series = binary.AppendUvarint(b.series, uint64(len(labels)))
	for i := range labels {
		b.series = binary.AppendUvarint(b.series, b.stringIndex(2*i, labels[i].Name))
		b.series = binary.AppendUvarint(b.series, b.stringIndex(2*i+1, labels[i].Value))
	}
	b.series = binary.AppendUvarint(b.series, uint64(len(samples)))
	last := int64(0)
	for _, s := range samples {
		b.series = binary.AppendVarint(b.series, s.Ms-last)
		b.series = binary.LittleEndian.AppendUint64(b.series, math.Float64bits(s.Value))
		last = s.Ms
	}
}

// stringIndex returns the index of a label name or value in the block's table of texts. It adds a missing
// string to the table. Series that follow each other usually have the same string at the same place.
func (b *SampleBlock) stringIndex(place int, text string) uint64 {
	if place == len(b.last) {
		b.last = append(b.last, numberedText{})
	} else if last := &b.last[place]; last.text == text {
		return last.number
	}
	n, ok := b.number[text]
	if !ok {
		if b.number == nil {
			b.number = map[string]uint64{}
		}
		n = uint64(len(b.number))
		b.number[text] = n
		b.texts = append(binary.AppendUvarint(b.texts, uint64(len(text))), text...)
	}
	b.last[place] = numberedText{text, n}
	return n
}

// Reset empties the block of samples for new series, and keeps its memory.
func (b *SampleBlock) Reset() {
	clear(b.number)
	clear(b.last[:cap(b.last)])
	*b = SampleBlock{texts: b.texts[:0], number: b.number, last: b.last[:0], series: b.series[:0]}
}

// Size returns the number of bytes of the block.
func (b *SampleBlock) Size() int { return len(b.texts) + len(b.series) + 1 + binary.MaxVarintLen64 }

// Append appends the encoded block of samples to a buffer.
func (b *SampleBlock) Append(dst []byte) []byte {
	dst = binary.AppendUvarint(append(dst, samplesVersion), uint64(len(b.number)))
	return append(append(dst, b.texts...), b.series...)
}

// SampleReader decodes a block of Prometheus samples, series by series. Its texts are parts of the block.
type SampleReader struct {
	Labels  []SeriesLabel // of the present series
	Samples []Sample      // of the present series

	texts []string
	data  []byte
	at    int
	err   error
}

// Reset makes the reader start on another block of samples.
func (r *SampleReader) Reset(block []byte) error {
	r.texts, r.data, r.at, r.err = r.texts[:0], block, 1, nil
	if len(block) == 0 || block[0] != samplesVersion {
		return r.fail("version")
	}
	for range r.count(1) {
		n := r.uvarint()
		if n > uint64(len(r.data)-r.at) {
			return r.fail("text")
		}
		text := r.data[r.at : r.at+int(n)]
		r.texts = append(r.texts, unsafe.String(unsafe.SliceData(text), len(text)))
		r.at += int(n)
	}
	return r.err
}

// Next reads the labels and samples of the next series. It returns false at the end of the block, or if the block is
// malformed. See Err.
func (r *SampleReader) Next() bool {
	r.Labels, r.Samples = r.Labels[:0], r.Samples[:0]
	if r.err != nil || r.at == len(r.data) {
		return false
	}
	for range r.count(2) {
		r.Labels = append(r.Labels, SeriesLabel{r.labelString(), r.labelString()})
	}
	last := int64(0)
	for range r.count(9) {
		delta := r.uvarint()
		last += int64(delta>>1) ^ -int64(delta&1)
		if len(r.data)-r.at < 8 {
			return r.fail("value") == nil
		}
		r.Samples = append(r.Samples, Sample{last, math.Float64frombits(binary.LittleEndian.Uint64(r.data[r.at:]))})
		r.at += 8
	}
	return r.err == nil
}

// Validate returns the reason why a block is malformed, or nil.
func (r *SampleReader) Validate(block []byte) error {
	if err := r.Reset(block); err != nil {
		return err
	}
	for r.Next() {
	}
	return r.err
}

// Err returns the reason why the block is malformed.
func (r *SampleReader) Err() error { return r.err }

// labelString reads a label name or value, which the block stores as an index into its text table.
func (r *SampleReader) labelString() string {
	n := r.uvarint()
	if n >= uint64(len(r.texts)) {
		_ = r.fail("text number")
		return ""
	}
	return r.texts[n]
}

// count reads the length of a list, and checks the length against the remaining bytes. It fails if the rest of the
// block is too short for that many elements of at least `bytes` bytes.
func (r *SampleReader) count(bytes int) int {
	n := r.uvarint()
	if r.err == nil && n > uint64((len(r.data)-r.at)/bytes) {
		_ = r.fail("count")
	}
	if r.err != nil {
		return 0
	}
	return int(n)
}

// uvarint reads an unsigned varint, and returns zero after an error.
func (r *SampleReader) uvarint() uint64 {
	if r.err != nil {
		return 0
	}
	v, at := uvarint(r.data, r.at)
	if at < 0 {
		_ = r.fail("number")
		return 0
	}
	r.at = at
	return v
}

// fail keeps and returns the first reason why the block is malformed.
func (r *SampleReader) fail(element string) error {
	if r.err == nil {
		r.err = fmt.Errorf("decode samples: %w: %s", ErrMalformed, element)
	}
	return r.err
}
