package subject

import "testing"

// TestLastCry expects the first line of a Go stack in a log, else the last line.
func TestLastCry(t *testing.T) {
	for log, want := range map[string]string{
		"": "",
		"time=1 level=INFO msg=a\ntime=2 level=INFO msg=b\n\n":                                   "time=2 level=INFO msg=b",
		"time=1 level=INFO msg=a\nfatal error: out of memory\n\ngoroutine 1:\nmain.main()\n":     "fatal error: out of memory",
		"SIGABRT: abort\nPC=0x1 m=0\n\ngoroutine 0:\nrax 0x1":                                    "SIGABRT: abort",
		"panic: of a life before\n\ngoroutine 1:\ntime=3 level=INFO msg=started\npanic: nil map": "panic: nil map",
	} {
		if got := lastCry([]byte(log)); got != want {
			t.Errorf("%q: %q, want %q", log, got, want)
		}
	}
}
