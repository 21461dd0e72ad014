package load

import (
	"errors"
	"net"
	"strings"
)

// cause is err in words that many sessions share: without the port of this one.
func cause(err error) string {
	text := err.Error()
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Source != nil {
		text = strings.ReplaceAll(text, op.Source.String()+"->", "")
	}
	return text
}
