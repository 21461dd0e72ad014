package sensu

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// Who has not said yet who it is takes no more memory than a handshake needs: neither by one
// header again and again, nor by a line without an end, nor where archives are fetched.
func TestAHandshakeWithoutEnd(t *testing.T) {
	w := newWorld(t, nil)
	for name, text := range map[string]string{
		"one header again and again": "GET / HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("X-A: "+strings.Repeat("y", 1000)+"\r\n", 200),
		"a line without an end":      "GET / HTTP/1.1\r\nHost: x\r\nX-A: " + strings.Repeat("y", 200_000),
		"an address without an end":  "GET /" + strings.Repeat("y", 200_000),
		"for an archive":             "GET " + assetPath + "1/00 HTTP/1.1\r\nX-A: " + strings.Repeat("y", 200_000),
	} {
		nc, err := net.Dial("tcp", w.addr)
		if err != nil {
			t.Fatal(err)
		}
		_ = nc.SetDeadline(time.Now().Add(10 * time.Second))
		_, _ = io.WriteString(nc, text)
		said, _ := io.ReadAll(nc)
		if nc.Close(); !strings.HasPrefix(string(said), "HTTP/1.1 431 ") || !strings.Contains(string(said), "larger than 64 KiB") {
			t.Errorf("%s: got %.200q", name, said)
		}
	}
}
