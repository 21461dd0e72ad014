package wire

import (
	"github.com/muster-fleet/muster/internal/model"
)

// Extra has the parts of a result besides its output.
type Extra struct {
	Hooks     []model.HookResult
	Values    []model.Value
	Pipelines []string // that get values of no check
}

// AppendExtra writes x as Result.Extra holds it.
func AppendExtra(dst []byte, x *Extra) []byte {
	dst = appendMessages(dst, fieldHook, x.Hooks, appendHookResult)
	dst = appendMessages(dst, fieldValue, x.Values, appendValue)
	return appendStrings(dst, fieldPipeline, x.Pipelines)
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
			x.Hooks = nestedList(&f, "hooks", "HookResult", x.Hooks, model.MaxHooks, readHookResult)
		case fieldValue:
			x.Values = nestedList(&f, "values", "Value", x.Values, model.MaxValues, readValue)
		case fieldPipeline:
			x.Pipelines = f.stringList("pipelines", x.Pipelines, model.MaxHooks, maxName)
		}
	}
	return x, f.err
}

// extras returns the bytes at the start of data that are fields of an Extra; negative: malformed.
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
