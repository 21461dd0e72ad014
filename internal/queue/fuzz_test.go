package queue

import "testing"

// FuzzSettings: what an operator sets of queues is in force as written, or refused in words.
func FuzzSettings(f *testing.F) {
	for _, text := range []string{"journal=8MiB", "journal=1", "requests=block", "requests=9999999999", "facts=7", "reactions=rederive", "nobody=1", "journal", "=", ""} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		settings, err := ParseSettings([]string{text})
		if err != nil {
			if err.Error() == "" {
				t.Error("refused without words")
			}
			return
		}
		if len(settings) != 1 {
			t.Fatalf("%q sets %d queues", text, len(settings))
		}
		for name, set := range settings {
			k, ok := find(name)
			if !ok || set.capacity == 0 && set.policy == "" || set.capacity < 0 {
				t.Errorf("%q sets %+v of %q", text, set, k.Name)
			}
		}
	})
}
