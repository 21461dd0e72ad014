package handler

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// maxWait is how long a test waits for what must happen. No test waits it out.
const maxWait = 30 * time.Second

var testTime = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// newMessage returns a Message with an idempotency key and a notification, given as JSON.
func newMessage(key, payload string) *Message {
	n, err := Decode([]byte(payload))
	if err != nil {
		panic(err)
	}
	return &Message{Key: key, Payload: []byte(payload), Note: n}
}

// newTestSender returns a Sender that is closed at the end of the test.
func newTestSender(t testing.TB, o Options) *Sender {
	out := New(o)
	t.Cleanup(out.Close)
	return out
}

// sendOneMessage sends a message with a new Sender, in one attempt.
func sendOneMessage(ctx context.Context, spec *model.HandlerSpec, m *Message) error {
	out := New(Options{Now: func() time.Time { return testTime }})
	defer out.Close()
	_, err := out.Send(ctx, spec, m)
	return err
}

// receiveFrom returns the next value of a channel, or fails the test if none arrives in time.
func receiveFrom[T any](t testing.TB, what string, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(maxWait):
		t.Fatalf("no %s in time", what)
		panic("unreachable")
	}
}

// TestRetryAfterIsParsed parses valid and invalid Retry-After headers, and compares the resulting pauses.
func TestRetryAfterIsParsed(t *testing.T) {
	for _, c := range []struct {
		header string
		want   time.Duration
	}{
		{"", 0}, {"soon", 0}, {"-5", 0}, {"7", 7 * time.Second}, {"999999", 24 * time.Hour},
		{testTime.Add(90 * time.Second).Format(http.TimeFormat), 90 * time.Second}, {testTime.Add(-time.Hour).Format(http.TimeFormat), 0},
	} {
		if got := retryAfterOf(c.header, testTime); got != c.want {
			t.Errorf("%q: %s, want %s", c.header, got, c.want)
		}
	}
}

// TestWebhookTrustsItsCA sends webhooks to a TLS server, and expects success only with the server's CA. The handler's
// CA file must contain that CA.
func TestWebhookTrustsItsCA(t *testing.T) {
	got := make(chan string, 2)
	server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- r.Header.Get("X-Token") + " " + string(body)
	}))
	defer server.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	data := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	testenv.NoError(t, os.WriteFile(ca, data, 0o600))
	one := newMessage("k", "{}")
	hook := &model.Webhook{URL: server.URL, Headers: map[string]string{"X-Token": "secret"}}
	if err := sendOneMessage(t.Context(), &model.HandlerSpec{Webhook: hook}, one); err == nil {
		t.Error("an unknown CA was trusted")
	}
	hook.CA = ca
	if err := sendOneMessage(t.Context(), &model.HandlerSpec{Webhook: hook}, one); err != nil {
		t.Error(err)
	}
	if s := receiveFrom(t, "request", got); s != "secret {}" {
		t.Errorf("got %q", s)
	}
}

// TestCommandGetsTheNotification expects a handler's command to get the notification as input and its
// idempotency key in the environment.
func TestCommandGetsTheNotification(t *testing.T) {
	one := newMessage("p1/opened/default/pager", `{"version":1}`)
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	spec := &model.HandlerSpec{
		Command: &model.Command{Shell: `cat > "$OUT"; echo "$MUSTER_IDEMPOTENCY_KEY" >> "$OUT"`}, Env: map[string]string{"OUT": out},
	}
	testenv.NoError(t, sendOneMessage(t.Context(), spec, one))
	if got, _ := os.ReadFile(out); string(got) != "{\"version\":1}\np1/opened/default/pager\n" {
		t.Errorf("the command got %q", got)
	}

	spec = &model.HandlerSpec{Command: &model.Command{Argv: []string{"/bin/sh", "-c", "head -c 1000000 /dev/zero | tr '\\0' x; echo no route; exit 3"}}}
	err := sendOneMessage(t.Context(), spec, one)
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.HasSuffix(err.Error(), "no route") || len(err.Error()) > 700 {
		t.Errorf("a failing command: %.800v", err)
	}

	spec.Command.Argv = []string{"/bin/sh", "-c", "exit 3"}
	if err := sendOneMessage(t.Context(), spec, one); err == nil || !strings.HasSuffix(err.Error(), "exit status 3") {
		t.Errorf("a command that fails silently: %v", err)
	}
	if err := sendOneMessage(t.Context(), &model.HandlerSpec{}, one); !IsFinal(err) {
		t.Errorf("no command: %v", err)
	}
}

// TestCommandTimeoutKillsChildren cancels a handler's command and expects its child process to end.
func TestCommandTimeoutKillsChildren(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	spec := &model.HandlerSpec{Command: &model.Command{Shell: `sleep 600 & echo $! > "$F.new"; mv "$F.new" "$F"; wait`}, Env: map[string]string{"F": file}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- sendOneMessage(ctx, spec, newMessage("k", "{}")) }()
	var pid int
	testenv.Until(t, "the child runs", func() bool {
		data, err := os.ReadFile(file)
		pid, _ = strconv.Atoi(strings.TrimSpace(string(data)))
		return err == nil
	})
	cancel() // has the effect of the time-out
	if err := receiveFrom(t, "end", ended); err == nil || !strings.Contains(err.Error(), "timed out") {
		t.Errorf("%v", err)
	}
	testenv.Until(t, "the child is gone", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || strings.Contains(string(stat), ") Z ")
	})
}

// TestWebhookErrorsHideTheAddress expects no webhook address in errors, because the address's path may be a
// secret.
func TestWebhookErrorsHideTheAddress(t *testing.T) {
	for _, url := range []string{
		"http://127.0.0.1:1/services/s3cret", "http://ann:s3cret@127.0.0.1:1/", "http://127.0.0.1:1/?key=s3cret", "http://[::1/s3cret", "http://127.0.0.1:s3cret/",
	} {
		err := sendOneMessage(t.Context(), &model.HandlerSpec{Webhook: &model.Webhook{URL: url, Headers: map[string]string{"Authorization": "s3cret"}}}, newMessage("k", "{}"))
		if err == nil || strings.Contains(err.Error(), "/services") || strings.Contains(err.Error(), "s3cret@") || strings.Contains(err.Error(), "key=") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// TestCommandEnvironmentExcludesSettings expects a handler's command to get none of the server's settings. It also
// gets no other variable that may be a secret.
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
	if err := sendOneMessage(t.Context(), spec, newMessage("k1", "{}")); err != nil {
		t.Error(err)
	}
	out := newTestSender(t, Options{})
	made, _, err := out.Mutate(t.Context(), &model.MutatorSpec{Command: &model.Command{Shell: `echo "<$PAGER_KEY>"`}}, []byte("{}"))
	if err != nil || string(made) != "<>\n" {
		t.Errorf("a mutator knows %q, %v", made, err)
	}
}

// TestNamedSecretsAreReadForEachMessage changes the value of a Secret resource, and expects the next message to
// use the new value. If the Secret is missing, the message is retried later.
func TestNamedSecretsAreReadForEachMessage(t *testing.T) {
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
	if _, failed := out.Send(t.Context(), spec, newMessage("k", "{}")); failed == nil || failed.Error() != "spec.secrets[0]: read secret team/key: Vault is sealed" || IsFinal(failed) {
		t.Errorf("%v", failed)
	}
	value, err = "s3cret-1", nil
	if receipt, failed := out.Send(t.Context(), spec, newMessage("k", "{}")); failed != nil || !strings.Contains(receipt.Answer, "with (hidden)") {
		t.Errorf("%+v, %v", receipt, failed)
	}
	value, spec.Env["WANT"] = "s3cret-2", "s3cret-2"
	if _, failed := out.Send(t.Context(), spec, newMessage("k", "{}")); failed != nil {
		t.Error(failed)
	}
}

// TestMutatorSecretsReachOnlyTheHandler lets a mutator output a secret, and expects the secret in the message
// but not in errors. Errors and receipts hide the secrets.
func TestMutatorSecretsReachOnlyTheHandler(t *testing.T) {
	failed := errors.New("Vault is sealed")
	out := New(Options{Secret: func(_ context.Context, namespace, name string) (string, error) {
		return "s3cret of " + namespace + "/" + name, failed
	}})
	defer out.Close()
	spec := (&model.MutatorSpec{Command: &model.Command{Shell: `cat; echo "with $KEY" | tee /dev/stderr; test -z "$FAIL"`}, Secrets: []model.CommandSecret{{Env: "KEY", Secret: "key"}}}).QualifyReferences("team")
	if _, _, err := out.Mutate(t.Context(), spec, []byte("{}")); err == nil || err.Error() != "spec.secrets[0]: read secret team/key: Vault is sealed" || IsFinal(err) {
		t.Errorf("%v", err)
	}
	failed = nil
	made, hidden, err := out.Mutate(t.Context(), spec, []byte("{}"))
	if err != nil || string(made) != "{}with s3cret of team/key\n" {
		t.Fatalf("%q, %v", made, err)
	}
	m := newMessage("k", "{}")
	m.Payload, m.Secrets = made, hidden
	receipt, err := out.Send(t.Context(), &model.HandlerSpec{Command: &model.Command{Shell: "cat; exit 1"}}, m)
	if err == nil || strings.Contains(err.Error(), "s3cret") || strings.Contains(receipt.Sent+receipt.Answer, "s3cret") || !strings.Contains(receipt.Answer, "with (hidden)") {
		t.Errorf("%+v, %v", receipt, err)
	}
	spec.Env = map[string]string{"FAIL": "yes"}
	if _, _, err := out.Mutate(t.Context(), spec, []byte("{}")); err == nil || strings.Contains(err.Error(), "s3cret") || !strings.Contains(err.Error(), "with (hidden)") {
		t.Errorf("%v", err)
	}
}

// TestCutOutputHidesSecrets cuts a command's long output, and expects secrets to be redacted before the cut. So
// no part of a secret remains at the cut.
func TestCutOutputHidesSecrets(t *testing.T) {
	const secret = "s3cret-token-0123456789"
	out := newTestSender(t, Options{Secret: func(context.Context, string, string) (string, error) { return secret, nil }})
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
		receipt, err := out.Send(t.Context(), spec, newMessage("k", "{}"))
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

// TestCommandUsesItsAssets runs a handler's command that calls a program of the handler's Asset (program
// archive). If the asset cannot be fetched, the message waits and is sent again later.
func TestCommandUsesItsAssets(t *testing.T) {
	dir, held := t.TempDir(), 0
	program := filepath.Join(dir, "bin", "tell")
	testenv.NoError(t, os.Mkdir(filepath.Dir(program), 0o755))
	testenv.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\necho \"$1 $CHECK_PLUGINS_PATH $LD_LIBRARY_PATH $CPATH\"; cat\n"), 0o755))
	var missing error
	out := New(Options{Assets: func(_ context.Context, names []string) ([]model.AssetDir, func(), error) {
		if fmt.Sprint(names) != "[team/check-plugins]" {
			t.Errorf("asked for %v", names)
		}
		if missing != nil {
			return nil, nil, missing
		}
		held++
		return []model.AssetDir{{Name: names[0], Dir: dir}}, func() { held-- }, nil
	}})
	defer out.Close()
	want := fmt.Sprintf("--now %[1]s %[1]s/lib:/opt/lib %[1]s/include", dir)
	for _, command := range []*model.Command{{Argv: []string{"tell", "--now"}}, {Argv: []string{program, "--now"}}, {Shell: "tell --now"}} {
		spec := &model.HandlerSpec{Command: command, Assets: []string{"check-plugins"}, Env: map[string]string{"LD_LIBRARY_PATH": "/opt/lib"}}
		spec.QualifyReferences("team")
		missing = nil
		if receipt, err := out.Send(t.Context(), spec, newMessage("k", `{"version":1}`)); err != nil || !strings.Contains(receipt.Answer, strings.Replace(want, "/opt/lib", model.RedactedText, 1)+"\n{\"version\":1}") {
			t.Errorf("%v: %+v %v", command, receipt, err)
		}
		mutator := &model.MutatorSpec{Command: command, Assets: spec.Assets, Env: spec.Env}
		if got, _, err := out.Mutate(t.Context(), mutator, []byte("event")); err != nil || string(got) != want+"\nevent" {
			t.Errorf("%v: %q %v", command, got, err)
		}
		missing = errors.New("this server has no archive of asset team/check-plugins: no room")
		if _, err := out.Send(t.Context(), spec, newMessage("k", `{"version":1}`)); !errors.Is(err, missing) || IsFinal(err) {
			t.Errorf("%v", err)
		}
		if _, _, err := out.Mutate(t.Context(), mutator, []byte("event")); !errors.Is(err, missing) || IsFinal(err) {
			t.Errorf("%v", err)
		}
	}
	if held != 0 {
		t.Errorf("%d are held although nothing runs", held)
	}
	spec := &model.HandlerSpec{Command: &model.Command{Argv: []string{"nothing-like-that"}}, Assets: []string{"team/check-plugins"}}
	missing = nil
	if _, err := out.Send(t.Context(), spec, newMessage("k", "{}")); err == nil || !strings.Contains(err.Error(), "not found") {
		t.Errorf("%v", err)
	}
}
