//go:build linux

package test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// requestEntry starts a machine that asks to be let in, and returns when it has told its key.
func (m *joiner) requestEntry(s *harness.Server, words ...string) (p *harness.Process, key string) {
	m.t.Helper()
	p = m.launchAgent(append([]string{"join", "--server", s.Listen}, words...)...)
	p.AwaitLog("Ctrl-C")
	j, err := pki.LoadJoinState(m.state)
	testenv.NoError(m.t, err)
	if key = j.Fingerprint(); !strings.Contains(p.Log(), "\n  "+key+"\n") {
		m.t.Fatalf("the key %s is not told:\n%s", key, p.Log())
	}
	return p, key
}

// Without a token a machine waits; people see its key as the machine shows it, also after both were started again,
// and let it in.
func TestApprovePendingMachine(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	hash := strings.Fields(s.CLI("node", "ca"))[0]
	m := newJoiner(t)
	first, key := m.requestEntry(s, "--name", "web07", "--labels", "rack=7")
	expectTexts(t, first.Log(), hash)
	list := s.CLI("node", "list", "--pending")
	expectTexts(t, list, "web07  from 127.0.0.1", key, "rack=7", "os=linux", "muster node accept "+key[:16])
	s.Try("status").Expect(0, "muster node list --pending")
	equal(t, "machines that wait", s.Metric("muster_queue_depth", `queue="pending"`), 1)
	first.Kill()
	s.Stop()
	s.Start() // it forgets who waits
	second, again := m.requestEntry(s)
	assert(t, again == key, "another key after a restart: %s, was %s", again, key)
	s.Try("node", "accept", key[:16], "--groups", "web", "--labels", "env=prod").Expect(0, "node/")
	second.AwaitExit(0)
	id := m.identity()
	text := s.CLI("get", "node", id.Name, "-o", "yaml")
	expectTexts(t, text, "key: "+key, "- web", "env: prod")
	assert(t, pki.SumText(id.CASum) == hash, "another CA")
	s.Try("node", "list", "--pending").Expect(0, "no machine asks to join")
	agent := m.launchAgent()
	agent.AwaitLog("msg=connected")
	agent.Stop()
}

// Two that want one name are told apart by their keys; who is refused is told why, now and when it asks again.
func TestRejectPendingMachine(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	hash := strings.Fields(s.CLI("node", "ca"))[0]
	good, bad := newJoiner(t), newJoiner(t)
	_, goodKey := good.requestEntry(s, "--name", "web01", "--ca-hash", hash)
	stranger, badKey := bad.requestEntry(s, "--name", "web01", "--ca-hash", hash)
	s.Try("node", "accept", "web01").Expect(4, goodKey, badKey)
	s.CLI("node", "refuse", badKey[:16], "-m", "not one of ours")
	s.CLI("node", "accept", "web01")
	stranger.AwaitExit(6, "not one of ours")
	bad.expectRefusal(6, "not one of ours", "join", "--server", s.Listen)
	id := good.mustJoin("--server", s.Listen)
	assert(t, id.Name == "web01", "the other one is %s", id.Name)
	s.Try("node", "accept", "nobody").Expect(3, "--pending")
	// Who was refused joins with a token: somebody with a say has changed his mind.
	bad.mustJoin(joinWords(t, s)[1])
}

func TestPendingDisabled(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t, "--pending", "off")
	newJoiner(t).expectRefusal(6, "muster node token", "join", "--server", s.Listen)
}

// Ten thousand requests with as many keys leave a few dozen entries, and machines with a token join meanwhile.
func TestPendingFlood(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	api := s.API
	line := joinWords(t, s)[1]
	const senders = 4
	requests := 10_000
	if testing.Short() {
		requests = 400
	}
	var answers [600]atomic.Int64
	var wg sync.WaitGroup
	for range senders {
		wg.Go(func() {
			client := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
			defer client.CloseIdleConnections()
			for n := range requests / senders {
				body, err := json.Marshal(pki.EnrolRequest{CSR: newCSR(t), Name: fmt.Sprint("flood", n), Facts: map[string]string{"x": strings.Repeat("x", 10_000)}})
				if err != nil {
					t.Error(err)
					return
				}
				r, err := client.Post("https://"+s.Listen+pki.EnrolPath, "application/json", bytes.NewReader(body))
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, r.Body)
				r.Body.Close()
				answers[r.StatusCode].Add(1)
			}
		})
	}
	newJoiner(t).mustJoin(line, "--name", "real")
	wg.Wait()
	let, refused := answers[http.StatusAccepted].Load(), answers[http.StatusTooManyRequests].Load()
	assert(t, let+refused == int64(requests) && let <= 64,
		"%d may wait, %d were refused, of %d", let, refused, requests)
	var list v1.PendingList
	list, err := api.Enrolment.Pending(t.Context())
	assert(t, err == nil && int64(len(list.Items)) == let, "%d wait, %v", len(list.Items), err)
	if n := s.Metric("muster_queue_overflow_total", `queue="pending"`); n != float64(refused) {
		t.Errorf("the metric counts %v refused, want %d", n, refused)
	}
}

func newCSR(t *testing.T) []byte {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Error(err)
		return nil
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	assert(t, err == nil, "%v", err)
	return csr
}
