package wire

import (
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
		dst = appendMessage(dst, fieldHook, &x.Hooks[i], appendHookResult)
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
	return appendMessage(dst, fieldValue, v, appendValue)
}

// DecodeExtra reads Result.Extra. The returned Extra owns its memory.
func DecodeExtra(data []byte) (x Extra, err error) {
	f := fields{message: "Result", rest: data}
	for f.next() {
		switch f.num {
		case fieldHook:
			if f.room("hooks", len(x.Hooks), model.MaxHooks) {
				x.Hooks = append(x.Hooks, nested(&f, "hooks", "HookResult", (*fields).readHookResult))
			}
		case fieldValue:
			if f.room("values", len(x.Values), model.MaxValues) {
				x.Values = append(x.Values, nested(&f, "values", "Value", (*fields).readValue))
			}
		case fieldPipeline:
			if f.room("pipelines", len(x.Pipelines), model.MaxHooks) {
				x.Pipelines = append(x.Pipelines, f.string("pipelines", maxName))
			}
		}
	}
	return x, f.err
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
