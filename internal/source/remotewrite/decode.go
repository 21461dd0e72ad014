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
	body     []byte
	symbols  []string // of version 2

	labels  []wire.SeriesLabel // of the present series
	samples []wire.Sample      // of the present series
	others  int                // histograms, exemplars and metadata in the request so far
	err     error
}

// Numbers of fields. docs: prometheus/prompb/remote.proto, types.proto and io/prometheus/write/v2/types.proto.
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

var errMalformed = errors.New("the body is no valid protobuf message of remote write")

// reset begins to read a body.
func (r *requestReader) reset(version2 bool, body []byte) error {
	*r = requestReader{version2: version2, body: body, symbols: r.symbols[:0], labels: r.labels[:0], samples: r.samples[:0]}
	if !version2 {
		return nil
	}
	for b := body; len(b) > 0; { // the symbols may stand behind the series
		number, content, n := field(b)
		if n < 0 {
			return errMalformed
		}
		if b = b[n:]; number == request2Symbols {
			r.symbols = append(r.symbols, text(content))
		}
	}
	return nil
}

// next reads the next series; it returns false at the end of the request or after an error (err).
func (r *requestReader) next() bool {
	for len(r.body) > 0 && r.err == nil {
		number, content, n := field(r.body)
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
			r.others++
		}
	}
	return false
}

// readSeries reads one series.
func (r *requestReader) readSeries(b []byte) {
	r.labels, r.samples = r.labels[:0], r.samples[:0]
	for len(b) > 0 && r.err == nil {
		number, content, n := field(b)
		if n < 0 {
			r.err = errMalformed
			return
		}
		b = b[n:]
		switch {
		case number == seriesLabels && r.version2:
			r.readReferences(content)
		case number == seriesLabels:
			r.readLabel(content)
		case number == seriesSamples:
			r.readSample(content)
		case number == series2Meta && r.version2:
		default:
			r.others++
		}
	}
}

// readLabel reads a label of version 1.
func (r *requestReader) readLabel(b []byte) {
	var l wire.SeriesLabel
	for len(b) > 0 {
		number, content, n := field(b)
		if n < 0 {
			r.err = errMalformed
			return
		}
		switch b = b[n:]; number {
		case labelName:
			l.Name = text(content)
		case labelValue:
			l.Value = text(content)
		}
	}
	r.labels = append(r.labels, l)
}

// readReferences reads the labels of a series in version 2, in which numbers refer to names and values in the request's
// table of symbols.
func (r *requestReader) readReferences(b []byte) {
	symbol := func() string {
		number, n := protowire.ConsumeVarint(b)
		if n < 0 || number >= uint64(len(r.symbols)) {
			r.err, b = errMalformed, nil
			return ""
		}
		b = b[n:]
		return r.symbols[number]
	}
	for len(b) > 0 {
		r.labels = append(r.labels, wire.SeriesLabel{Name: symbol(), Value: symbol()})
	}
}

// readSample reads a sample.
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
	r.samples = append(r.samples, s)
}

// field reads one protobuf field: its number, its content (nil if it has no length), and its size in bytes; a negative size
// means malformed.
func field(b []byte) (number protowire.Number, content []byte, n int) {
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

// text returns bytes as a string without a copy.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
