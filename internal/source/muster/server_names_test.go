package muster

import (
	"crypto/tls"
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/muster-fleet/muster/internal/agent/link"
)

// A name that the certificate does not have is counted each time and said once, with the
// setting that adds it. Nobody writes what he likes into the log.
func TestNamesThatTheCertificateDoesNotHave(t *testing.T) {
	text := &logs{}
	h := newHouseWith(t, nil, slog.New(slog.NewTextHandler(text, nil)))
	people := func() float64 { return testutil.ToFloat64(h.server.metrics.unknownNames.WithLabelValues("people")) }
	agents := func() float64 { return testutil.ToFloat64(h.server.metrics.unknownNames.WithLabelValues("agents")) }
	for _, name := range []string{"muster.example.org", "127.0.0.1", "muster.example.org", "a;reboot"} {
		c, err := tls.Dial("tcp", h.tls, &tls.Config{ServerName: name, InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
	id := h.join("web01")
	config := link.TLSConfig(id, nil)
	config.ServerName = "agents.example.org"
	if _, err := h.openWith(id, id.Node, config); err != nil {
		t.Fatal(err)
	}
	if people() != 3 || agents() != 1 {
		t.Errorf("people %v, agents %v", people(), agents())
	}
	for line, times := range map[string]int{
		"name=muster.example.org advertise=muster.example.org": 1, "name=agents.example.org": 1, "reboot": 0, "level=WARN": 1,
	} {
		if n := text.count(line); n != times {
			t.Errorf("%q is said %d times, want %d:\n%s", line, n, times, text.text.String())
		}
	}
	if strings.Contains(text.text.String(), "127.0.0.1,") {
		t.Errorf("loopback addresses are to be advertised:\n%s", text.text.String())
	}
}
