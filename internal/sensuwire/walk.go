package sensuwire

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/muster-fleet/muster/internal/model"
)

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

// field is a number of protobuf with its kind, as the tag has them, so that one switch looks at both.
type field uint64

const (
	ofVarint  = field(protowire.VarintType)
	ofBytes   = field(protowire.BytesType)
	ofFixed64 = field(protowire.Fixed64Type)
)

// next takes one field from the front of a message; not ok: there is none that can be read.
// number is v of a varint or of eight bytes.
func next(message []byte) (f field, number uint64, content, rest []byte, ok bool) {
	tag, n := protowire.ConsumeVarint(message)
	if n < 0 || tag>>3 == 0 || tag>>3 > uint64(protowire.MaxValidNumber) {
		return 0, 0, nil, nil, false
	}
	message = message[n:]
	switch field(tag & 7) {
	case ofVarint:
		number, n = protowire.ConsumeVarint(message)
	case ofBytes:
		content, n = protowire.ConsumeBytes(message)
	case ofFixed64:
		number, n = protowire.ConsumeFixed64(message)
	default:
		n = protowire.ConsumeFieldValue(protowire.Number(tag>>3), protowire.Type(tag&7), message)
	}
	if n < 0 {
		return 0, 0, nil, nil, false
	}
	return field(tag), number, content, message[n:], true
}

func unreadable(what string) error {
	return model.Errorf(model.Invalid, "%s: not protobuf", what)
}
