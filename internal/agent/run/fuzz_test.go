package run

import (
	"bytes"
	"testing"
	"unicode/utf8"
)

// Whatever a command prints becomes text that stores and terminals take, within the
// bytes that were asked for.
func FuzzOutput(f *testing.F) {
	f.Add([]byte("OK - all is well | load=0.1\n"), "", "", uint16(1000))
	f.Add([]byte("\x00\xff\xfe ä"), "", "", uint16(0))
	f.Add([]byte("/bin/sh: 1: check_disk: not found\n"), "exit code 127", "", uint16(50))
	f.Add(bytes.Repeat([]byte("\xff"), 300), "", "timed out after 5s", uint16(0))
	f.Fuzz(func(t *testing.T, printed []byte, cause, note string, beyond uint16) {
		if !utf8.ValidString(cause) || !utf8.ValidString(note) || len(cause)+len(note) > 200 || bytes.ContainsRune([]byte(cause+note), 0) {
			return // ours
		}
		const keep = 512
		o := output{keep: keep}
		o.add(printed)
		o.add(make([]byte, beyond))
		text, cut := verdict{cause: cause, note: note}.text(o.kept, o.total, keep)
		if len(text) == 0 || len(text) > keep || !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0 {
			t.Errorf("%d bytes of text: %q", len(text), text)
		}
		if cut > o.total {
			t.Errorf("%d of %d bytes are cut", cut, o.total)
		}
		if cut == 0 && o.total > uint64(len(o.kept)) && len(bytes.TrimSpace(o.kept)) > 0 {
			t.Errorf("%d bytes printed, %d kept, and no word of a cut: %q", o.total, len(o.kept), text)
		}
		_ = notFoundName(printed)
	})
}
