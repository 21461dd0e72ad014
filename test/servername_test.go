//go:build linux

package test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/test/harness"
)

// A server that is reached by a name which its certificate does not have: the command
// says which names there are and what mends it, so does the server's log; a restart with
// that mends it, and nobody joins again.
func TestServerNameNotInCertificate(t *testing.T) {
	t.Parallel()
	s := harness.NewServer(t)
	port := s.Listen[strings.LastIndexByte(s.Listen, ':')+1:]
	s.Listen = "127.0.0.1:" + port
	s.Args = []string{"--advertise", "web1.test"}
	s.Start()
	s.Client()
	a := s.NewAgent("named")
	a.Start()
	a.AwaitLog("msg=connected")
	s.Listen = "127.0.0.5:" + port // all of 127.0.0.0/8 is this machine: an address that the certificate does not have
	s.Stop()
	s.Start()

	where := []string{"--server", "https://" + s.Listen, "--ca", filepath.Join(s.Data, "pki", "ca.crt")}
	r := harness.Run(t, s.Env(), append(where, "status")...)
	for _, says := range []string{
		"muster: the server's certificate does not name 127.0.0.5, by which it was reached; it names 127.0.0.1, ::1, localhost, web1.test\n",
		"restart the server with --advertise web1.test,127.0.0.5 (its CA stays: nobody joins or logs in again)\n",
	} {
		if r.Code != 9 || !strings.Contains(r.Errors, says) {
			t.Errorf("code %d, no %q in:\n%s", r.Code, says, r.Errors)
		}
	}
	resolved := []string{"--resolve", "muster.example.org:" + port + ":127.0.0.5", "https://muster.example.org:" + port + "/livez", "--cacert", filepath.Join(s.Data, "pki", "ca.crt")}
	curl(t, 60, resolved...)
	awaitLogLine(t, s, "name=muster.example.org advertise=web1.test,muster.example.org")
	if n := s.Metric("muster_tls_names_unknown_total", `who="people"`); n != 1 {
		t.Errorf("counted %v times", n)
	}

	s.Stop()
	s.Args = []string{"--advertise", "web1.test,muster.example.org,127.0.0.5"}
	s.Start()
	curl(t, 0, resolved...)
	if r := harness.Run(t, s.Env(), append(where, "version")...); r.Code != 0 {
		t.Errorf("code %d: %s", r.Code, r.Errors)
	}
	a.Stop()
	a.Args = []string{"--server", s.Listen}
	a.Start()
	a.AwaitLog("msg=connected server=" + s.Listen)
	if strings.Contains(a.Log(), "msg=joined") {
		t.Errorf("the agent joined again:\n%s", a.Log())
	}
	s.Stop()
}

// A server that lost its pki folder makes a new CA: agents tell both CAs and what to type,
// and are back as soon as the folder is.
func TestServerWithNewCA(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	s.Client()
	a := s.NewAgent("faithful")
	a.Start()
	a.AwaitLog("msg=connected")
	pki, kept := filepath.Join(s.Data, "pki"), filepath.Join(t.TempDir(), "pki")
	move := func(from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	s.Stop()
	move(pki, kept)
	s.Start()
	a.AwaitLog("the server at "+s.Listen+" is not the one that this machine joined: it shows a certificate of the CA sha256:", "this machine's server has the CA sha256:",
		"if the server lost its DATA/pki, bring that back from the backup and restart it", "muster-agent reset-identity")
	r := harness.Run(t, s.Env(), "status")
	for _, says := range []string{"and only that of the CA sha256:", "if it lost its DATA/pki: bring that back from the backup"} {
		if r.Code != 9 || !strings.Contains(r.Errors, says) {
			t.Errorf("code %d, no %q in:\n%s", r.Code, says, r.Errors)
		}
	}
	s.Stop()
	if err := os.RemoveAll(pki); err != nil {
		t.Fatal(err)
	}
	move(kept, pki)
	was := strings.Count(a.Log(), "msg=connected")
	s.Start()
	harness.Until(t, 90*time.Second, "the agent is back", func() (string, bool) { return a.Log(), strings.Count(a.Log(), "msg=connected") > was })
	s.Stop()
}
