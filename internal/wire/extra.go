package wire

import (
	"math"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// Extra is what a result carries beside its output.
type Extra struct {
	Hooks     []model.HookResult
	Values    []model.Value
	Pipelines []string // that are to see values which are of no check
}

// AppendExtra writes x as Result.Extra holds it.
func AppendExtra(dst []byte, x *Extra) []byte {
	for i := range x.Hooks {
		h := &x.Hooks[i]
		var in int
		dst, in = begin(dst, fieldHook)
		dst = appendString(dst, 1, h.Name)
		dst = appendUint(dst, 2, uint64(h.Status))
		dst = appendUint(dst, 3, uint64(time.Duration(h.Duration).Milliseconds()))
		dst = appendString(dst, 4, h.Output)
		dst = appendUint(dst, 5, h.Cut)
		dst = end(dst, in)
	}
	for i := range x.Values {
		dst = AppendValue(dst, &x.Values[i])
	}
	for _, name := range x.Pipelines {
		dst = appendItem(dst, fieldPipeline, name)
	}
	return dst
}

// AppendValue adds one value.
func AppendValue(dst []byte, v *model.Value) []byte {
	dst, in := begin(dst, fieldValue)
	dst = appendString(dst, 1, v.Name)
	dst = appendMap(dst, 2, v.Tags)
	dst = appendFixed64(dst, 3, math.Float64bits(v.Value))
	if !v.At.IsZero() {
		dst = appendUint(dst, 4, uint64(v.At.UnixMilli()))
	}
	return end(dst, in)
}

// DecodeExtra reads Result.Extra. The returned Extra owns its memory.
func DecodeExtra(data []byte) (x Extra, err error) {
	f := fields{message: "Result", rest: data}
	for f.next() {
		switch f.num {
		case fieldHook:
			if f.room("hooks", len(x.Hooks), model.MaxHooks) {
				x.Hooks = append(x.Hooks, f.hook())
			}
		case fieldValue:
			if f.room("values", len(x.Values), model.MaxValues) {
				x.Values = append(x.Values, f.measured())
			}
		case fieldPipeline:
			if f.room("pipelines", len(x.Pipelines), model.MaxHooks) {
				x.Pipelines = append(x.Pipelines, f.string("pipelines", maxName))
			}
		}
	}
	return x, f.err
}

func (f *fields) hook() (h model.HookResult) {
	in := f.nested("hooks", "HookResult")
	for in.next() {
		switch in.num {
		case 1:
			h.Name = in.string("name", maxName)
		case 2:
			h.Status = model.Status(in.uint("status", uint64(model.Unknown)))
		case 3:
			h.Duration = model.Duration(time.Duration(in.uint32("duration_ms")) * time.Millisecond)
		case 4:
			h.Output = in.string("output", model.MaxHookOutput)
		case 5:
			h.Cut = in.uint64("cut")
		}
	}
	f.done(&in)
	return h
}

func (f *fields) measured() (v model.Value) {
	in := f.nested("values", "Value")
	for in.next() {
		switch in.num {
		case 1:
			v.Name = in.string("name", maxName)
		case 2:
			in.entry("tags", &v.Tags, model.MaxValueTags)
		case 3:
			v.Value = math.Float64frombits(in.fixed64("value"))
			if math.IsNaN(v.Value) || math.IsInf(v.Value, 0) {
				in.fail("value", "not a number")
			}
		case 4:
			if ms := in.uint("at_unix_ms", 1<<48); ms != 0 {
				v.At = time.UnixMilli(int64(ms)).UTC()
			}
		}
	}
	f.done(&in)
	return v
}

// extras is how many bytes at the beginning of data are fields of an Extra; negative:
// other ones stand among them.
func extras(data []byte) int {
	i := 0
	for i < len(data) && (data[i] == tagHook || data[i] == tagValue || data[i] == tagPipeline) {
		size, n := uvarint(data, i+1)
		if n < 0 || size > uint64(len(data)-n) {
			return -1
		}
		i = n + int(size)
	}
	return i
}
