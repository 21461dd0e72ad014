package sensu

import (
	"maps"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/muster-fleet/muster/internal/model"
)

// protobuf is the encoding that agents and backends agree on by default. The numbers are
// those of sensu-go's api/core/v2: event.proto, entity.proto, check.proto, meta.proto.
type protobuf struct{}

// each calls f with every field of a message. value is what follows the tag; content is
// that without its length, where it has one.
func each(message []byte, f func(number protowire.Number, kind protowire.Type, value, content []byte) error) error {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return model.Errorf(model.Invalid, "not protobuf: %w", protowire.ParseError(n))
		}
		message = message[n:]
		n = protowire.ConsumeFieldValue(number, kind, message)
		if n < 0 {
			return model.Errorf(model.Invalid, "field %d: %w", number, protowire.ParseError(n))
		}
		value := message[:n]
		content := value
		if kind == protowire.BytesType {
			content, _ = protowire.ConsumeBytes(value)
		}
		if err := f(number, kind, value, content); err != nil {
			return err
		}
		message = message[n:]
	}
	return nil
}

func varint(value []byte) uint64 {
	v, _ := protowire.ConsumeVarint(value)
	return v
}

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

func (protobuf) parseRequest(body []byte) (r request, err error) {
	err = each(body, func(number protowire.Number, kind protowire.Type, value, content []byte) error {
		switch {
		case number == 1 && kind == protowire.BytesType:
			r.check = content
			return r.parseCheck(content)
		case number == 4 && kind == protowire.VarintType:
			r.issued = int64(varint(value))
		}
		return nil
	})
	if err == nil && r.name == "" {
		err = model.Errorf(model.Invalid, "a check_request without the name of a check")
	}
	return r, err
}

func (r *request) parseCheck(check []byte) error {
	return each(check, func(number protowire.Number, kind protowire.Type, value, content []byte) (err error) {
		switch {
		case number == 5 && kind == protowire.VarintType:
			r.interval = uint32(varint(value))
		case number == 13 && kind == protowire.BytesType:
			r.proxy = string(content)
		case number == 26 && kind == protowire.BytesType:
			r.name, err = nameOf(content)
		}
		return err
	})
}

func (protobuf) parseConfig(body []byte) (c config, err error) {
	err = each(body, func(number protowire.Number, kind protowire.Type, _, content []byte) (err error) {
		switch {
		case number == 1 && kind == protowire.BytesType:
			c.name, err = nameOf(content)
		case number == 4 && kind == protowire.BytesType:
			c.subscriptions = append(c.subscriptions, string(content))
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

func (protobuf) appendEvent(dst []byte, e *event) []byte {
	dst = appendInt(dst, 1, e.timestamp)
	dst = appendMessage(dst, 2, func(b []byte) []byte { return e.entity.appendProto(b, e.timestamp) })
	dst = appendMessage(dst, 3, e.appendCheck)
	dst = appendMessage(dst, 5, func(b []byte) []byte { return appendText(b, 2, e.entity.namespace) })
	dst = protowire.AppendBytes(protowire.AppendTag(dst, 6, protowire.BytesType), e.id[:])
	return appendInt(dst, 7, e.sequence)
}

func (e *event) appendCheck(b []byte) []byte {
	if e.check == nil {
		b = appendInt(b, 5, int64(e.interval))
		b = appendInt(b, 19, int64(e.warning))
		return appendMessage(b, 38, func(b []byte) []byte { return appendText(appendText(b, 1, keepalive), 2, e.entity.namespace) })
	}
	_ = each(e.check, func(number protowire.Number, kind protowire.Type, value, _ []byte) error { // read once before: no error
		if to := moved(number); to > 0 {
			b = append(protowire.AppendTag(b, to, kind), value...)
		}
		return nil
	})
	b = protowire.AppendFixed64(protowire.AppendTag(b, 22, protowire.Fixed64Type), math.Float64bits(e.duration))
	b = appendInt(b, 23, e.executed)
	b = appendInt(b, 25, e.issued)
	b = appendText(b, 26, e.output)
	b = appendInt(b, 28, int64(e.status))
	return appendText(b, 45, e.entity.name)
}

func (x *entity) appendProto(b []byte, seen int64) []byte {
	b = appendText(b, 1, entityClass)
	b = appendMessage(b, 3, func(b []byte) []byte {
		for number, text := range []string{1: x.name, 2: "linux", 3: "debian", 4: "debian", 5: "12.5"} {
			b = appendText(b, protowire.Number(number), text)
		}
		b = appendMessage(b, 6, func(b []byte) []byte {
			return appendMessage(b, 1, func(b []byte) []byte {
				return appendText(appendText(appendText(b, 1, "eth0"), 2, "02:42:ac:11:00:02"), 3, "172.17.0.2/16")
			})
		})
		return appendText(appendText(b, 7, "amd64"), 13, "hardfloat")
	})
	for _, s := range x.subscriptions {
		b = appendText(b, 4, s)
	}
	b = appendInt(b, 5, seen)
	b = appendMessage(b, 7, func(b []byte) []byte { return b })
	b = appendText(b, 11, x.user)
	for _, s := range redacted() {
		b = appendText(b, 13, s)
	}
	b = appendMessage(b, 14, func(b []byte) []byte {
		b = appendText(appendText(b, 1, x.name), 2, x.namespace)
		for _, k := range slices.Sorted(maps.Keys(x.labels)) {
			b = appendMessage(b, 3, func(b []byte) []byte { return appendText(appendText(b, 1, k), 2, x.labels[k]) })
		}
		return b
	})
	return appendText(b, 15, agentVersion)
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
