// Package hide redacts secrets in the output of commands: it replaces them by model.RedactedText before the
// output is stored, cut or sent. It finds a secret in clear text, and in the encodings that programs commonly
// print: base64 at any offset, hexadecimal, URL-encoded, in JSON and in quotes. Agents redact the output
// of their commands; the server redacts the output of handlers and of Sensu agents. In: secrets and output. Out:
// redacted output. No goroutines and no locks. Start at New.
package hide

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// Redactor replaces the secrets in one text, such as a command's output, which may arrive in pieces.
type Redactor struct {
	words   [][]byte // all encodings of all secrets, longest first
	pending []byte   // the end of the input so far: it may be the beginning of a word
}

// New returns a Redactor that hides the given secrets in texts, or nil without secrets.
func New(secrets []string) *Redactor {
	if len(secrets) == 0 {
		return nil
	}
	h := &Redactor{}
	for _, secret := range secrets {
		for _, word := range secretEncodings(secret) {
			if len(word) >= model.MinSecret {
				h.words = append(h.words, []byte(word))
			}
		}
	}
	slices.SortFunc(h.words, func(a, b []byte) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return bytes.Compare(a, b)
	})
	h.words = slices.CompactFunc(h.words, bytes.Equal)
	return h
}

// secretEncodings returns the encodings of a secret to search for, such as base64, hex, URL and JSON. The text itself
// is one of them.
func secretEncodings(secret string) []string {
	list := []string{secret, strings.TrimSpace(secret), url.QueryEscape(secret), url.PathEscape(secret),
		hex.EncodeToString([]byte(secret)), strings.ToUpper(hex.EncodeToString([]byte(secret))),
		strings.Trim(strconv.Quote(secret), `"`), strings.ReplaceAll(secret, "'", `'\''`), strings.ReplaceAll(secret, "\n", "\r\n")}
	if quoted, err := json.Marshal(secret); err == nil {
		list = append(list, string(quoted[1:len(quoted)-1]))
	}
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		list = append(list, encoding.EncodeToString([]byte(secret)))
		for before := range 3 { // base64 encodes groups of three bytes: number of bytes before the secret in its first group
			coded := encoding.EncodeToString(append(make([]byte, before), secret...))
			coded = coded[[...]int{0, 2, 3}[before]:]
			if (before+len(secret))%3 != 0 {
				coded = coded[:len(coded)-1]
			}
			if len(coded) >= 6 { // shorter encodings would match unrelated text
				list = append(list, coded)
			}
		}
	}
	return list
}

// NewText returns a Redactor with the same secrets for another text. A nil Hider returns nil.
func (h *Redactor) NewText() *Redactor {
	if h == nil {
		return nil
	}
	return &Redactor{words: h.words}
}

// Redact returns a complete text with all secrets redacted. It is safe for concurrent use. A nil Hider returns the
// text.
func (h *Redactor) Redact(text []byte) []byte {
	if h == nil {
		return text
	}
	return h.NewText().RedactNext(text, true)
}

// BufferedLength returns how many last bytes of the text are held back as a possible secret beginning. These
// bytes wait, because a secret may begin in them.
func (h *Redactor) BufferedLength() int { return len(h.pending) }

// RedactNext takes the next piece of the text, and returns the redacted text that is ready. Bytes in which a secret may
// begin wait for the next part; last is true for the final part. The result is valid until the next call.
func (h *Redactor) RedactNext(p []byte, last bool) []byte {
	text := append(h.pending, p...)
	h.pending = nil
	open := len(text) // offset of the first word that may be incomplete
	if !last {
		open = h.partialMatch(text)
	}
	var shown []byte
	at := 0
	for at < open {
		from, to := h.findSecret(text, at, open)
		if from < 0 {
			break
		}
		shown = append(append(shown, text[at:from]...), model.RedactedText...)
		at = to
	}
	if at < open {
		shown = append(shown, text[at:open]...)
		at = open
	}
	h.pending = slices.Clone(text[at:])
	return shown
}

// partialMatch returns the offset from which a text's last bytes may be the beginning of a secret. Without such
// a beginning it returns the length of the text.
func (h *Redactor) partialMatch(text []byte) int {
	if len(h.words) == 0 {
		return len(text)
	}
	for at := max(0, len(text)-len(h.words[0])+1); at < len(text); at++ {
		for _, word := range h.words {
			if rest := text[at:]; len(rest) < len(word) && word[0] == rest[0] && bytes.HasPrefix(word, rest) {
				return at
			}
		}
	}
	return len(text)
}

// findSecret returns the start and end of the first secret that begins between two offsets in a text. Of
// secrets at the same offset it returns the longest. from is -1 if there is none.
func (h *Redactor) findSecret(text []byte, at, before int) (from, to int) {
	from = -1
	for _, word := range h.words {
		until := min(len(text), before+len(word)-1)
		if from >= 0 { // only an earlier match replaces the present one
			until = min(until, from+len(word)-1)
		}
		if until <= at {
			continue
		}
		if i := bytes.Index(text[at:until], word); i >= 0 {
			from, to = at+i, at+i+len(word)
		}
	}
	return from, to
}
