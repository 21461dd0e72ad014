package sensu

import (
	"google.golang.org/protobuf/encoding/protowire"
)

// What the backend of these tests reads and writes of protobuf by itself, so that both
// ends do not share a mistake.

// each calls f with each field of a protobuf message.
func each(message []byte, f func(number protowire.Number, kind protowire.Type, value, content []byte) error) error {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return protowire.ParseError(n)
		}
		message = message[n:]
		if n = protowire.ConsumeFieldValue(number, kind, message); n < 0 {
			return protowire.ParseError(n)
		}
		content := message[:n]
		if kind == protowire.BytesType {
			content, _ = protowire.ConsumeBytes(content)
		}
		if err := f(number, kind, message[:n], content); err != nil {
			return err
		}
		message = message[n:]
	}
	return nil
}

// varint decodes a varint.
func varint(value []byte) uint64 {
	v, _ := protowire.ConsumeVarint(value)
	return v
}

// appendInt appends an integer field.
func appendInt(b []byte, number protowire.Number, v int64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, number, protowire.VarintType), uint64(v))
}

// appendText appends a text field.
func appendText(b []byte, number protowire.Number, text string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, number, protowire.BytesType), text)
}

// appendMessage appends a nested message.
func appendMessage(b []byte, number protowire.Number, f func([]byte) []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), f(nil))
}
