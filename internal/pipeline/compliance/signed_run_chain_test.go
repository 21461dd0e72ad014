package compliance

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/policy"
	"github.com/muster-fleet/muster/internal/store/compliancelog"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// chainAgent simulates an agent that signs compliance runs and links each to the run before.
type chainAgent struct {
	key    *ecdsa.PrivateKey
	end    policy.ChainEnd
	last   map[model.DefinitionID]policy.LinkedRun
	der    []byte // goes with the next run; nil: none does
	skewMs uint64
}

// newChainAgent returns a simulated agent with a new key.
func newChainAgent(t testing.TB) *chainAgent {
	t.Helper()
	a := &chainAgent{last: map[model.DefinitionID]policy.LinkedRun{}}
	a.changeKey(t)
	return a
}

// changeKey gives the simulated agent a new key and certificate.
func (a *chainAgent) changeKey(t testing.TB) {
	t.Helper()
	a.key = testenv.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "node"}, NotAfter: time.Now().Add(time.Hour)}
	a.der = testenv.Value(x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key))(t)
}

// sign adds a report to the simulated agent's hash chain of runs, and signs the run.
func (a *chainAgent) sign(t testing.TB, definition model.DefinitionID, unixMs uint64, r *wire.Report) {
	t.Helper()
	run := policy.LinkedRun{Enforced: r.Enforced, Ended: r.Ended != "", Components: int(r.Components), Codes: r.Codes}
	before, known := a.last[definition]
	a.last[definition] = run
	s := &wire.SignedRun{Number: a.end.Number + 1, UnixMs: unixMs + a.skewMs, Equal: known && run.Equal(&before), Previous: a.end.Link, Assignment: [32]byte{9}, Certificate: a.der}
	a.der = nil
	a.end = policy.ChainEnd{Number: s.Number, UnixMs: s.UnixMs, Link: a.end.Link, Assignment: s.Assignment}
	if run.UnixMs = s.UnixMs; !s.Equal {
		a.end.Link = a.end.Link.Next(&run)
	}
	s.Signature = testenv.Value(a.end.Sign(a.key))(t)
	r.Signed = wire.AppendSignedRun(nil, s)
}

// chainServer is a test server with a compliance history, to which a simulated agent sends signed runs. The
// agent of node 7 reports to the server.
type chainServer struct {
	historyServer
	agent *chainAgent
	keys  []*ecdsa.PublicKey
}

// newChainServer returns a test server without runs.
func newChainServer(t *testing.T) *chainServer {
	t.Helper()
	s := &chainServer{historyServer: historyServer{path: filepath.Join(t.TempDir(), "compliance.db")}, agent: newChainAgent(t)}
	s.open(t, nil)
	s.keys = append(s.keys, &s.agent.key.PublicKey)
	return s
}

// nowMs returns the time of the test's next commit in milliseconds since 1970.
func (s *chainServer) nowMs() uint64 { return 1e12 + (s.number+1)*uint64(time.Minute/time.Millisecond) }

// nextSignedRun applies a new run that the simulated agent of node 7 has signed, as the next commit.
func (s *chainServer) nextSignedRun(t *testing.T, statuses ...policy.Status) {
	t.Helper()
	r := report(statuses...)
	s.agent.sign(t, 5, s.nowMs(), &r)
	s.testView.report(t, 5, wire.Live, 0, r)
}

// advanceDay moves the clock of the test one day ahead.
func (s *chainServer) advanceDay() { s.number += 24 * 60 }

// entries returns the compliance history of node 7 as text, and fails the test on a wrong signature.
func (s *chainServer) entries(t *testing.T) string {
	t.Helper()
	var lines []string
	var link policy.Link
	testenv.NoError(t, s.Entries(t.Context(), 7, time.UnixMilli(0), time.UnixMilli(2e12), func(c *compliancelog.Change) {
		switch x := c.Seal; {
		case x == nil && c.Linked:
			link = link.Next(&policy.LinkedRun{UnixMs: uint64(c.SignedMs), Enforced: c.After.Enforced, Ended: c.After.Ended, Components: c.After.Components, Codes: c.After.Codes})
			lines = append(lines, "run")
		case x == nil:
			lines = append(lines, "unsigned run")
		case x.ChainStart != policy.ChainContinues:
			link = x.Link
			lines = append(lines, fmt.Sprintf("begin at %d: %s", x.Number, x.ChainStart))
		default:
			end := policy.ChainEnd{Number: x.Number, UnixMs: x.UnixMs, Link: link, Assignment: x.Assignment}
			if !slices.ContainsFunc(s.keys, func(key *ecdsa.PublicKey) bool { return end.Verify(key, &x.Signature) }) {
				t.Errorf("the signature of run %d does not cover the entries before it", x.Number)
			}
			if der := testenv.Value(s.Certificate(t.Context(), x.Certificate))(t); len(der) == 0 {
				t.Errorf("history has no certificate for the signature of run %d", x.Number)
			}
			lines = append(lines, fmt.Sprintf("signature of %d", x.Number))
		}
	}))
	return strings.Join(lines, ", ")
}

// Statuses of the three components of a test run.
var (
	good = []policy.Status{policy.Compliant, policy.Compliant, policy.Compliant}
	bad  = []policy.Status{policy.NonCompliant, policy.Compliant, policy.Compliant}
)

// TestChainBreaksAreRecorded breaks the hash chain of signed runs in many ways, and expects each reason in the
// history. History also keeps the right signatures.
func TestChainBreaksAreRecorded(t *testing.T) {
	for name, test := range map[string]struct {
		do   func(t *testing.T, s *chainServer)
		want string
	}{
		"one signature a day, none for equal runs": {func(t *testing.T, s *chainServer) {
			s.nextSignedRun(t, good...)
			s.nextSignedRun(t, good...)
			s.nextSignedRun(t, bad...)
			s.advanceDay()
			s.nextSignedRun(t, bad...)
			s.nextSignedRun(t, bad...)
			s.advanceDay()
			s.nextSignedRun(t, good...)
		}, "begin at 1: first signed run, run, run, signature of 3, signature of 5, run"},
		"renewed certificate": {func(t *testing.T, s *chainServer) {
			s.nextSignedRun(t, good...)
			key := s.agent.key
			s.agent.changeKey(t)
			template := &x509.Certificate{SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour)}
			s.agent.key, s.agent.der = key, testenv.Value(x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key))(t)
			s.nextSignedRun(t, bad...)
		}, "begin at 1: first signed run, run, signature of 1, run"},
		"new key": {func(t *testing.T, s *chainServer) {
			s.nextSignedRun(t, good...)
			s.agent.changeKey(t)
			s.keys = append(s.keys, &s.agent.key.PublicKey)
			s.nextSignedRun(t, bad...)
			s.advanceDay()
			s.nextSignedRun(t, bad...)
		}, "begin at 1: first signed run, run, signature of 1, begin at 2: the key of the node changed, run, signature of 2"},
		"wrong key": {func(t *testing.T, s *chainServer) {
			s.nextSignedRun(t, good...)
			s.agent.key = testenv.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t) // and the old certificate
			s.nextSignedRun(t, bad...)
			s.advanceDay()
			s.nextSignedRun(t, bad...)
		}, "begin at 1: first signed run, run, run, begin at 3: the signature of the runs before it was wrong"},
		"changed run": {func(t *testing.T, s *chainServer) {
			s.nextSignedRun(t, good...)
			r := report(bad...)
			s.agent.sign(t, 5, s.nowMs(), &r)
			r.Codes = report(good...).Codes // after the signature
			s.testView.report(t, 5, wire.Live, 0, r)
			s.nextSignedRun(t, good...)
		}, "begin at 1: first signed run, run, run, begin at 3: does not follow the run before it: older state, or two machines with one identity, run"},
		"lost run": {func(t *testing.T, s *chainServer) {
			s.nextSignedRun(t, good...)
			lost := report(bad...)
			s.agent.sign(t, 5, s.nowMs(), &lost)
			s.nextSignedRun(t, bad...)
		}, "begin at 1: first signed run, run, signature of 1, begin at 3: runs before it did not arrive, unsigned run"},
		"empty state": {func(t *testing.T, s *chainServer) {
			s.nextSignedRun(t, good...)
			s.nextSignedRun(t, good...)
			s.agent.end, s.agent.last = policy.ChainEnd{}, map[model.DefinitionID]policy.LinkedRun{}
			s.nextSignedRun(t, good...)
		}, "begin at 1: first signed run, run, signature of 2, begin at 1: the agent began anew with empty state, run"},
		"restart of the agent": {func(t *testing.T, s *chainServer) {
			s.nextSignedRun(t, bad...)
			testenv.NoError(t, s.agent.end.DecodePosition(s.agent.end.AppendPosition(nil)))
			s.agent.last = map[model.DefinitionID]policy.LinkedRun{}
			s.nextSignedRun(t, bad...)
			s.advanceDay()
			s.nextSignedRun(t, bad...)
		}, "begin at 1: first signed run, run, run, signature of 2"},
		"an hour of clock skew": {func(t *testing.T, s *chainServer) {
			s.agent.skewMs = uint64(time.Hour / time.Millisecond)
			s.nextSignedRun(t, good...)
			s.nextSignedRun(t, bad...)
			s.agent.skewMs = 0
			s.nextSignedRun(t, good...)
			s.advanceDay()
			s.nextSignedRun(t, good...)
		}, "begin at 1: first signed run, run, run, run, signature of 3"},
		"replayed run": {func(t *testing.T, s *chainServer) {
			r := report(good...)
			s.agent.sign(t, 5, s.nowMs(), &r)
			s.testView.report(t, 5, wire.Live, 0, r)
			s.nextSignedRun(t, bad...)
			s.testView.report(t, 5, wire.Live, 0, r) // compliant again?
			s.nextSignedRun(t, bad...)
			s.advanceDay()
			s.nextSignedRun(t, bad...)
		}, "begin at 1: first signed run, run, run, unsigned run, unsigned run, signature of 3"},
		"backlog behind live runs": {func(t *testing.T, s *chainServer) {
			s.nextSignedRun(t, good...)
			late := report(bad...)
			s.agent.sign(t, 5, s.nowMs(), &late)
			s.nextSignedRun(t, good...)
			s.testView.report(t, 5, wire.Backlog, 90*time.Second, late)
			s.nextSignedRun(t, good...)
			s.advanceDay()
			s.nextSignedRun(t, good...)
		}, "begin at 1: first signed run, run, signature of 1, begin at 3: runs before it did not arrive, run, signature of 4"},
		"unsigned": {func(t *testing.T, s *chainServer) {
			s.testView.report(t, 5, wire.Live, 0, report(good...))
			s.testView.report(t, 5, wire.Live, 0, report(bad...))
		}, "unsigned run, unsigned run"},
		"crash of the server": {func(t *testing.T, s *chainServer) {
			s.nextSignedRun(t, good...)
			s.nextSignedRun(t, bad...)
			s.snapshot, s.at = s.events.Snapshot(7, nil)
			testenv.NoError(t, s.FlushHistory(t.Context(), 7, s.at))
			s.advanceDay()
			s.nextSignedRun(t, good...)
			testenv.NoError(t, s.store.Flush(t.Context()))
			s.nextSignedRun(t, bad...)
			testenv.NoError(t, s.store.Close())
			s.open(t, s.commits)
			s.advanceDay()
			s.nextSignedRun(t, bad...)
		}, "begin at 1: first signed run, run, run, signature of 2, run, run, signature of 4"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newChainServer(t)
			test.do(t, s)
			if got := s.entries(t); got != test.want {
				t.Errorf("entries\n%s\nwant\n%s", got, test.want)
			}
			testenv.NoError(t, s.store.Close())
		})
	}
}

// TestRestoredServerRestartsChains restores a server from a day-old backup, and expects each node's hash chain
// to start again. The agent goes on signing. The new chain records the reason.
func TestRestoredServerRestartsChains(t *testing.T) {
	s := newChainServer(t)
	s.nextSignedRun(t, good...)
	s.snapshot, s.at = s.events.Snapshot(7, nil)
	testenv.NoError(t, s.FlushHistory(t.Context(), 7, s.at))
	testenv.NoError(t, s.store.Close())
	copied, history := slices.Clone(s.commits), testenv.Value(os.ReadFile(s.path))(t)
	s.open(t, copied)
	s.nextSignedRun(t, bad...)
	s.advanceDay()
	s.nextSignedRun(t, bad...)
	testenv.NoError(t, s.store.Close())
	agent := s.agent
	now := s.number
	s.path = filepath.Join(t.TempDir(), "compliance.db")
	testenv.NoError(t, os.WriteFile(s.path, history, 0o600))
	s.open(t, copied)
	s.agent, s.number = agent, now
	s.nextSignedRun(t, good...)
	s.advanceDay()
	s.nextSignedRun(t, good...)
	if got, want := s.Chain(7), policy.ChainMissing; got.Broken != want || got.Number != 5 {
		t.Errorf("the chain is at %d, broken by %q", got.Number, got.Broken)
	}
	if got, want := s.entries(t), "signature of 1, begin at 4: runs before it did not arrive, run, signature of 4"; !strings.HasSuffix(got, want) {
		t.Errorf("entries\n%s\nwant at their end\n%s", got, want)
	}
	testenv.NoError(t, s.store.Close())
}

// TestChainsAreInSnapshots saves and restores hash chains of signed runs, and expects the same bytes in the
// next snapshot.
func TestChainsAreInSnapshots(t *testing.T) {
	s := newChainServer(t)
	s.nextSignedRun(t, good...)
	s.nextSignedRun(t, bad...)
	snapshot, at := s.events.Snapshot(7, nil)
	s.snapshot, s.at = snapshot, at
	chain := s.Chain(7)
	testenv.NoError(t, s.store.Close())
	s.open(t, nil)
	if again, _ := s.events.Snapshot(7, nil); !bytes.Equal(again, snapshot) || s.Chain(7) != chain || chain.Number != 2 {
		t.Errorf("the restored chain is %+v, want %+v", s.Chain(7), chain)
	}
	testenv.NoError(t, s.store.Close())
}

// goldenChain returns a test chain with a value in each field, for the golden file.
func goldenChain() *Chain {
	c := &Chain{ChainEnd: policy.ChainEnd{Number: 300, UnixMs: 1_800_000_000_000, Link: policy.Link{1}, Assignment: [32]byte{2}}, Stream: 9, Broken: policy.ChainMissing, FirstRunEnd: 1_700_000_000_000}
	c.Signature[0], c.Certificate[0], c.key[0] = 3, 4, 5
	return c
}

// TestChainMatchesGoldenFile encodes a chain of signed runs, and compares the bytes with a golden file.
func TestChainMatchesGoldenFile(t *testing.T) {
	testenv.Golden(t, "testdata/chain-v2.hex", hex.Dump(goldenChain().append(nil)), "a new SectionVersion")
}

// FuzzDecodeChain decodes random bytes as a stored hash chain, and expects an error or an unchanged
// re-encoding.
func FuzzDecodeChain(f *testing.F) {
	f.Add(goldenChain().append(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		d := shard.NewDecoder(data)
		c := decodeChain(d)
		if d.Err() != nil || c == nil {
			return
		}
		if again := decodeChain(shard.NewDecoder(c.append(nil))); again == nil || *again != *c {
			t.Fatalf("chain %+v, then %+v", c, again)
		}
	})
}
