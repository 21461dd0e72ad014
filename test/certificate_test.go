//go:build linux

package test

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/test/harness"
)

// certificateOf reads the certificate that an agent holds.
func certificateOf(t *testing.T, a *harness.Agent) *x509.Certificate {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(a.State, "identity.json"))
	if err != nil {
		t.Fatal(err)
	}
	var kept struct{ Certificate []byte }
	unmarshalFile(t, data, &kept)
	block, _ := pem.Decode(kept.Certificate)
	if block == nil {
		t.Fatalf("no certificate in %s", data)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func unmarshalFile(t *testing.T, data []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatalf("%v in\n%s", err, data)
	}
}

// With lives as short as this one can see it: an agent renews its certificate while its
// session goes on; one that could not, and has expired, renews by itself when it meets the
// server again; and once its node is deleted it hears what to type instead.
func TestCertificateRenewal(t *testing.T) {
	if testing.Short() {
		t.Skip("certificates run out")
	}
	t.Parallel()
	const life = 12 * time.Second
	s := harness.StartServer(t, "--certificate-life", life.String())
	api := s.Client()
	agent, runs := s.NewAgent("web01"), s.Counter("count", "web01")
	agent.Start()
	runs.AwaitRuns(1)
	first := certificateOf(t, agent)
	if left := time.Until(first.NotAfter); left > life {
		t.Errorf("the certificate is good for %s", left)
	}
	renewed := func(after *x509.Certificate) *x509.Certificate {
		t.Helper()
		var now *x509.Certificate
		harness.Until(t, 60*time.Second, "the certificate is renewed", func() (string, bool) {
			now = certificateOf(t, agent)
			return now.NotAfter.String(), now.NotAfter.After(after.NotAfter)
		})
		return now
	}
	second := renewed(first)
	if n := strings.Count(agent.Log(), "msg=connected"); n != 1 {
		t.Errorf("%d sessions were opened:\n%s", n, agent.Log())
	}
	if string(second.RawSubjectPublicKeyInfo) != string(first.RawSubjectPublicKeyInfo) {
		t.Error("the key is another one")
	}
	if n := s.Metric("muster_certificate_renewals_total", `outcome="renewed"`); n < 1 {
		t.Errorf("%g renewals are counted", n)
	}

	s.Stop()
	harness.Until(t, 60*time.Second, "the certificate has expired", func() (string, bool) {
		left := time.Until(certificateOf(t, agent).NotAfter)
		return left.String(), left < -time.Second
	})
	expired := certificateOf(t, agent)
	agent.Stop()  // and not killed: no run is to be lost
	agent.Start() // so that it need not wait long for its next attempt
	s.Start()
	renewed(expired)
	awaitAllResults(t, api, "web01", "count", runs)
	if n := s.Metric("muster_certificate_renewals_total", `outcome="renewed_expired"`); n < 1 {
		t.Errorf("%g renewals of what has expired are counted", n)
	}

	if r := harness.Run(t, s.Env(), "delete", "node", "web01", "--yes"); r.Code != 0 {
		t.Fatalf("delete: %+v", r)
	}
	harness.Until(t, 60*time.Second, "the machine hears why it is not renewed", func() (string, bool) {
		log := agent.Log()
		return log, strings.Contains(log, "the server does not renew this machine's certificate") && strings.Contains(log, "muster node token")
	})
	harness.Until(t, 10*time.Second, "that is counted", func() (string, bool) {
		n := s.Metric("muster_certificate_renewals_total", `outcome="barred"`) + s.Metric("muster_certificate_renewals_total", `outcome="unknown"`)
		return fmt.Sprint(n), n > 0
	})
	if e := eventOf(t, api, "web01", model.KeepaliveCheckName); e.Results != 0 {
		t.Errorf("the node is still there: %+v", e)
	}
}
