package sensuwire

import (
	"maps"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/muster-fleet/muster/internal/model"
)

// nameOf is the name in an ObjectMeta.
func nameOf(meta []byte) (name string, err error) {
	err = each(meta, func(number protowire.Number, kind protowire.Type, _, content []byte) error {
		if number == 1 && kind == protowire.BytesType {
			name = string(content)
		}
		return nil
	})
	return name, err
}

func (Protobuf) ParseRequest(body []byte) (r Request, err error) {
	err = each(body, func(number protowire.Number, kind protowire.Type, value, content []byte) error {
		switch {
		case number == 1 && kind == protowire.BytesType:
			r.Check = content
			return r.parseCheck(content)
		case number == 4 && kind == protowire.VarintType:
			r.Issued = int64(varint(value))
		case number == 6 && kind == protowire.BytesType:
			r.Secrets = append(r.Secrets, string(content))
		}
		return nil
	})
	if err == nil && r.Name == "" {
		err = model.Errorf(model.Invalid, "a check_request without the name of a check")
	}
	return r, err
}

func (r *Request) parseCheck(check []byte) error {
	return each(check, func(number protowire.Number, kind protowire.Type, value, content []byte) (err error) {
		switch {
		case number == 5 && kind == protowire.VarintType:
			r.Interval = uint32(varint(value))
		case number == 13 && kind == protowire.BytesType:
			r.Proxy = string(content)
		case number == 26 && kind == protowire.BytesType:
			r.Name, err = nameOf(content)
		}
		return err
	})
}

func (Protobuf) ParseConfig(body []byte) (c Config, err error) {
	err = each(body, func(number protowire.Number, kind protowire.Type, _, content []byte) (err error) {
		switch {
		case number == 1 && kind == protowire.BytesType:
			c.Name, err = nameOf(content)
		case number == 4 && kind == protowire.BytesType:
			c.Subscriptions = append(c.Subscriptions, string(content))
		}
		return err
	})
	return c, err
}

// moved says what a field of CheckConfig is numbered in Check: up to 21 the same, and none
// has the number zero.
func moved(number protowire.Number) protowire.Number {
	switch {
	case number <= 21:
		return number
	case number <= 24: // output_metric_format, output_metric_handlers, env_vars
		return number + 13
	case number >= 26 && number <= 29: // metadata, max_output_size, discard_output, secrets
		return number + 12
	case number == 30 || number == 31: // output_metric_tags, scheduler
		return number + 13
	case number >= 32 && number <= 34: // pipelines, output_metric_thresholds, subdues
		return number + 14
	}
	return 0
}

func (Protobuf) AppendEvent(dst []byte, e *Event) []byte {
	dst = appendInt(dst, 1, e.Timestamp)
	dst = appendMessage(dst, 2, func(b []byte) []byte { return e.Entity.appendProto(b, e.Timestamp) })
	if !e.MetricsOnly {
		dst = appendMessage(dst, 3, e.appendCheck)
	}
	if e.Points != nil {
		dst = appendMessage(dst, 4, e.appendPoints)
	}
	dst = appendMessage(dst, 5, func(b []byte) []byte { return appendText(b, 2, e.Entity.Namespace) })
	dst = protowire.AppendBytes(protowire.AppendTag(dst, 6, protowire.BytesType), e.ID[:])
	dst = appendInt(dst, 7, e.Sequence)
	for _, name := range e.Pipelines {
		dst = appendMessage(dst, 8, func(b []byte) []byte {
			return appendText(appendText(appendText(b, 1, name), 2, "Pipeline"), 3, "core/v2")
		})
	}
	return dst
}

func (e *Event) appendCheck(b []byte) []byte {
	if e.Check == nil {
		b = appendInt(b, 5, int64(e.Interval))
		b = appendInt(b, 18, int64(e.Critical))
		b = appendInt(b, 19, int64(e.Warning))
		return appendMessage(b, 38, func(b []byte) []byte { return appendText(appendText(b, 1, keepalive), 2, e.Entity.Namespace) })
	}
	_ = each(e.Check, func(number protowire.Number, kind protowire.Type, value, _ []byte) error { // read once before: no error
		if to := moved(number); to > 0 {
			b = append(protowire.AppendTag(b, to, kind), value...)
		}
		return nil
	})
	b = protowire.AppendFixed64(protowire.AppendTag(b, 22, protowire.Fixed64Type), math.Float64bits(e.Duration))
	b = appendInt(b, 23, e.Executed)
	b = appendInt(b, 25, e.Issued)
	b = appendText(b, 26, e.Output)
	b = appendInt(b, 28, int64(e.Status))
	for i := range e.Hooks {
		b = appendMessage(b, 34, e.Hooks[i].appendProto)
	}
	return appendText(b, 45, e.Entity.Name)
}

func (x *Entity) appendProto(b []byte, seen int64) []byte {
	b = appendText(b, 1, entityClass)
	b = appendMessage(b, 3, func(b []byte) []byte {
		for number, text := range []string{1: x.Name, 2: "linux", 3: "debian", 4: "debian", 5: "12.5"} {
			b = appendText(b, protowire.Number(number), text)
		}
		b = appendMessage(b, 6, func(b []byte) []byte {
			return appendMessage(b, 1, func(b []byte) []byte {
				return appendText(appendText(appendText(b, 1, "eth0"), 2, "02:42:ac:11:00:02"), 3, "172.17.0.2/16")
			})
		})
		return appendText(appendText(b, 7, "amd64"), 13, "hardfloat")
	})
	for _, s := range x.Subscriptions {
		b = appendText(b, 4, s)
	}
	b = appendInt(b, 5, seen)
	if x.Deregister {
		b = appendInt(b, 6, 1)
	}
	b = appendMessage(b, 7, func(b []byte) []byte { return appendText(b, 1, x.Deregistration) })
	b = appendText(b, 11, x.User)
	for _, s := range redacted() {
		b = appendText(b, 13, s)
	}
	b = appendMessage(b, 14, func(b []byte) []byte {
		b = appendText(appendText(b, 1, x.Name), 2, x.Namespace)
		for _, k := range slices.Sorted(maps.Keys(x.Labels)) {
			b = appendMessage(b, 3, func(b []byte) []byte { return appendText(appendText(b, 1, k), 2, x.Labels[k]) })
		}
		return b
	})
	b = appendText(b, 15, AgentVersion)
	for _, name := range x.KeepaliveHandlers {
		b = appendText(b, 16, name)
	}
	return b
}

func appendInt(b []byte, number protowire.Number, v int64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, number, protowire.VarintType), uint64(v))
}

func appendText(b []byte, number protowire.Number, text string) []byte {
	if text == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, number, protowire.BytesType), text)
}

func appendMessage(b []byte, number protowire.Number, f func([]byte) []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), f(nil))
}
