//go:build unix

package testenv

import (
	"net"
	"strconv"
	"testing"
)

// TestPortIsReserved reserves a port, and expects no second reservation of the port. It tries before the test's server
// listens, meanwhile and afterwards.
func TestPortIsReserved(t *testing.T) {
	address := Port(t)
	_, text, _ := net.SplitHostPort(address)
	port, _ := strconv.Atoi(text)
	taken := func(when string) {
		t.Helper()
		if release, err := reservePort(port); err == nil {
			release()
			t.Fatalf("%s: another test could have %s", when, address)
		}
	}
	taken("before its server listens")
	for range 2 {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		taken("while its server listens")
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
		l.Close()
		taken("while its server is down")
	}
}
