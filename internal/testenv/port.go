package testenv

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// Port is a free loopback address below the range from which the kernel takes ports by itself,
// for those who ask for any and for outgoing connections: nobody takes it while its server is down.
func Port(t testing.TB) string {
	t.Helper()
	for range 1000 {
		address := fmt.Sprintf("127.0.0.1:%d", 10_000+rand.N(20_000))
		if l, err := net.Listen("tcp", address); err == nil {
			l.Close()
			return address
		}
	}
	t.Fatal("no free port found")
	return ""
}
