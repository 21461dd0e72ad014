package sensuwire

import (
	"math"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
)

// Hook is a hook of a check_request: what the agent runs after a result.
type Hook struct {
	Name    string   // as that of a check
	When    []string // ok, warning, critical, unknown, non-zero, or an exit code
	Command string   // a shell line, with tokens: see Literal
	Timeout uint32   // s, at least 1: agents refuse a hook without
	Stdin   bool     // it finds the event, as JSON
}

// HookResult is what a hook brought.
type HookResult struct {
	Name     string
	Status   int32
	Output   string
	Duration float64 // s
}

// appendWhen appends to a CheckConfig when a hook runs: a HookList for each case.
func (h *Hook) appendWhen(b []byte) []byte {
	for _, when := range h.When {
		b = appendMessage(b, 14, func(b []byte) []byte { return appendText(appendText(b, 1, h.Name), 2, when) })
	}
	return b
}

// appendConfig is a HookConfig.
func (h *Hook) appendConfig(b []byte, namespace string) []byte {
	b = appendMessage(b, 1, func(b []byte) []byte { return appendText(appendText(b, 1, h.Name), 2, namespace) })
	b = appendInt(appendText(b, 2, h.Command), 3, int64(h.Timeout))
	if h.Stdin {
		b = appendInt(b, 4, 1)
	}
	return b
}

// appendProto is a Hook of an event.
func (h *HookResult) appendProto(b []byte) []byte {
	b = appendMessage(b, 1, func(b []byte) []byte {
		return appendMessage(b, 1, func(b []byte) []byte { return appendText(b, 1, h.Name) })
	})
	b = protowire.AppendFixed64(protowire.AppendTag(b, 2, protowire.Fixed64Type), math.Float64bits(h.Duration))
	return appendInt(appendText(b, 5, h.Output), 6, int64(h.Status))
}

// ReadHooks implements Codec.
func (Protobuf) ReadHooks(s *Said, most int) (list []HookResult, err error) {
	for _, hook := range s.hooks[:min(len(s.hooks), most)] {
		var h HookResult
		for rest := hook; len(rest) > 0; {
			f, number, content, after, ok := next(rest)
			rest = after
			switch f {
			case 1<<3 | ofBytes:
				ok = h.readConfig(content)
			case 2<<3 | ofFixed64:
				h.Duration = math.Float64frombits(number)
			case 5<<3 | ofBytes:
				h.Output = string(content)
			case 6<<3 | ofVarint:
				h.Status = int32(number)
			}
			if !ok {
				return nil, unreadable("a hook")
			}
		}
		list = append(list, h)
	}
	return list, nil
}

// readConfig reads the name in the metadata of a HookConfig, its field 1.
func (h *HookResult) readConfig(message []byte) bool {
	for rest := message; len(rest) > 0; {
		f, _, content, after, ok := next(rest)
		if !ok {
			return false
		}
		rest = after
		var name, namespace []byte
		if f == 1<<3|ofBytes {
			if !readMeta(content, &name, &namespace) {
				return false
			}
			h.Name = string(name)
		}
	}
	return true
}

type jsonWhen struct {
	Hooks []string `json:"hooks"`
	Type  string   `json:"type"`
}

type jsonHook struct {
	Metadata jsonMeta `json:"metadata"`
	Command  string   `json:"command"`
	Timeout  uint32   `json:"timeout"`
	Stdin    bool     `json:"stdin"`
}

func hooksJSON(a *Ask) (when []jsonWhen, hooks []jsonHook) {
	for i := range a.Hooks {
		h := &a.Hooks[i]
		for _, w := range h.When {
			when = append(when, jsonWhen{[]string{h.Name}, w})
		}
		hooks = append(hooks, jsonHook{jsonMeta{Name: h.Name, Namespace: a.Namespace}, h.Command, h.Timeout, h.Stdin})
	}
	return when, hooks
}

func hookedJSON(hooks []HookResult) (list []any) {
	for i := range hooks {
		h := &hooks[i]
		list = append(list, map[string]any{"metadata": jsonMeta{Name: h.Name}, "duration": h.Duration, "output": h.Output, "status": h.Status})
	}
	return list
}

// ReadHooks implements Codec.
func (JSON) ReadHooks(s *Said, most int) (list []HookResult, err error) {
	for _, hooks := range s.hooks {
		ok := elements(hooks, func(value []byte) bool {
			if len(list) == most {
				return true
			}
			var h HookResult
			ok := h.readJSON(value)
			list = append(list, h)
			return ok
		})
		if !ok {
			return nil, notJSON("the hooks of a check")
		}
	}
	return list, nil
}

func (h *HookResult) readJSON(object []byte) bool {
	return members(object, func(key, value []byte) bool {
		switch string(key) {
		case "metadata":
			return members(value, func(key, value []byte) bool {
				if string(key) == "name" {
					h.Name = stringOf(value)
				}
				return true
			})
		case "duration":
			h.Duration, _ = strconv.ParseFloat(string(value), 64)
		case "output":
			h.Output = stringOf(value)
		case "status":
			h.Status = int32(integer(value))
		}
		return true
	})
}
