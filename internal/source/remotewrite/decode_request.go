package remotewrite

import (
	"errors"
	"math"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/muster-fleet/muster/internal/wire"
)

// requestReader reads the series of a remote-write request of version 1 or 2. Texts are parts of the body.
type requestReader struct {
	version2 bool
	maxParts int // bound of the symbols, and of the samples and labels of a series
	body     []byte
	symbols  []string // of version 2

	encoded []byte        // labels of the present series: fields of version 1, or numbers of symbols
	copied  bool          // encoded is a copy, not a part of the body
	samples []wire.Sample // of the present series
	ignored int           // histograms, exemplars and metadata in the request so far
	err     error

	labels []wire.SeriesLabel // memory of decodeLabels
	key    []byte             // memory of labelKey
}

// Numbers of protobuf fields. docs: prometheus/prompb/remote.proto, types.proto and
// io/prometheus/write/v2/types.proto.
const (
	request1Series   = 1
	request1Metadata = 3
	request2Symbols  = 4
	request2Series   = 5

	seriesLabels  = 1 // version 1: messages; version 2: packed numbers of symbols
	seriesSamples = 2
	series2Meta   = 5
	labelName     = 1
	labelValue    = 2
	sampleValue   = 1
	sampleUnixMs  = 2
)

// Tags of protobuf fields with bytes, made of the number and the type of the field.
const (
	tagSeriesLabel = seriesLabels<<3 | byte(protowire.BytesType)
	tagLabelName   = labelName<<3 | byte(protowire.BytesType)
	tagLabelValue  = labelValue<<3 | byte(protowire.BytesType)
)

// errTooManyParts is the error of a body with too many symbols, samples or labels. A few bytes may stand for each.
var errTooManyParts = errors.New("the body has too many symbols, or samples or labels of a series")

var errMalformed = errors.New("the body is no valid protobuf message of remote write")

// minPartBytes is the least average length of a symbol, a sample or a label. Real bodies have more.
const minPartBytes = 8

// reset makes the reader start on the body of a new request. In version 2 it first reads the body's table of symbols.
func (r *requestReader) reset(version2 bool, body []byte) error {
	*r = requestReader{version2: version2, maxParts: 1000 + len(body)/minPartBytes, body: body, symbols: r.symbols[:0], samples: r.samples[:0], labels: r.labels[:0], key: r.key[:0]}
	if !version2 {
		return nil
	}
	for b := body; len(b) > 0; { // the symbols may stand behind the series
		number, content, n := readField(b)
		if n < 0 {
			return errMalformed
		}
		if b = b[n:]; number == request2Symbols {
			if len(r.symbols) == r.maxParts {
				return errTooManyParts
			}
			r.symbols = append(r.symbols, bytesAsString(content))
		}
	}
	return nil
}

// next reads the next series of the request. It returns false at the end or after an error (err).
func (r *requestReader) next() bool {
	for len(r.body) > 0 && r.err == nil {
		number, content, n := readField(r.body)
		if n < 0 {
			r.err = errMalformed
			return false
		}
		r.body = r.body[n:]
		switch {
		case !r.version2 && number == request1Series, r.version2 && number == request2Series:
			r.readSeries(content)
			return r.err == nil
		case !r.version2 && number == request1Metadata:
			r.ignored++
		}
	}
	return false
}

// readSeries decodes the samples of one series, and keeps the labels of the series in encoded form.
func (r *requestReader) readSeries(b []byte) {
	r.encoded, r.copied, r.samples = nil, false, r.samples[:0]
	for len(b) > 0 && r.err == nil {
		number, content, n := readField(b)
		if n < 0 {
			r.err = errMalformed
			return
		}
		switch {
		case number == seriesLabels && r.version2:
			r.addEncoded(content)
		case number == seriesLabels:
			r.addEncoded(b[:n])
		case number == seriesSamples:
			r.readSample(content)
		case number == series2Meta && r.version2:
		default:
			r.ignored++
		}
		b = b[n:]
	}
}

// addEncoded appends encoded labels from the request body to the encoded labels of the series being read.
// Adjacent parts of the body are not copied. Each series has its own copy, because blocks keep its texts.
func (r *requestReader) addEncoded(part []byte) {
	n := len(r.encoded)
	switch {
	case n == 0:
		r.encoded = part
	case !r.copied && n < cap(r.encoded) && len(part) > 0 && &r.encoded[:n+1][n] == &part[0]:
		r.encoded = r.encoded[:n+len(part)]
	default:
		if !r.copied {
			r.encoded, r.copied = r.encoded[:n:n], true
		}
		r.encoded = append(r.encoded, part...)
	}
}

// decodeLabels decodes the labels of the series being read. They are valid until the next call.
func (r *requestReader) decodeLabels() []wire.SeriesLabel {
	if r.labels = r.labels[:0]; r.version2 {
		for b := r.encoded; len(b) > 0; {
			if len(r.labels) == r.maxParts {
				r.err = errTooManyParts
				return nil
			}
			r.labels = append(r.labels, wire.SeriesLabel{Name: r.symbol(&b), Value: r.symbol(&b)})
		}
		return r.labels
	}
	if r.labels, r.err = appendLabels(r.labels, r.encoded, r.maxParts); r.err != nil {
		return nil
	}
	return r.labels
}

// appendLabels decodes the labels of a version 1 series and appends the labels to a list. It fails for malformed
// labels, and for more than most.
func appendLabels(list []wire.SeriesLabel, fields []byte, most int) ([]wire.SeriesLabel, error) {
	for len(fields) > 0 {
		_, label, n := readField(fields)
		if n < 0 {
			return list, errMalformed
		}
		if len(list) == most {
			return list, errTooManyParts
		}
		fields = fields[n:]
		var l wire.SeriesLabel
		for len(label) > 0 {
			number, content, n := readField(label)
			if n < 0 {
				return list, errMalformed
			}
			switch label = label[n:]; number {
			case labelName:
				l.Name = bytesAsString(content)
			case labelValue:
				l.Value = bytesAsString(content)
			}
		}
		list = append(list, l)
	}
	return list, nil
}

// symbol reads an index from encoded labels, and returns the text with that index in the symbol table.
func (r *requestReader) symbol(b *[]byte) string {
	number, n := protowire.ConsumeVarint(*b)
	if n < 0 || number >= uint64(len(r.symbols)) {
		r.err, *b = errMalformed, nil
		return ""
	}
	*b = (*b)[n:]
	return r.symbols[number]
}

// maxKey limits the key of a series, in bytes. A short number in a request may stand for a long symbol.
const maxKey = 4096

// labelKey returns the encoded labels of the series being read, which are its key in the series cache. ok is
// false if they are too long or malformed. The key is valid until the next call.
func (r *requestReader) labelKey() (key []byte, ok bool) {
	if !r.version2 {
		return r.encoded, len(r.encoded) <= maxKey
	}
	key = r.key[:0]
	for b := r.encoded; len(b) > 0 && len(key) <= maxKey; {
		var texts [2]string
		for i := range texts {
			number, n := protowire.ConsumeVarint(b)
			if n < 0 || number >= uint64(len(r.symbols)) || len(r.symbols[number]) > maxKey {
				return nil, false
			}
			texts[i], b = r.symbols[number], b[n:]
		}
		key = protowire.AppendVarint(append(key, tagSeriesLabel), uint64(2+protowire.SizeBytes(len(texts[0]))+protowire.SizeBytes(len(texts[1]))))
		key = protowire.AppendString(append(key, tagLabelName), texts[0])
		key = protowire.AppendString(append(key, tagLabelValue), texts[1])
	}
	r.key = key
	return key, len(key) <= maxKey
}

// readSample reads one sample of the series being read.
func (r *requestReader) readSample(b []byte) {
	var s wire.Sample
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			r.err = errMalformed
			return
		}
		b = b[n:]
		switch {
		case number == sampleValue && kind == protowire.Fixed64Type:
			var bits uint64
			bits, n = protowire.ConsumeFixed64(b)
			s.Value = math.Float64frombits(bits)
		case number == sampleUnixMs && kind == protowire.VarintType:
			var at uint64
			at, n = protowire.ConsumeVarint(b)
			s.Ms = int64(at)
		default:
			n = protowire.ConsumeFieldValue(number, kind, b)
		}
		if n < 0 {
			r.err = errMalformed
			return
		}
		b = b[n:]
	}
	if len(r.samples) == r.maxParts {
		r.err = errTooManyParts
		return
	}
	r.samples = append(r.samples, s)
}

// readField reads one protobuf field, and returns its number, content and size in bytes. The content is nil for a
// number. A negative size means that the field is malformed.
func readField(b []byte) (number protowire.Number, content []byte, n int) {
	number, kind, tag := protowire.ConsumeTag(b)
	if tag < 0 {
		return 0, nil, tag
	}
	if kind == protowire.BytesType {
		content, n = protowire.ConsumeBytes(b[tag:])
	} else {
		n = protowire.ConsumeFieldValue(number, kind, b[tag:])
	}
	if n < 0 {
		return 0, nil, n
	}
	return number, content, tag + n
}

// bytesAsString converts bytes to a string without a copy. The bytes must not change afterwards.
func bytesAsString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
