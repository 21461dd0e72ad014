package secrets

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// TestSecretsInEnvironmentAndFolderAreRead reads secrets from variables and files, and expects errors for files
// outside the folder of secrets. Links out of the folder must be refused.
func TestSecretsInEnvironmentAndFolderAreRead(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "outside")
	for path, text := range map[string]string{filepath.Join(dir, "pin"): "12 34\n", outside: "not yours", filepath.Join(dir, "short"): "abc"} {
		testenv.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	for name, to := range map[string]string{"link": outside, "inner": "pin"} {
		testenv.NoError(t, os.Symlink(to, filepath.Join(dir, name)))
	}
	k := New(Options{Dir: dir, Getenv: func(name string) (string, bool) { return "from " + name, name == "MUSTER_SECRET_THERE" }})
	for _, c := range []struct {
		s         model.DefinitionSecret
		want, err string
	}{
		{s: model.DefinitionSecret{AgentFile: "pin"}, want: "12 34"},
		{s: model.DefinitionSecret{AgentFile: "inner"}, want: "12 34"},
		{s: model.DefinitionSecret{AgentEnv: "THERE"}, want: "from MUSTER_SECRET_THERE"},
		{s: model.DefinitionSecret{AgentEnv: "GONE"}, err: "the agent's environment has no variable MUSTER_SECRET_GONE"},
		{s: model.DefinitionSecret{AgentFile: "none"}, err: "no such file"},
		{s: model.DefinitionSecret{AgentFile: "short"}, err: "shorter than 4 bytes"},
		{s: model.DefinitionSecret{AgentFile: "link"}, err: "escapes"},
		{s: model.DefinitionSecret{AgentFile: "../outside"}, err: "escapes"},
		{s: model.DefinitionSecret{AgentFile: outside}, err: "escapes"},
		{s: model.DefinitionSecret{AgentFile: "."}, err: "is not a regular file"},
	} {
		c.s.Env, c.s.Name = "V", "default/s"
		got, err := k.Find(t.Context(), []model.DefinitionSecret{c.s})
		if c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err) || !strings.HasPrefix(err.Error(), "secret default/s is not available: ")) || c.err == "" && (err != nil || got["V"] != c.want) {
			t.Errorf("%+v: %v, %v", c.s, got, err)
		}
	}
}

var db = []model.DefinitionSecret{{Env: "PW", Name: "default/db"}}

// replyToRequest answers the next request of a Resolver (finder of secrets) with one value, as the server does.
func replyToRequest(t *testing.T, k *Resolver, g wire.SecretValue) {
	t.Helper()
	<-k.Ready()
	x, ok := k.Next(0)
	if !ok || len(x.SecretsRequest.Names) != 1 || x.SecretsRequest.Names[0] != g.Name {
		t.Errorf("asked %+v", x)
		return
	}
	k.Reply(&wire.Exchange{ID: x.ID, SecretsReply: &wire.SecretsReply{Values: []wire.SecretValue{g}}})
}

// TestServerSecretIsCachedForItsLease requests a secret several times, and expects one request to the server per lease.
func TestServerSecretIsCachedForItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := New(Options{})
		defer k.Close()
		k.Connected(true)
		find := func(want string) {
			t.Helper()
			got, err := k.Find(t.Context(), db)
			if err != nil || got["PW"] != want {
				t.Errorf("got %v, %v, want %s", got, err, want)
			}
		}
		go replyToRequest(t, k, wire.SecretValue{Name: "default/db", Value: []byte("first one"), LeaseMs: 60000})
		find("first one")
		find("first one") // the Keeper still has the value: no request
		time.Sleep(59 * time.Second)
		k.Disconnected() // the value stays until its lease ends
		find("first one")
		k.Connected(true)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if len(k.leasedValues) != 0 {
			t.Error("the Keeper has the value after its lease")
		}
		go replyToRequest(t, k, wire.SecretValue{Name: "default/db", Value: []byte("second one")})
		find("second one")
		if len(k.leasedValues) != 0 {
			t.Error("the Keeper has a value without a lease")
		}
		go replyToRequest(t, k, wire.SecretValue{Name: "default/db", Value: []byte("third one"), LeaseMs: 60000})
		find("third one")
		directive := &model.DirectiveDefinition{Secrets: []model.DefinitionSecret{{Name: "default/db"}}}
		if k.RemoveUnused([]*model.Definition{directive.ToDefinition()}); len(k.leasedValues) != 1 {
			t.Error("the Keeper has lost a value that a directive names")
		}
		k.RemoveUnused([]*model.Definition{(&model.CheckDefinition{Secrets: []model.DefinitionSecret{{Name: "default/other"}}}).ToDefinition(),
			(&model.TemplateDefinition{Secrets: []model.DefinitionSecret{{Env: "{$DB}", Name: "default/db"}}}).ToDefinition()})
		if len(k.leasedValues) != 1 {
			t.Error("the Keeper has no value that a Template names")
		}
		k.RemoveUnused([]*model.Definition{(&model.CheckDefinition{Secrets: []model.DefinitionSecret{{Name: "default/other"}}}).ToDefinition()})
		if len(k.leasedValues) != 0 {
			t.Error("the Keeper has a value that no definition names")
		}
	})
}

// TestMissingAnswerOfTheServerIsAnError requests a secret from a server that does not answer, and expects an error
// after 15 seconds.
func TestMissingAnswerOfTheServerIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := New(Options{})
		fails := func(want string, after time.Duration) {
			t.Helper()
			began := time.Now()
			_, err := k.Find(t.Context(), db)
			if err == nil || !strings.Contains(err.Error(), "secret default/db is not available: "+want) || time.Since(began) != after {
				t.Errorf("after %v: %v, want %s after %v", time.Since(began), err, want, after)
			}
		}
		fails("the value is on the server, and the agent has no session", answerTimeout) // as the agent begins, it may come
		time.Sleep(time.Second)
		fails("the value is on the server, and the agent has no session", 0)
		k.Connected(true)
		fails("the server did not answer", answerTimeout)
		k.Connected(false)
		fails("the server does not support secrets: update the server", 0)
		k.Disconnected()
		k.Connected(true)
		<-k.Ready()
		for { // the Keeper drops the requests that timed out
			x, ok := k.Next(0)
			if !ok {
				break
			}
			t.Errorf("asks %+v", x)
		}
		go replyToRequest(t, k, wire.SecretValue{Name: "default/db", Error: "Vault is sealed"})
		fails("Vault is sealed", 0)
		go replyToRequest(t, k, wire.SecretValue{Name: "default/db", Value: []byte("abc")})
		fails("the value is shorter", 0)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := k.Find(ctx, db); err == nil {
			t.Error("Find returned a value after the context ended")
		}
	})
}

// TestUnansweredRequestsAreRepeatedInTheNextSession disconnects before the answer and expects the request again in
// the next session.
func TestUnansweredRequestsAreRepeatedInTheNextSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := New(Options{})
		defer k.Close()
		k.Connected(true)
		done := make(chan error, 1)
		go func() { _, err := k.Find(t.Context(), db); done <- err }()
		<-k.Ready()
		lost, _ := k.Next(0)
		k.Disconnected()
		time.Sleep(3 * time.Second)
		k.Connected(true)
		replyToRequest(t, k, wire.SecretValue{Name: "default/db", Value: []byte("a value"), LeaseMs: 1000})
		if err := <-done; err != nil {
			t.Error(err)
		}
		k.Reply(&wire.Exchange{ID: lost.ID, SecretsReply: &wire.SecretsReply{}}) // twice, and of an answer without it: nothing happens
	})
}
