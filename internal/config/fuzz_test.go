package config

import (
	"reflect"
	"testing"
)

// A file of settings sets what it names or says what is wrong, and where.
func FuzzFile(f *testing.F) {
	for _, text := range []string{
		"", "listen: ':1'\nnode-states: 7\nadvertise: [a, b]\n", "listn: x", "keepalive-timeout: 5", "- a\n- b", "a: &x [*x]",
		"max-frame: {a: b}", "node-rate: 1e999", "journal-budget: -1", "\xff\xfe", "listen: |\n  a\n  b\n", "? [a]\n: b", "data:", "a: b: c",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := &Server{}
		for _, err := range parse("f", data, func(f Field, text, where string) {
			_ = setField(reflect.ValueOf(s).Elem().Field(f.index), text)
		}) {
			if err.Error() == "" {
				t.Error("a problem without words")
			}
		}
		_ = s.check()
		_ = s.Settings()
	})
}
