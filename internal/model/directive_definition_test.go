package model

import "testing"

// FuzzNodeModeOf reads modes of nodes from any bytes: one that cannot be read or that says nothing never enforces.
func FuzzNodeModeOf(f *testing.F) {
	f.Add([]byte(`{"mode": "enforce", "fixed": "namespace prod"}`))
	f.Add([]byte(`{"mode": 1}`))
	f.Fuzz(func(t *testing.T, value []byte) {
		m := NodeModeOf(func(string) ([]byte, string, bool) { return value, "", true })
		if m.Mode != ModeEnforce && m.Enforces("") || m.Fixed != "" && m.Enforces(ModeEnforce) != (m.Mode == ModeEnforce) {
			t.Errorf("%q: %+v", value, m)
		}
	})
}
