package queue

import "testing"

// FuzzSettings parses settings of queues: each one is stored as written or refused with a message.
func FuzzSettings(f *testing.F) {
	for _, text := range []string{"journal=8MiB", "journal=1", "requests=block", "requests=9999999999", "facts=7", "reactions=rederive", "nobody=1", "journal", "=", ""} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		settings, err := ParseSettings([]string{text})
		if err != nil {
			if err.Error() == "" {
				t.Error("refused without a message")
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
