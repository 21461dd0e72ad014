package model

import "testing"

// FuzzNodePolicyModeOf reads policy modes from random bytes, and expects no enforcement for an unreadable or
// empty mode.
func FuzzNodePolicyModeOf(f *testing.F) {
	f.Add([]byte(`{"mode": "enforce", "fixed": "namespace prod"}`))
	f.Add([]byte(`{"mode": 1}`))
	f.Fuzz(func(t *testing.T, value []byte) {
		m := NodePolicyModeOf(func(string) ([]byte, string, bool) { return value, "", true })
		if m.Mode != ModeEnforce && m.Enforces("") || m.Fixed != "" && m.Enforces(ModeEnforce) != (m.Mode == ModeEnforce) {
			t.Errorf("%q: %+v", value, m)
		}
	})
}
