package hide

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// redactPieces redacts a text that arrives in pieces of `piece` bytes.
func redactPieces(secrets []string, text string, piece int) string {
	h := New(secrets)
	var out []byte
	for len(text) > 0 {
		n := min(piece, len(text))
		out = append(out, h.RedactNext([]byte(text[:n]), false)...)
		text = text[n:]
	}
	return string(append(out, h.RedactNext(nil, true)...))
}

// TestSecretEncodingsAreHidden redacts secrets in several encodings, and expects no secret in the result. The
// encodings are plain, base64, hex, URL and JSON.
func TestSecretEncodingsAreHidden(t *testing.T) {
	const s = `pa ss/"w'ord+ü`
	quoted, _ := json.Marshal(s)
	for _, c := range []struct{ text, want string }{
		{"plain " + s + " end", "plain (hidden) end"},
		{s + s, "(hidden)(hidden)"},
		{"begins " + s[:6], "begins " + s[:6]}, // half a secret is not redacted
		{base64.StdEncoding.EncodeToString([]byte(s)), "(hidden)"},
		{string(quoted), `"(hidden)"`},
		{"https://db/?p=" + url.QueryEscape(s) + "&x", "https://db/?p=(hidden)&x"},
		{hex.EncodeToString([]byte(s)), "(hidden)"},
		{"nothing", "nothing"},
	} {
		for _, piece := range []int{1, 3, 1000} {
			if got := redactPieces([]string{s}, c.text, piece); got != c.want {
				t.Errorf("%q in pieces of %d: %q, want %q", c.text, piece, got, c.want)
			}
		}
		if got := string(New([]string{s}).Redact([]byte(c.text))); got != c.want {
			t.Errorf("%q as a whole: %q, want %q", c.text, got, c.want)
		}
	}
	if got := redactPieces([]string{"abcd", "abcdefgh"}, "abcd abcdefgh abcdef", 1); got != "(hidden) (hidden) (hidden)ef" {
		t.Errorf("the longer one does not win: %q", got)
	}
}

// TestSecretsAreHiddenInAnyText redacts random texts in random pieces, and expects no part of a secret in the result.
// Excepted are bits that base64 mixes with a neighbouring byte.
func TestSecretsAreHiddenInAnyText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.StringMatching(`[a-zA-Z0-9+/_=-]{8,40}`).Draw(t, "secret")
		before, after := rapid.StringMatching(`[ -~]{0,9}`).Draw(t, "before"), rapid.StringMatching(`[ -~]{0,9}`).Draw(t, "after")
		whole := before + secret + after
		text := whole + "\n" + base64.StdEncoding.EncodeToString([]byte(whole)) + "\n" + base64.URLEncoding.EncodeToString([]byte(whole)) + "\n" + hex.EncodeToString([]byte(whole))
		got := redactPieces([]string{secret}, text, rapid.IntRange(1, 50).Draw(t, "piece"))
		inner := secret[1 : len(secret)-1]
		if strings.Contains(got, secret) || strings.Contains(got, hex.EncodeToString([]byte(secret))) {
			t.Fatalf("%q is left in %q", secret, got)
		}
		for line := range strings.Lines(got) {
			for _, e := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
				if decoded, err := e.DecodeString(strings.TrimSpace(line)); err == nil && strings.Contains(string(decoded), inner) {
					t.Fatalf("%q is left in %q", inner, got)
				}
			}
		}
	})
}

// BenchmarkHide measures the redaction of two secrets in 32 KB of output.
func BenchmarkHide(b *testing.B) {
	text := []byte(strings.Repeat("OK - 17 of 120 connections are used, oldest query 0.3 s\n", 585)) // 32 KiB
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		h := New([]string{"correct horse battery staple", "another password"})
		h.RedactNext(text, false)
		h.RedactNext(nil, true)
	}
}
