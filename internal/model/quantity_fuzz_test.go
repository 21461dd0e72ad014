package model

import (
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"
)

// What is read of a duration, a size, a threshold, a status, a severity, a stream's
// number or an order is printed as it can be read again.
func FuzzQuantities(f *testing.F) {
	for _, text := range []string{
		"30s", "1h30m", "7d", "-5m", "0", "5", "1e3s", "99999999999d", "64KiB", "1.5GiB", "4 MB", "-1", "1e400GiB", "1e20B", "65536",
		"10", "10:", "~:10", "10:20", "@10:20", ":", "@", "~", "1e5:", "", "NaN", "+5:7", ",5:",
		"critical", "3", "not classified", "DISASTER", "00000000000000ff", "+1",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if d, err := ParseDuration(text); err == nil {
			if again, err := ParseDuration(d.String()); err != nil || again != d {
				t.Errorf("duration %q is %d, printed %q, read again %d, %v", text, d, d, again, err)
			}
		}
		if s, err := ParseSize(text); err == nil {
			if again, err := ParseSize(s.String()); err != nil || again != s || s < 0 {
				t.Errorf("size %q is %d, printed %q, read again %d, %v", text, s, s, again, err)
			}
		}
		if r, err := ParseRange(text); err == nil {
			if again, err := ParseRange(r.String()); err != nil || again != r {
				t.Errorf("threshold %q is %+v, printed %q, read again %+v, %v", text, r, r, again, err)
			}
		}
		if s, ok := ParseStatus(text); ok && !strings.EqualFold(s.String(), text) && text != string('0'+rune(s)) {
			t.Errorf("status %q is %s", text, s)
		}
		if s, ok := ParseSeverity(text); ok && !strings.EqualFold(s.String(), text) {
			t.Errorf("severity %q is %s", text, s)
		}
		var id, again StreamID
		if id.UnmarshalText([]byte(text)) == nil && (again.UnmarshalText([]byte(id.String())) != nil || again != id) {
			t.Errorf("stream %q is %d, read again %d", text, id, again)
		}
		var o, same ResultDigest
		if o.UnmarshalText([]byte(text)) == nil && (same.UnmarshalText([]byte(o.String())) != nil || same != o) {
			t.Errorf("order %q is %d, read again %d", text, o, same)
		}
		quoted, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, data := range [][]byte{[]byte(text), quoted} {
			for _, v := range []json.Unmarshaler{new(Duration), new(Size), new(Time), new(Secret), new(Command)} {
				_ = v.UnmarshalJSON(data)
			}
		}
		if sum, err := ParseAssetSum(text); err == nil && hex.EncodeToString(sum[:]) != text {
			t.Errorf("sum %q is %x", text, sum)
		}
	})
}
