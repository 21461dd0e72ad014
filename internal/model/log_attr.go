package model

import (
	"log/slog"
	"strings"
)

// LogAttr is for slog.HandlerOptions.ReplaceAttr: it puts the hint of an error behind the message, in the same
// line.
func LogAttr(_ []string, a slog.Attr) slog.Attr {
	if err, ok := a.Value.Any().(error); ok && strings.Contains(err.Error(), "\n  ") {
		return slog.String(a.Key, strings.ReplaceAll(err.Error(), "\n  ", "; "))
	}
	return a
}
