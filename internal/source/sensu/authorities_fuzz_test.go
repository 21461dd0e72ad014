package sensu

import (
	"testing"
)

// A file that somebody writes by hand is a pool of authorities, or an error that says why not.
func FuzzAuthorities(f *testing.F) {
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"))
	f.Add([]byte("no PEM"))
	f.Add(newAuthority(f).pem())
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := parseAuthorities(text)
		if (got == nil) == (err == nil) || got != nil && len(got.sums) == 0 {
			t.Errorf("%v, %v", got, err)
		}
	})
}
