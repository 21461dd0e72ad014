package sensu

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/sensuwire"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// secretValue is the value of the secrets of tests.
const secretValue = "correct horse battery"

// newSecretCheck returns a check that needs secrets.
func newSecretCheck(id model.DefinitionID, name string, secrets ...model.DefinitionSecret) *model.CheckDefinition {
	return newCheck(id, name, "psql", func(c *model.CheckDefinition) {
		c.Secrets, c.Hooks = secrets, []model.Hook{{Name: "why", When: []string{"critical"}, Command: &model.Command{Shell: "env"}}}
	})
}

// waitResult waits for a journaled result of a compiled check for which the function ok returns true. The
// function ok selects it.
func (w *testServer) waitResult(id model.DefinitionID, ok func(*decodedSignal) bool) (s decodedSignal) {
	w.t.Helper()
	w.wait(fmt.Sprintf("a result of %d", id), func() bool {
		for i := len(w.signals) - 1; i >= 0; i-- {
			if s = w.signals[i]; s.Kind == wire.SignalResult && s.Definition == id && ok(&s) {
				return true
			}
		}
		return false
	})
	return s
}

// An agent gets the secrets of its checks only if its certificate proves its identity. The run of another agent fails
// with the reason.
func TestSecretsNeedACertificate(t *testing.T) {
	inBothCodecs(t, func(t *testing.T, json bool) {
		ca := newAuthority(t)
		w := newTestServerTLS(t, ca.newServerTLS(), func(c *Config) {
			c.Secret = secretsWithoutLease(func(_ context.Context, namespace, name string) (string, error) {
				return map[string]string{"default/db": secretValue, "shared/token": "a=b c"}[namespace+"/"+name], nil
			})
		})
		w.forbidden = secretValue
		w.definitions = []*model.CheckDefinition{newSecretCheck(1, "db", model.DefinitionSecret{Env: "DB", Name: "default/db"}, model.DefinitionSecret{Env: "T", Name: "shared/token"})}
		a := w.connectWithCertificate(ca, "web1", json)
		r := a.nextRequest()
		if !slices.Equal(r.Secrets, []string{"DB=" + secretValue, "T=a=b c"}) || r.Name != "db" {
			t.Fatalf("unexpected request %+v", r)
		}
		coded := base64.StdEncoding.EncodeToString([]byte("user:" + secretValue))
		a.send(sensuwire.TypeEvent, &sensuwire.Event{Entity: &a.entity, Check: r.Check, Issued: r.Issued, Status: 2, Output: "no login with " + secretValue + " (" + coded + ")",
			Hooks: []sensuwire.HookResult{{Name: "why", Output: "DB=" + secretValue}}})
		s := w.waitResult(1, func(*decodedSignal) bool { return true })
		if text := string(s.Output); !strings.HasPrefix(text, "no login with (hidden) (") || strings.Contains(text, coded[8:20]) || s.Status != model.Critical {
			t.Errorf("output in the journal: %q", text)
		}
		if !strings.Contains(string(s.Extra), "DB=(hidden)") {
			t.Errorf("hooks %q", s.Extra)
		}
		other := w.mustHandshake(w.dialTLS(ca, nil, nil), "web2", rightPassword, json)
		w.openSession(other)
		s = w.waitResult(1, func(s *decodedSignal) bool { return s.Status == model.Unknown })
		if !strings.Contains(string(s.Output), "own certificate (docs/sensu-certificates.md)") {
			t.Errorf("output %q", s.Output)
		}
		if n := testutil.ToFloat64(w.server.metrics.secrets.WithLabelValues("given")); n < 1 {
			t.Errorf("%v given", n)
		}
		select {
		case r := <-other.requests:
			t.Errorf("the other one is asked for %+v", r)
		default:
		}
	})
}

// Without TLS no agent proves its identity, so no secret is read.
func TestNoSecretIsReadWithoutTLS(t *testing.T) {
	w := newTestServer(t, func(c *Config) {
		c.Secret = secretsWithoutLease(func(context.Context, string, string) (string, error) { panic("somebody asks") })
	})
	w.definitions = []*model.CheckDefinition{newSecretCheck(1, "db", model.DefinitionSecret{Env: "DB", Name: "default/db"}), newSecretCheck(2, "own", model.DefinitionSecret{Env: "DB", Name: "default/own", AgentFile: "x"})}
	w.connectAgent("web1", false)
	if s := w.waitResult(1, func(*decodedSignal) bool { return true }); s.Status != model.Unknown || !strings.Contains(string(s.Output), "own certificate (docs/sensu-certificates.md)") {
		t.Errorf("output %q", s.Output)
	}
	if s := w.waitResult(2, func(*decodedSignal) bool { return true }); s.Status != model.Unknown || !strings.Contains(string(s.Output), "store it on the server") {
		t.Errorf("output %q", s.Output)
	}
}

// A secret that cannot be read fails the runs of its check and delays no other check. A slow one delays no other
// check, and is not sent after the check left the assignment. Former values stay redacted.
func TestUnreadableSecretFailsItsRunOnly(t *testing.T) {
	ca := newAuthority(t)
	var now atomic.Value
	now.Store(secretValue)
	let, hangs := make(chan struct{}), make(chan struct{}, 1)
	w := newTestServerTLS(t, ca.newServerTLS(), func(c *Config) {
		c.Secret = secretsWithoutLease(func(ctx context.Context, _, name string) (string, error) {
			switch name {
			case "sealed":
				return "", errors.New("Vault is sealed")
			case "bytes":
				return "\xff\xfe\xfd\xfc", nil
			case "slow":
				select {
				case hangs <- struct{}{}:
				default:
				}
				select {
				case <-let:
				case <-ctx.Done():
				}
			}
			return now.Load().(string), nil
		})
	})
	named := func(name string) model.DefinitionSecret {
		return model.DefinitionSecret{Env: "S", Name: "default/" + name}
	}
	w.definitions = []*model.CheckDefinition{newSecretCheck(1, "db", named("db")), newSecretCheck(2, "sealed", named("sealed")), newSecretCheck(3, "bytes", named("bytes")), newSecretCheck(4, "slow", named("slow"))}
	a := w.connectWithCertificate(ca, "web1", false)
	<-hangs
	r := a.nextRequest()
	if r.Name != "db" || !slices.Equal(r.Secrets, []string{"S=" + secretValue}) {
		t.Fatalf("unexpected request %+v", r)
	}
	for id, want := range map[model.DefinitionID]string{2: "read secret default/sealed: Vault is sealed", 3: "read secret default/bytes: "} {
		if s := w.waitResult(id, func(*decodedSignal) bool { return true }); s.Status != model.Unknown || string(s.Output) != want && !strings.HasPrefix(string(s.Output), want) {
			t.Errorf("output %q, want %q", s.Output, want)
		}
	}
	now.Store("another one")
	var again *sensuwire.ReceivedRequest
	for again == nil || again.Secrets[0] != "S=another one" {
		if again = a.nextRequest(); again.Name != "db" {
			t.Fatalf("unexpected request %+v", again)
		}
	}
	w.update(func() { w.forbidden = secretValue })
	a.sendResult(r, 0, secretValue+", "+"another one"+".")
	if s := w.waitResult(1, func(*decodedSignal) bool { return true }); string(s.Output) != "(hidden), (hidden)." {
		t.Errorf("output in the journal: %q", s.Output)
	}
	w.assign(w.definitions[0])
	testenv.Until(t, "its new plan", func() bool {
		x := w.server.registry.Get(100)
		x.Mu.Lock()
		defer x.Mu.Unlock()
		return len(x.list) == 1
	})
	close(let)
	for testutil.ToFloat64(w.server.metrics.secrets.WithLabelValues("refused")) == 0 {
		if r := a.nextRequest(); r.Name != "db" {
			t.Fatalf("unexpected request %+v", r)
		}
	}
}

// TestOutputsAreRemovedUntilSecretsAreKnown restarts the server, and expects no outputs of checks with secrets
// until the secrets are known. It first has to send the agent the secrets again. A later session is redacted by
// the values of an earlier one.
func TestOutputsAreRemovedUntilSecretsAreKnown(t *testing.T) {
	ca := newAuthority(t)
	unasked := func(c *model.CheckDefinition) *model.CheckDefinition { c.RoundRobin = true; return c }
	w := newTestServerTLS(t, ca.newServerTLS(), func(c *Config) {
		c.Secret = secretsWithoutLease(func(context.Context, string, string) (string, error) { return secretValue, nil })
	})
	w.forbidden = secretValue
	db := unasked(newSecretCheck(1, "db", model.DefinitionSecret{Env: "DB", Name: "default/db"}))
	w.definitions = []*model.CheckDefinition{db, unasked(newCheck(2, "disk", "df", nil))}
	a := w.connectWithCertificate(ca, "web1", false)
	event := func(a *testAgent, name, output string) {
		c := sensuwire.Protobuf
		r := testenv.Value(c.ParseRequest(c.AppendRequest(nil, &sensuwire.CheckRequest{Name: name, Namespace: "default", Interval: 1})))(t)
		a.sendResult(&r, 1, output)
	}
	planned := func() {
		testenv.Until(t, "its plan", func() bool {
			x := w.server.registry.Get(100)
			if x == nil {
				return false
			}
			x.Mu.Lock()
			defer x.Mu.Unlock()
			return len(x.list) == 2
		})
	}
	planned()
	event(a, "db", secretValue)
	if s := w.waitResult(1, func(*decodedSignal) bool { return true }); string(s.Output) != outputRemoved || s.Status != model.Warning {
		t.Errorf("output in the journal: %q", s.Output)
	}
	event(a, "disk", "full")
	if s := w.waitResult(2, func(*decodedSignal) bool { return true }); string(s.Output) != "full" {
		t.Errorf("output in the journal: %q", s.Output)
	}
	w.server.registry.sentSecretsOf(100, true).remember(db, []string{secretValue})
	a.conn.Close()
	testenv.Until(t, "its end", func() bool { return w.server.registry.Get(100) == nil })
	again := w.connectWithCertificate(ca, "web1", false)
	planned()
	event(again, "db", "with "+secretValue)
	if s := w.waitResult(1, func(s *decodedSignal) bool { return string(s.Output) != outputRemoved }); string(s.Output) != "with (hidden)" {
		t.Errorf("output in the journal: %q", s.Output)
	}
}

// The server remembers the secrets of a node over several sessions, until the node is deleted. It remembers the
// secrets that it has sent.
func TestSecretsOfDeletedNodesAreDropped(t *testing.T) {
	ca := newAuthority(t)
	w := newTestServerTLS(t, ca.newServerTLS(), nil)
	db := newSecretCheck(1, "db", model.DefinitionSecret{Env: "DB", Name: "default/db"})
	a := w.connectWithCertificate(ca, "web1", false)
	id := w.session("web1").Node.ID
	w.server.registry.sentSecretsOf(id, true).remember(db, []string{secretValue})
	remembers := func(when string, want bool) {
		t.Helper()
		w.server.forgetSentSecrets()
		g := w.server.registry.sentSecretsOf(id, false)
		if g == nil != !want {
			t.Fatalf("%s: remembered %v, want %v", when, g != nil, want)
		}
		if want {
			if _, known := g.redactionFor(db); !known {
				t.Errorf("%s: the value is gone", when)
			}
		}
	}
	remembers("connected", true)
	uid := a.uid()
	_ = a.conn.Close()
	testenv.Until(t, "its end", func() bool { return w.server.registry.Get(id) == nil })
	remembers("away", true)
	again := w.connectWithCertificate(ca, "web1", false)
	w.update(func() { delete(w.nodes, uid) })
	remembers("deleted, and its agent still there", true)
	_ = again.conn.Close()
	testenv.Until(t, "its end", func() bool { return w.server.registry.Get(id) == nil })
	remembers("gone", false)
	w.connectWithCertificate(ca, "web1", false) // begins anew
	w.update(func() { w.nodes[uid] = intent.NodeInfo{ID: id + 1, UID: uid} })
	w.server.registry.ForEach(func(x *session) { _ = x.Conn.Close() })
	testenv.Until(t, "its end", func() bool { return w.server.registry.Get(id) == nil })
	remembers("another node of that machine", false)
}

// TestRememberedSecretsAreBounded checks that the server remembers the last four values of each Secret.
func TestRememberedSecretsAreBounded(t *testing.T) {
	g, c := &sentSecrets{}, newSecretCheck(1, "db", model.DefinitionSecret{Env: "DB", Name: "default/db"})
	if _, known := g.redactionFor(c); known {
		t.Error("known before it was given")
	}
	for i := range 10 {
		g.remember(c, []string{fmt.Sprint("value ", i)})
	}
	g.remember(c, []string{"value 7"})
	if got := fmt.Sprint(g.values["default/db"]); got != "[value 6 value 8 value 9 value 7]" {
		t.Errorf("kept %s", got)
	}
	h, _ := g.redactionFor(c)
	if got := string(h.Redact([]byte("value 9, value 1"))); got != "(hidden), value 1" {
		t.Errorf("shown %q", got)
	}
}

// secretsWithoutLease converts a lookup function for secrets to a core.SecretFunc whose values never expire.
func secretsWithoutLease(find func(ctx context.Context, namespace, name string) (string, error)) core.SecretFunc {
	return func(ctx context.Context, namespace, name string) (core.SecretValue, error) {
		text, err := find(ctx, namespace, name)
		return core.SecretValue{Text: text}, err
	}
}

// An agent can fetch an asset archive only with the URL and token from its check request. Only this token opens the
// archive, and no other archive.
func TestArchiveNeedsTheTokenOfItsRequest(t *testing.T) {
	w := newTestServer(t, nil)
	sum, other := strings.Repeat("ab", 64), strings.Repeat("cd", 64)
	w.definitions = []*model.CheckDefinition{
		newCheck(1, "disk", "check_disk", func(c *model.CheckDefinition) {
			c.Interval = time.Hour
			c.Hooks = []model.Hook{{Name: "ps", When: []string{"ok"}, Command: &model.Command{Shell: "ps"}}}
			c.Assets = []model.DefinitionAsset{{Name: "shared/tools", Builds: []model.AssetBuild{{SHA512: other, OS: "windows"}, {SHA512: sum, OS: "linux"}}},
				{Name: "trace", Builds: []model.AssetBuild{{SHA512: other, OS: "linux"}}, HooksOnly: true}, {Name: "absent", Builds: []model.AssetBuild{{SHA512: other, OS: "windows"}}, HooksOnly: true}}
		}),
		newCheck(2, "none", "x", func(c *model.CheckDefinition) {
			c.Assets = []model.DefinitionAsset{{Name: "tools", Builds: []model.AssetBuild{{SHA512: other, OS: "windows"}}}}
		}),
	}
	a := w.connectAgent("web", false)
	if r := a.nextRequest(); r.Name != "disk" {
		t.Fatalf("unexpected request %+v", r)
	}
	w.wait("what has no archive", func() bool {
		for _, s := range w.signals {
			if s.Kind == wire.SignalResult && s.Definition == 2 {
				return s.Status == model.Unknown && strings.HasPrefix(string(s.Output), "asset tools has no archive for this machine (")
			}
		}
		return false
	})
	w.mu.Lock()
	node := w.nodes[a.uid()].ID
	w.mu.Unlock()
	x := w.server.registry.Get(node)
	x.Mu.Lock()
	request := x.list[0].prepared.request
	x.Mu.Unlock()
	asset := request.Assets[0]
	if len(request.Assets) != 1 || len(request.HookAssets) != 2 || request.HookAssets[1].Name != "trace" {
		t.Errorf("the request has assets %+v, and %+v for hooks", request.Assets, request.HookAssets)
	}
	if asset.Name != "shared_tools" || asset.SHA512 != sum || !strings.HasPrefix(asset.URL, "http://"+w.addr+"/assets/100/"+sum) {
		t.Errorf("named %+v", asset)
	}
	get := func(url, word string) (int, []byte) {
		r := testenv.Value(http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil))(t)
		r.Header.Set("Authorization", word)
		answer := testenv.Value((&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r))(t)
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Error(err)
		}
		return answer.StatusCode, body
	}
	word := asset.Headers["Authorization"]
	if status, body := get(asset.URL, word); status != 200 || !bytes.Equal(body, archiveContent) {
		t.Errorf("%d, %d bytes", status, len(body))
	}
	for url, want := range map[string]int{
		strings.Replace(asset.URL, sum, other, 1): 403, strings.Replace(asset.URL, "/100/", "/101/", 1): 403, "http://" + w.addr + "/assets/x": 404,
	} {
		if status, body := get(url, word); status != want {
			t.Errorf("%s: %d %s", url, status, body)
		}
	}
	if status, _ := get(asset.URL, "Bearer "); status != 403 {
		t.Errorf("without the word: %d", status)
	}
	w.assign() // no check names it any more
	if status, body := get(asset.URL, word); status != 403 || !strings.Contains(string(body), "no check or directive in this node's assignment uses the requested archive") {
		t.Errorf("after it was taken away: %d %s", status, body)
	}
	w.connectAgent("after", false) // agents still come
}
