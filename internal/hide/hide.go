// Package hide replaces secrets in what commands write by model.Hidden, before anything is kept, cut or
// heard of it: as they are, and as programs commonly write them (base64 with anything around them,
// hexadecimal, in addresses, in JSON and in quotes). Agents do so for what they run, the server for what
// other systems' agents bring back. Nothing here owns a goroutine or a lock. Start at New.
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

// Hider works across the pieces of one text that comes.
type Hider struct {
	words [][]byte // longest first
	held  []byte   // the end of what came, where a word may have begun
}

// New is nil where there is nothing to hide.
func New(secrets []string) *Hider {
	if len(secrets) == 0 {
		return nil
	}
	h := &Hider{}
	for _, secret := range secrets {
		for _, word := range writings(secret) {
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

// writings are the forms in which a secret is found.
func writings(secret string) []string {
	list := []string{secret, strings.TrimSpace(secret), url.QueryEscape(secret), url.PathEscape(secret),
		hex.EncodeToString([]byte(secret)), strings.ToUpper(hex.EncodeToString([]byte(secret))),
		strings.Trim(strconv.Quote(secret), `"`), strings.ReplaceAll(secret, "'", `'\''`), strings.ReplaceAll(secret, "\n", "\r\n")}
	if quoted, err := json.Marshal(secret); err == nil {
		list = append(list, string(quoted[1:len(quoted)-1]))
	}
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		list = append(list, encoding.EncodeToString([]byte(secret)))
		for before := range 3 { // bytes of a group that something else stands in, as user: in a header
			coded := encoding.EncodeToString(append(make([]byte, before), secret...))
			coded = coded[[...]int{0, 2, 3}[before]:]
			if (before+len(secret))%3 != 0 {
				coded = coded[:len(coded)-1]
			}
			if len(coded) >= 6 { // less is found in other words
				list = append(list, coded)
			}
		}
	}
	return list
}

// Fresh hides the same in another text; of nil it is nil.
func (h *Hider) Fresh() *Hider {
	if h == nil {
		return nil
	}
	return &Hider{words: h.words}
}

// All is what may be shown of a text that is there as a whole. It may be called by many goroutines at
// once, and on nil, which hides nothing.
func (h *Hider) All(text []byte) []byte {
	if h == nil {
		return text
	}
	return h.Fresh().Next(text, true)
}

// Held is how many bytes are held back: a word may have begun with them.
func (h *Hider) Held() int { return len(h.held) }

// Next takes what came and returns what may be shown of it now; last: nothing more comes. The
// result is valid until the next call.
func (h *Hider) Next(p []byte, last bool) []byte {
	text := append(h.held, p...)
	h.held = nil
	open := len(text) // from here on a word may have begun that is not whole yet
	if !last {
		open = h.open(text)
	}
	var shown []byte
	at := 0
	for at < open {
		from, to := h.find(text, at, open)
		if from < 0 {
			break
		}
		shown = append(append(shown, text[at:from]...), model.Hidden...)
		at = to
	}
	if at < open {
		shown = append(shown, text[at:open]...)
		at = open
	}
	h.held = slices.Clone(text[at:])
	return shown
}

// open is where the longest end of text begins that is the beginning of a word.
func (h *Hider) open(text []byte) int {
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

// find is the first word that begins in text[at:before]; of those that begin there the longest.
func (h *Hider) find(text []byte, at, before int) (from, to int) {
	from = -1
	for _, word := range h.words {
		until := min(len(text), before+len(word)-1)
		if from >= 0 { // only an earlier one is better
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
