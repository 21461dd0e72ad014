package conversion

import (
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// OneLine returns a text as one line of at most model.MaxText bytes, without control characters.
func OneLine(text string) string { return ShortenLine(text, model.MaxText) }

// ShortenLine returns a text as one line of at most a number of bytes, without control characters.
func ShortenLine(text string, most int) string {
	text = strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, ""))), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most-len("…")], "") + "…"
	}
	return text
}
