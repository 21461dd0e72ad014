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
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// patience is how long a test waits for what must happen. No test waits it out.
const patience = 30 * time.Second

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// message is one whose notification says what payload does.
func message(key, payload string) *Message {
	n, err := Decode([]byte(payload))
	if err != nil {
		panic(err)
	}
	return &Message{Key: key, Payload: []byte(payload), Note: n}
}

// send makes one attempt by an Out of its own.
func send(ctx context.Context, spec *model.HandlerSpec, m *Message) error {
	out := New(Options{Now: func() time.Time { return noon }})
	defer out.Close()
	_, err := out.Send(ctx, spec, m)
	return err
}

func receive[T any](t testing.TB, what string, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		t.Fatalf("no %s in time", what)
		panic("unreachable")
	}
}

func TestRetryAfter(t *testing.T) {
	for _, c := range []struct {
		header string
		want   time.Duration
	}{
		{"", 0}, {"soon", 0}, {"-5", 0}, {"7", 7 * time.Second}, {"999999", 24 * time.Hour},
		{noon.Add(90 * time.Second).Format(http.TimeFormat), 90 * time.Second}, {noon.Add(-time.Hour).Format(http.TimeFormat), 0},
	} {
		if got := retryAfter(c.header, noon); got != c.want {
			t.Errorf("%q: %s, want %s", c.header, got, c.want)
		}
	}
}

func TestWebhookCA(t *testing.T) {
	got := make(chan string, 2)
	server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- r.Header.Get("X-Token") + " " + string(body)
	}))
	defer server.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	data := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(ca, data, 0o600); err != nil {
		t.Fatal(err)
	}
	one := message("k", "{}")
	hook := &model.Webhook{URL: server.URL, Headers: map[string]string{"X-Token": "secret"}}
	if err := send(t.Context(), &model.HandlerSpec{Webhook: hook}, one); err == nil {
		t.Error("an unknown CA was trusted")
	}
	hook.CA = ca
	if err := send(t.Context(), &model.HandlerSpec{Webhook: hook}, one); err != nil {
		t.Error(err)
	}
	if s := receive(t, "request", got); s != "secret {}" {
		t.Errorf("got %q", s)
	}
}

func TestCommand(t *testing.T) {
	one := message("p1/opened/default/pager", `{"version":1}`)
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	spec := &model.HandlerSpec{
		Command: &model.Command{Shell: `cat > "$OUT"; echo "$MUSTER_IDEMPOTENCY_KEY" >> "$OUT"`}, Env: map[string]string{"OUT": out},
	}
	if err := send(t.Context(), spec, one); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(out); string(got) != "{\"version\":1}\np1/opened/default/pager\n" {
		t.Errorf("the command got %q", got)
	}

	spec = &model.HandlerSpec{Command: &model.Command{Argv: []string{"/bin/sh", "-c", "head -c 1000000 /dev/zero | tr '\\0' x; echo no route; exit 3"}}}
	err := send(t.Context(), spec, one)
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.HasSuffix(err.Error(), "no route") || len(err.Error()) > 700 {
		t.Errorf("a failing command: %.800v", err)
	}

	if err := send(t.Context(), &model.HandlerSpec{}, one); !errors.As(err, new(*FinalError)) {
		t.Errorf("no command: %v", err)
	}
}

func TestCommandTimeoutKillsChildren(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	spec := &model.HandlerSpec{Command: &model.Command{Shell: `sleep 600 & echo $! > "$F.new"; mv "$F.new" "$F"; wait`}, Env: map[string]string{"F": file}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- send(ctx, spec, message("k", "{}")) }()
	var pid int
	testenv.Until(t, "the child runs", func() bool {
		data, err := os.ReadFile(file)
		pid, _ = strconv.Atoi(strings.TrimSpace(string(data)))
		return err == nil
	})
	cancel() // as the time-out does
	if err := receive(t, "end", ended); err == nil || !strings.Contains(err.Error(), "timed out") {
		t.Errorf("%v", err)
	}
	testenv.Until(t, "the child is gone", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || strings.Contains(string(stat), ") Z ")
	})
}
