package collect

import "testing"

// FuzzCountLogins counts the logins in random bytes as a utmp file and expects no panic
func FuzzCountLogins(f *testing.F) {
	one := make([]byte, 384)
	one[0], one[44] = 7, 'x'
	f.Add(one)
	f.Fuzz(func(t *testing.T, data []byte) {
		if n := countLogins(data, func(uint32) bool { return true }); n > uint64(len(data)/384) {
			t.Fatalf("%d logins in %d bytes", n, len(data))
		}
	})
}
