package handler

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
)

// What went wrong is kept where everybody may read it: not the address, whose path may
// be a secret.
func TestWebhookErrorsHideSecrets(t *testing.T) {
	for _, url := range []string{
		"http://127.0.0.1:1/services/s3cret", "http://ann:s3cret@127.0.0.1:1/", "http://127.0.0.1:1/?key=s3cret", "http://[::1/s3cret", "http://127.0.0.1:s3cret/",
	} {
		err := send(t.Context(), &model.HandlerSpec{Webhook: &model.Webhook{URL: url, Headers: map[string]string{"Authorization": "s3cret"}}}, message("k", "{}"))
		if err == nil || strings.Contains(err.Error(), "/services") || strings.Contains(err.Error(), "s3cret@") || strings.Contains(err.Error(), "key=") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// A handler's command is told nothing of the server's own settings, nor of what else the server's
// environment holds: values of Secrets are there.
func TestCommandEnvironmentExcludesSettings(t *testing.T) {
	t.Setenv("PAGER_KEY", "s3cret")
	t.Setenv("TZ", "UTC")
	t.Setenv("MUSTER_INTENT_DB", "postgres://muster:s3cret@db/muster")
	t.Setenv("LANG", "C.UTF-8")
	env := environment([]string{"MUSTER_INTENT_DB=x", "LANG=C", "LC_ALL=C", "https_proxy=http://p", "PGPASSWORD=y", "VAULT_TOKEN=z", "MUSTER_IDEMPOTENCY_KEY=forged"}, map[string]string{"A": "b"}, nil, "key")
	if want := []string{"LANG=C", "LC_ALL=C", "https_proxy=http://p", "A=b", "MUSTER_IDEMPOTENCY_KEY=key"}; !slices.Equal(env, want) {
		t.Errorf("got %v, want %v", env, want)
	}
	spec := &model.HandlerSpec{Command: &model.Command{Shell: `test -z "$MUSTER_INTENT_DB" && test -z "$PAGER_KEY" && test "$TZ" = UTC && test "$LANG" = C.UTF-8 && test "$MUSTER_IDEMPOTENCY_KEY" = k1 && test "$A" = b`}, Env: map[string]string{"A": "b"}}
	if err := send(t.Context(), spec, message("k1", "{}")); err != nil {
		t.Error(err)
	}
	out := New(Options{})
	defer out.Close()
	made, _, err := out.Mutate(t.Context(), &model.MutatorSpec{Command: &model.Command{Shell: `echo "<$PAGER_KEY>"`}}, []byte("{}"))
	if err != nil || string(made) != "<>\n" {
		t.Errorf("a mutator knows %q, %v", made, err)
	}
}

// A Secret is read for each message; one that cannot be had is no final failure.
func TestSecretsReadPerMessage(t *testing.T) {
	value, err := "", errors.New("Vault is sealed")
	out := New(Options{Secret: func(_ context.Context, namespace, name string) (string, error) {
		if namespace != "team" || name != "key" {
			t.Errorf("asked for %s/%s", namespace, name)
		}
		return value, err
	}})
	defer out.Close()
	spec := &model.HandlerSpec{Command: &model.Command{Shell: `echo "with $KEY"; test "$KEY" = "$WANT"`}, Env: map[string]string{"WANT": "s3cret-1"}, Secrets: []model.CommandSecret{{Env: "KEY", Secret: "key"}}}
	spec.QualifyReferences("team")
	if _, failed := out.Send(t.Context(), spec, message("k", "{}")); failed == nil || failed.Error() != "spec.secrets[0]: secret team/key cannot be had: Vault is sealed" || errors.As(failed, new(*FinalError)) {
		t.Errorf("%v", failed)
	}
	value, err = "s3cret-1", nil
	if receipt, failed := out.Send(t.Context(), spec, message("k", "{}")); failed != nil || !strings.Contains(receipt.Answer, "with (hidden)") {
		t.Errorf("%+v, %v", receipt, failed)
	}
	value, spec.Env["WANT"] = "s3cret-2", "s3cret-2"
	if _, failed := out.Send(t.Context(), spec, message("k", "{}")); failed != nil {
		t.Error(failed)
	}
}

// A mutator's command has its secrets as a handler's has; what it writes goes to the handler, and
// nowhere else: neither what went wrong nor what is told of the message shows them.
func TestMutatorSecrets(t *testing.T) {
	failed := errors.New("Vault is sealed")
	out := New(Options{Secret: func(_ context.Context, namespace, name string) (string, error) {
		return "s3cret of " + namespace + "/" + name, failed
	}})
	defer out.Close()
	spec := (&model.MutatorSpec{Command: &model.Command{Shell: `cat; echo "with $KEY" | tee /dev/stderr; test -z "$FAIL"`}, Secrets: []model.CommandSecret{{Env: "KEY", Secret: "key"}}}).QualifyReferences("team")
	if _, _, err := out.Mutate(t.Context(), spec, []byte("{}")); err == nil || err.Error() != "spec.secrets[0]: secret team/key cannot be had: Vault is sealed" || errors.As(err, new(*FinalError)) {
		t.Errorf("%v", err)
	}
	failed = nil
	made, hidden, err := out.Mutate(t.Context(), spec, []byte("{}"))
	if err != nil || string(made) != "{}with s3cret of team/key\n" {
		t.Fatalf("%q, %v", made, err)
	}
	m := message("k", "{}")
	m.Payload, m.Hidden = made, hidden
	receipt, err := out.Send(t.Context(), &model.HandlerSpec{Command: &model.Command{Shell: "cat; exit 1"}}, m)
	if err == nil || strings.Contains(err.Error(), "s3cret") || strings.Contains(receipt.Sent+receipt.Answer, "s3cret") || !strings.Contains(receipt.Answer, "with (hidden)") {
		t.Errorf("%+v, %v", receipt, err)
	}
	spec.Env = map[string]string{"FAIL": "yes"}
	if _, _, err := out.Mutate(t.Context(), spec, []byte("{}")); err == nil || strings.Contains(err.Error(), "s3cret") || !strings.Contains(err.Error(), "with (hidden)") {
		t.Errorf("%v", err)
	}
}

// What is cut is hidden before: no part of a secret is left at an end.
func TestCutOutputHidesSecrets(t *testing.T) {
	const secret = "s3cret-token-0123456789"
	out := New(Options{Secret: func(context.Context, string, string) (string, error) { return secret, nil }})
	defer out.Close()
	peer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, strings.Repeat("x", 500)+r.Header.Get("Authorization")+" and more")
	}))
	defer peer.Close()
	command := []model.CommandSecret{{Env: "KEY", Secret: "key"}}
	for name, spec := range map[string]*model.HandlerSpec{
		"what a command ended with": {Command: &model.Command{Shell: `echo "curl -H token:$KEY"; printf '%0495d\n' 0; exit 1`}, Secrets: command},
		"what an answer began with": {Webhook: &model.Webhook{URL: peer.URL, Token: model.Secret{FromEnv: "TOKEN"}}},
	} {
		out.opts.Getenv = func(string) (string, bool) { return secret, true }
		spec.QualifyReferences("team")
		receipt, err := out.Send(t.Context(), spec, message("k", "{}"))
		all := receipt.Answer + fmt.Sprint(err)
		for n := 6; n <= len(secret); n++ {
			if strings.Contains(all, secret[len(secret)-n:]) || strings.Contains(all, secret[:n]) {
				t.Errorf("%s: %d letters are left: %q", name, n, all)
				break
			}
		}
		if err == nil || !strings.Contains(all, "(hid") && !strings.Contains(all, "en)") {
			t.Errorf("%s: %q", name, all)
		}
	}
}
