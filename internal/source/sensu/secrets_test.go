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

const horse = "correct horse battery"

// withSecret is a check that needs one.
func withSecret(id model.ChunkID, name string, secrets ...model.ChunkSecret) *model.CheckChunk {
	return check(id, name, "psql", func(c *model.CheckChunk) {
		c.Secrets, c.Hooks = secrets, []model.Hook{{Name: "why", When: []string{"critical"}, Command: &model.Command{Shell: "env"}}}
	})
}

// result is the newest of a check, once there is one.
func (w *world) result(id model.ChunkID, ok func(*decoded) bool) (s decoded) {
	w.t.Helper()
	w.wait(fmt.Sprintf("a result of %d", id), func() bool {
		for i := len(w.signals) - 1; i >= 0; i-- {
			if s = w.signals[i]; s.Kind == wire.SignalResult && s.Chunk == id && ok(&s) {
				return true
			}
		}
		return false
	})
	return s
}

// An agent that proves who it is is given what its checks name, with each request and nowhere
// else, and it stands in nothing that comes back; another one is told why not.
func TestSecretsNeedAProvenIdentity(t *testing.T) {
	inBothCodecs(t, func(t *testing.T, json bool) {
		ca := newAuthority(t)
		w := newWorldBehind(t, ca.door(), func(c *Config) {
			c.Secret = secretText(func(_ context.Context, namespace, name string) (string, error) {
				return map[string]string{"default/db": horse, "shared/token": "a=b c"}[namespace+"/"+name], nil
			})
		})
		w.never = horse
		w.chunks = []*model.CheckChunk{withSecret(1, "db", model.ChunkSecret{Env: "DB", Name: "default/db"}, model.ChunkSecret{Env: "T", Name: "shared/token"})}
		a := w.proven(ca, "web1", json)
		r := a.next()
		if !slices.Equal(r.Secrets, []string{"DB=" + horse, "T=a=b c"}) || r.Name != "db" {
			t.Fatalf("asked for %+v", r)
		}
		coded := base64.StdEncoding.EncodeToString([]byte("user:" + horse))
		a.send(sensuwire.TypeEvent, &sensuwire.Event{Entity: &a.x, Check: r.Check, Issued: r.Issued, Status: 2, Output: "no login with " + horse + " (" + coded + ")",
			Hooks: []sensuwire.HookResult{{Name: "why", Output: "DB=" + horse}}})
		s := w.result(1, func(*decoded) bool { return true })
		if text := string(s.Output); !strings.HasPrefix(text, "no login with (hidden) (") || strings.Contains(text, coded[8:20]) || s.Status != model.Critical {
			t.Errorf("kept %q", text)
		}
		if !strings.Contains(string(s.Extra), "DB=(hidden)") {
			t.Errorf("hooks %q", s.Extra)
		}
		other := w.mustShake(w.reach(ca, nil, nil), "web2", rightPassword, json)
		w.live(other)
		s = w.result(1, func(s *decoded) bool { return s.Status == model.Unknown })
		if !strings.Contains(string(s.Output), "own certificate (docs/sensu-certificates.md)") {
			t.Errorf("said %q", s.Output)
		}
		if n := testutil.ToFloat64(w.server.metrics.secrets.WithLabelValues("given")); n < 1 {
			t.Errorf("%v given", n)
		}
		select {
		case r := <-other.asked:
			t.Errorf("the other one is asked for %+v", r)
		default:
		}
	})
}

// Without TLS nobody proves anything, and no value is looked for.
func TestNoSecretsWithoutProof(t *testing.T) {
	w := newWorld(t, func(c *Config) {
		c.Secret = secretText(func(context.Context, string, string) (string, error) { panic("somebody asks") })
	})
	w.chunks = []*model.CheckChunk{withSecret(1, "db", model.ChunkSecret{Env: "DB", Name: "default/db"}), withSecret(2, "own", model.ChunkSecret{Env: "DB", Name: "default/own", AgentFile: "x"})}
	w.agent("web1", false)
	if s := w.result(1, func(*decoded) bool { return true }); s.Status != model.Unknown || !strings.Contains(string(s.Output), "own certificate (docs/sensu-certificates.md)") {
		t.Errorf("said %q", s.Output)
	}
	if s := w.result(2, func(*decoded) bool { return true }); s.Status != model.Unknown || !strings.Contains(string(s.Output), "store it on the server") {
		t.Errorf("said %q", s.Output)
	}
}

// What cannot be found is said; what takes its time holds nobody up, and is told to nobody whose
// assignment names it no more; what was another value a moment ago is hidden too.
func TestChangedFailedAndSlowSecrets(t *testing.T) {
	ca := newAuthority(t)
	var now atomic.Value
	now.Store(horse)
	let, hangs := make(chan struct{}), make(chan struct{}, 1)
	w := newWorldBehind(t, ca.door(), func(c *Config) {
		c.Secret = secretText(func(ctx context.Context, _, name string) (string, error) {
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
	named := func(name string) model.ChunkSecret { return model.ChunkSecret{Env: "S", Name: "default/" + name} }
	w.chunks = []*model.CheckChunk{withSecret(1, "db", named("db")), withSecret(2, "sealed", named("sealed")), withSecret(3, "bytes", named("bytes")), withSecret(4, "slow", named("slow"))}
	a := w.proven(ca, "web1", false)
	<-hangs
	r := a.next()
	if r.Name != "db" || !slices.Equal(r.Secrets, []string{"S=" + horse}) {
		t.Fatalf("asked for %+v", r)
	}
	for id, want := range map[model.ChunkID]string{2: "read secret default/sealed: Vault is sealed", 3: "read secret default/bytes: "} {
		if s := w.result(id, func(*decoded) bool { return true }); s.Status != model.Unknown || string(s.Output) != want && !strings.HasPrefix(string(s.Output), want) {
			t.Errorf("said %q, want %q", s.Output, want)
		}
	}
	now.Store("another one")
	var again *sensuwire.Request
	for again == nil || again.Secrets[0] != "S=another one" {
		if again = a.next(); again.Name != "db" {
			t.Fatalf("asked for %+v", again)
		}
	}
	w.set(func() { w.never = horse })
	a.result(r, 0, horse+", "+"another one"+".")
	if s := w.result(1, func(*decoded) bool { return true }); string(s.Output) != "(hidden), (hidden)." {
		t.Errorf("kept %q", s.Output)
	}
	w.assign(w.chunks[0])
	testenv.Until(t, "its new plan", func() bool {
		x := w.server.registry.Get(100)
		x.Mu.Lock()
		defer x.Mu.Unlock()
		return len(x.list) == 1
	})
	close(let)
	for testutil.ToFloat64(w.server.metrics.secrets.WithLabelValues("refused")) == 0 {
		if r := a.next(); r.Name != "db" {
			t.Fatalf("asked for %+v", r)
		}
	}
}

// After a restart the server does not know what an agent was given: it keeps nothing of what may
// hold that. What a later session brings is hidden by what an earlier one was given.
func TestOutputsAfterARestart(t *testing.T) {
	ca := newAuthority(t)
	unasked := func(c *model.CheckChunk) *model.CheckChunk { c.RoundRobin = true; return c }
	w := newWorldBehind(t, ca.door(), func(c *Config) {
		c.Secret = secretText(func(context.Context, string, string) (string, error) { return horse, nil })
	})
	w.never = horse
	db := unasked(withSecret(1, "db", model.ChunkSecret{Env: "DB", Name: "default/db"}))
	w.chunks = []*model.CheckChunk{db, unasked(check(2, "disk", "df", nil))}
	a := w.proven(ca, "web1", false)
	event := func(a *agent, name, output string) {
		c := sensuwire.Protobuf
		r := testenv.Value(c.ParseRequest(c.AppendAsk(nil, &sensuwire.Ask{Name: name, Namespace: "default", Interval: 1})))(t)
		a.result(&r, 1, output)
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
	event(a, "db", horse)
	if s := w.result(1, func(*decoded) bool { return true }); string(s.Output) != outputRemoved || s.Status != model.Warning {
		t.Errorf("kept %q", s.Output)
	}
	event(a, "disk", "full")
	if s := w.result(2, func(*decoded) bool { return true }); string(s.Output) != "full" {
		t.Errorf("kept %q", s.Output)
	}
	w.server.registry.sentSecretsOf(100, true).add(db, []string{horse})
	a.conn.Close()
	testenv.Until(t, "its end", func() bool { return w.server.registry.Get(100) == nil })
	again := w.proven(ca, "web1", false)
	planned()
	event(again, "db", "with "+horse)
	if s := w.result(1, func(s *decoded) bool { return string(s.Output) != outputRemoved }); string(s.Output) != "with (hidden)" {
		t.Errorf("kept %q", s.Output)
	}
}

// What a node's agent was given is kept over its sessions, and no longer than the node.
func TestSecretsOfDeletedNodesAreDropped(t *testing.T) {
	ca := newAuthority(t)
	w := newWorldBehind(t, ca.door(), nil)
	db := withSecret(1, "db", model.ChunkSecret{Env: "DB", Name: "default/db"})
	a := w.proven(ca, "web1", false)
	id := w.session("web1").Node.ID
	w.server.registry.sentSecretsOf(id, true).add(db, []string{horse})
	remembers := func(when string, want bool) {
		t.Helper()
		w.server.forgetSentSecrets()
		g := w.server.registry.sentSecretsOf(id, false)
		if g == nil != !want {
			t.Fatalf("%s: remembered %v, want %v", when, g != nil, want)
		}
		if want {
			if _, known := g.hiderOf(db); !known {
				t.Errorf("%s: the value is gone", when)
			}
		}
	}
	remembers("connected", true)
	uid := a.uid()
	_ = a.conn.Close()
	testenv.Until(t, "its end", func() bool { return w.server.registry.Get(id) == nil })
	remembers("away", true)
	again := w.proven(ca, "web1", false)
	w.set(func() { delete(w.nodes, uid) })
	remembers("deleted, and its agent still there", true)
	_ = again.conn.Close()
	testenv.Until(t, "its end", func() bool { return w.server.registry.Get(id) == nil })
	remembers("gone", false)
	w.proven(ca, "web1", false) // begins anew
	w.set(func() { w.nodes[uid] = intent.NodeInfo{ID: id + 1, UID: uid} })
	w.server.registry.ForEach(func(x *session) { _ = x.Conn.Close() })
	testenv.Until(t, "its end", func() bool { return w.server.registry.Get(id) == nil })
	remembers("another node of that machine", false)
}

// Of each Secret the last few values are remembered.
func TestRememberedSecretsAreBounded(t *testing.T) {
	g, c := &sentSecrets{}, withSecret(1, "db", model.ChunkSecret{Env: "DB", Name: "default/db"})
	if _, known := g.hiderOf(c); known {
		t.Error("known before it was given")
	}
	for i := range 10 {
		g.add(c, []string{fmt.Sprint("value ", i)})
	}
	g.add(c, []string{"value 7"})
	if got := fmt.Sprint(g.values["default/db"]); got != "[value 6 value 8 value 9 value 7]" {
		t.Errorf("kept %s", got)
	}
	h, _ := g.hiderOf(c)
	if got := string(h.Redact([]byte("value 9, value 1"))); got != "(hidden), value 1" {
		t.Errorf("shown %q", got)
	}
}

// secretText is a core.SecretFunc of secrets without a lease.
func secretText(find func(ctx context.Context, namespace, name string) (string, error)) core.SecretFunc {
	return func(ctx context.Context, namespace, name string) (core.SecretValue, error) {
		text, err := find(ctx, namespace, name)
		return core.SecretValue{Text: text}, err
	}
}

// The request names the archive for the machine, with where it is and a word that opens it:
// to nobody else, and no other.
func TestAssetsOfSensuAgents(t *testing.T) {
	w := newWorld(t, nil)
	sum, other := strings.Repeat("ab", 64), strings.Repeat("cd", 64)
	w.chunks = []*model.CheckChunk{
		check(1, "disk", "check_disk", func(c *model.CheckChunk) {
			c.Interval = time.Hour
			c.Hooks = []model.Hook{{Name: "ps", When: []string{"ok"}, Command: &model.Command{Shell: "ps"}}}
			c.Assets = []model.ChunkAsset{{Name: "shared/tools", Builds: []model.AssetBuild{{SHA512: other, OS: "windows"}, {SHA512: sum, OS: "linux"}}}}
		}),
		check(2, "none", "x", func(c *model.CheckChunk) {
			c.Assets = []model.ChunkAsset{{Name: "tools", Builds: []model.AssetBuild{{SHA512: other, OS: "windows"}}}}
		}),
	}
	a := w.agent("web", false)
	if r := a.next(); r.Name != "disk" {
		t.Fatalf("asked for %+v", r)
	}
	w.wait("what has no archive", func() bool {
		for _, s := range w.signals {
			if s.Kind == wire.SignalResult && s.Chunk == 2 {
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
	asset := x.list[0].recipe.request.Assets[0]
	x.Mu.Unlock()
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
	if status, body := get(asset.URL, word); status != 200 || !bytes.Equal(body, archived) {
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
	if status, body := get(asset.URL, word); status != 403 || !strings.Contains(string(body), "no check of this node uses the archive") {
		t.Errorf("after it was taken away: %d %s", status, body)
	}
	w.agent("after", false) // agents still come
}
