//go:build linux

package test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// TestEvidenceIsVerifiedWithoutAServer saves the signed evidence of a directive's runs, and verifies the
// evidence without a server. A file drifts from the directive while agent and server die by kill -9. One chain
// has all runs, and each changed run, definition or signature is found.
func TestEvidenceIsVerifiedWithoutAServer(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t, "--snapshot-cycle", "2s")
	s.Login()
	file := filepath.Join(t.TempDir(), "motd")
	agent := s.StartAgent("db1")
	s.Apply(fmt.Sprintf(motdPolicy, "http://127.0.0.1:1", file, "audit"))
	s.AwaitOutput("get compliance", "db1", "non-compliant (2 of 3)")
	agent.Kill()
	testenv.NoError(t, os.WriteFile(file, []byte("no unauthorised use: here\n"), 0o644))
	agent.Start()
	s.AwaitOutput("get compliance", "db1", "100.00 %")
	s.Kill()
	s.Launch()
	s.WaitReady(40 * time.Second)
	testenv.NoError(t, os.WriteFile(file, []byte("drift\n"), 0o644))
	s.AwaitOutput("get compliance", "db1", "non-compliant (1 of 3)")

	saved := filepath.Join(t.TempDir(), "evidence.json")
	harness.Run(t, s.Env(), "report", "evidence", "save", saved).Expect(0, "saved the evidence of 1 node")
	harness.Run(t, s.Env(), "report", "evidence", "save", saved+"2", "--since", "500d").Expect(2, "is longer than 400d", "save the evidence of each year")
	var e v1.Evidence
	testenv.NoError(t, json.Unmarshal(testenv.Value(os.ReadFile(saved))(t), &e))
	s.Kill()
	agent.Kill()
	harness.Run(t, nil, "report", "evidence", "verify", saved).Expect(0, "default/db1 (", "valid signatures (", "first signed run")
	harness.Run(t, nil, "report", "evidence", "verify", saved, "--ca-hash", "sha256:"+strings.Repeat("0", 64)).Expect(4, "another CA")
	runs := 0
	for i := range e.Entries {
		switch x := &e.Entries[i]; {
		case x.Start != nil && x.Start.Reason != "" && i > 0:
			t.Errorf("the chain begins again at run %d: %s", x.Start.Number, x.Start.Reason)
		case x.Run != nil && x.Run.SignedMs == 0:
			t.Errorf("a run of %s has no signature", x.Run.At)
		case x.Run != nil:
			runs++
		}
	}
	if runs < 3 || len(e.Certificates) != 1 {
		t.Errorf("the evidence has %d runs and %d certificates", runs, len(e.Certificates))
	}
	for name, change := range map[string]func(e *v1.Evidence){
		"run":        func(e *v1.Evidence) { lastRun(e).Codes[0] ^= 1 },
		"time":       func(e *v1.Evidence) { lastRun(e).SignedMs++ },
		"definition": func(e *v1.Evidence) { e.Definitions[0].Bytes[len(e.Definitions[0].Bytes)-1] ^= 1 },
		"signature":  func(e *v1.Evidence) { e.Entries[len(e.Entries)-1].Signature.Signature[5] ^= 1 },
		"node":       func(e *v1.Evidence) { e.ID = "11111111-1111-4111-8111-111111111111" },
	} {
		var changed v1.Evidence
		testenv.NoError(t, json.Unmarshal(testenv.Value(os.ReadFile(saved))(t), &changed))
		change(&changed)
		path := filepath.Join(t.TempDir(), name)
		testenv.NoError(t, os.WriteFile(path, testenv.Value(json.Marshal(changed))(t), 0o600))
		harness.Run(t, nil, "report", "evidence", "verify", path).Expect(4, "WRONG")
	}
}

// lastRun returns the newest run in saved evidence about a directive.
func lastRun(e *v1.Evidence) (last *v1.EvidenceRun) {
	for i := range e.Entries {
		if run := e.Entries[i].Run; run != nil {
			last = run
		}
	}
	return last
}
