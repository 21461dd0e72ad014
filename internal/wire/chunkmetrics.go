package wire

import (
	"encoding/binary"
	"math"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

func appendHook(dst []byte, field uint32, h *model.Hook) []byte {
	dst, in := begin(dst, field)
	dst = appendString(dst, 1, h.Name)
	for _, when := range h.When {
		dst = appendItem(dst, 2, when)
	}
	dst = appendCommand(dst, 3, h.Command)
	dst = appendUint(dst, 4, uint64(h.Timeout))
	dst = appendBool(dst, 5, h.Stdin)
	return end(dst, in)
}

func (f *fields) definedHook() (h model.Hook) {
	in := f.nested("hooks", "Hook")
	for in.next() {
		switch in.num {
		case 1:
			h.Name = in.string("name", maxName)
		case 2:
			if in.room("when", len(h.When), maxArgs) {
				h.When = append(h.When, in.string("when", maxName))
			}
		case 3:
			h.Command = in.command()
		case 4:
			h.Timeout = model.Duration(in.duration("timeout_ns"))
		case 5:
			h.Stdin = in.bool("stdin")
		}
	}
	f.done(&in)
	return h
}

func (f *fields) metrics() *model.Metrics {
	m := &model.Metrics{}
	in := f.nested("metrics", "Metrics")
	for in.next() {
		switch in.num {
		case 1:
			m.Format = in.string("format", maxName)
		case 2:
			in.entry("tags", &m.Tags, maxPairs)
		}
	}
	f.done(&in)
	return m
}

func appendThreshold(dst []byte, field uint32, t *model.Threshold) []byte {
	dst, in := begin(dst, field)
	dst = appendString(dst, 1, t.Metric)
	dst = appendMap(dst, 2, t.Tags)
	for i, b := range []*model.Bounds{t.Warning, t.Critical, t.Unknown} {
		if b == nil {
			continue
		}
		var at int
		dst, at = begin(dst, uint32(3+i))
		dst = appendDouble(dst, 1, b.Min)
		dst = appendDouble(dst, 2, b.Max)
		dst = end(dst, at)
	}
	if s, ok := model.ParseStatus(t.Missing); ok {
		dst = appendUint(dst, 6, uint64(s))
	}
	return end(dst, in)
}

// appendDouble writes an optional number: also zero, if it is there.
func appendDouble(dst []byte, field uint32, v *float64) []byte {
	if v == nil {
		return dst
	}
	return binary.LittleEndian.AppendUint64(appendTag(dst, field, typeFixed64), math.Float64bits(*v))
}

func (f *fields) threshold() (t model.Threshold) {
	in := f.nested("thresholds", "Threshold")
	for in.next() {
		switch in.num {
		case 1:
			t.Metric = in.string("metric", maxName)
		case 2:
			in.entry("tags", &t.Tags, maxPairs)
		case 3:
			t.Warning = in.bounds()
		case 4:
			t.Critical = in.bounds()
		case 5:
			t.Unknown = in.bounds()
		case 6:
			if t.Missing = ""; in.uint("missing", uint64(model.Unknown)) != 0 {
				t.Missing = strings.ToLower(model.Status(in.value).String())
			}
		}
	}
	f.done(&in)
	return t
}

func (f *fields) bounds() *model.Bounds {
	b := &model.Bounds{}
	in := f.nested("bounds", "Bounds")
	for in.next() {
		switch in.num {
		case 1:
			b.Min = in.double("min")
		case 2:
			b.Max = in.double("max")
		}
	}
	f.done(&in)
	return b
}

func (f *fields) double(name string) *float64 {
	v := math.Float64frombits(f.fixed64(name))
	if math.IsNaN(v) {
		f.fail(name, "not a number")
	}
	return &v
}
