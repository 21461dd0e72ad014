package model

import (
	"log/slog"
	"strings"
)

// LogAttr is for slog.HandlerOptions.ReplaceAttr: what an error says to type stands behind
// it in the same line, and not after a line break, which a log shows as \n.
func LogAttr(_ []string, a slog.Attr) slog.Attr {
	if err, ok := a.Value.Any().(error); ok && strings.Contains(err.Error(), "\n  ") {
		return slog.String(a.Key, strings.ReplaceAll(err.Error(), "\n  ", "; "))
	}
	return a
}
