package react

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/store/history"
	"github.com/muster-fleet/muster/internal/testenv"
)

var quick = Retry{First: time.Millisecond, Most: 2 * time.Millisecond, GiveUp: time.Hour, PerHandler: 2}

func TestWebhookAnswers(t *testing.T) {
	for code, want := range map[int]history.DeliveryState{
		200: history.Delivered, 204: history.Delivered, 302: history.Dead, 400: history.Dead, 404: history.Dead,
		408: history.Pending, 429: history.Pending, 500: history.Pending, 503: history.Pending,
	} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			s := sqlite(t)
			tries := 0
			spec, got := hook(t, func(posted) int {
				if tries++; tries > 1 {
					return 200
				}
				return code
			})
			r := run(t, Options{Store: s, Names: someNames(map[string]*model.HandlerSpec{"pager": spec}), Retry: quick})
			r.Emit([]event.Transition{opening("p1", 1)})
			first := receive(t, "request", got)
			a := receive(t, "attempt", s.tried)
			if a.State != want {
				t.Fatalf("%+v", a)
			}
			if want == history.Delivered {
				return
			}
			if !strings.Contains(a.Error, strconv.Itoa(code)) {
				t.Errorf("error %q", a.Error)
			}
			if want == history.Pending {
				if again := receive(t, "second request", got); again != first {
					t.Errorf("the second try differs: %+v", again)
				}
				if a := receive(t, "attempt", s.tried); a.State != history.Delivered {
					t.Errorf("%+v", a)
				}
			}
		})
	}
}

func TestOrderPerProblemWhileTheOpeningFails(t *testing.T) {
	s := sqlite(t)
	tries := 0
	spec, got := hook(t, func(posted) int {
		if tries++; tries <= 3 {
			return 503
		}
		return 200
	})
	r := run(t, Options{Store: s, Names: someNames(map[string]*model.HandlerSpec{"pager": spec}), Retry: quick})
	r.Emit([]event.Transition{opening("p1", 1), closing("p1", 2)})
	for i, want := range []string{"opened", "opened", "opened", "opened", "closed"} {
		if p := receive(t, "request", got); !strings.Contains(p.key, want) {
			t.Fatalf("request %d is %s, want %s", i, p.key, want)
		}
	}
}

func TestAMessageIsGivenUpAndSeen(t *testing.T) {
	s := sqlite(t)
	spec, _ := hook(t, func(posted) int { return 503 })
	retry := quick
	retry.GiveUp = 20 * time.Millisecond
	r := run(t, Options{Store: s, Names: someNames(map[string]*model.HandlerSpec{"pager": spec}), Retry: retry})
	r.Emit([]event.Transition{opening("p1", 1)})
	for receive(t, "attempt", s.tried).State != history.Dead {
	}
	list, err := s.Deliveries(t.Context(), "p1")
	if err != nil || len(list) != 1 || list[0].State != history.Dead || !strings.Contains(list[0].LastError, "503") {
		t.Errorf("%+v, %v", list, err)
	}
}

func TestAHandlerThatComesLaterIsTold(t *testing.T) {
	s := sqlite(t)
	n := someNames(map[string]*model.HandlerSpec{})
	n.chunk.Handlers = []string{"pager"}
	r := run(t, Options{Store: s, Names: n, Retry: quick})
	r.Emit([]event.Transition{opening("p1", 1)})
	if a := receive(t, "attempt", s.tried); a.State != history.Pending || !strings.Contains(a.Error, "does not exist") {
		t.Fatalf("%+v", a)
	}
	spec, got := hook(t, nil)
	n.set("pager", spec)
	receive(t, "request", got)
}

// However many messages wait for a handler that hangs, another is told at once.
func TestAHangingHandlerHoldsBackNobody(t *testing.T) {
	s := sqlite(t)
	release := make(chan struct{})
	hangs, hanging := hook(t, func(posted) int { <-release; return 200 })
	t.Cleanup(func() { close(release) }) // before the server closes
	good, got := hook(t, nil)
	n := someNames(map[string]*model.HandlerSpec{"hangs": hangs, "good": good})
	var b history.Batch
	for i := range 2 * dueAtOnce {
		b.Deliveries = append(b.Deliveries, history.Delivery{
			Key: fmt.Sprint(i), Problem: fmt.Sprint(i), Handler: history.HandlerRef{Namespace: "default", Name: "hangs"},
			Kind: "opened", Payload: []byte("{}"), Created: noon,
		})
	}
	if err := s.Store.Record(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	r := run(t, Options{Store: s, Names: n, Retry: quick})
	receive(t, "first of those that hang", hanging)
	r.Emit([]event.Transition{opening("p1", 1)})
	if p := receive(t, "other handler's request", got); p.key != "p1/opened/default/good" {
		t.Errorf("%+v", p)
	}
}

func TestWebhookTrustsItsCA(t *testing.T) {
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
	one := history.Delivery{Key: "k", Payload: []byte("{}")}
	hook := &model.Webhook{URL: server.URL, Headers: map[string]string{"X-Token": "secret"}}
	if err := post(t.Context(), hook, one); err == nil {
		t.Error("an unknown CA was trusted")
	}
	hook.CA = ca
	if err := post(t.Context(), hook, one); err != nil {
		t.Error(err)
	}
	if s := receive(t, "request", got); s != "secret {}" {
		t.Errorf("got %q", s)
	}
}

func TestCommand(t *testing.T) {
	one := history.Delivery{Key: "p1/opened/default/pager", Payload: []byte(`{"version":1}`)}
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	spec := &model.HandlerSpec{
		Command: &model.Command{Shell: `cat > "$OUT"; echo "$MUSTER_IDEMPOTENCY_KEY" >> "$OUT"`}, Env: map[string]string{"OUT": out},
	}
	if err := pipe(t.Context(), spec, one, patience); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(out); string(got) != "{\"version\":1}\np1/opened/default/pager\n" {
		t.Errorf("the command got %q", got)
	}

	spec = &model.HandlerSpec{Command: &model.Command{Argv: []string{"/bin/sh", "-c", "head -c 1000000 /dev/zero | tr '\\0' x; echo no route; exit 3"}}}
	err := pipe(t.Context(), spec, one, patience)
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.HasSuffix(err.Error(), "no route") || len(err.Error()) > 700 {
		t.Errorf("a failing command: %.800v", err)
	}

	if err := pipe(t.Context(), &model.HandlerSpec{}, one, patience); !errors.As(err, new(*FinalError)) {
		t.Errorf("no command: %v", err)
	}
}

func TestACommandIsKilledWithItsChildren(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	spec := &model.HandlerSpec{Command: &model.Command{Shell: `sleep 600 & echo $! > "$F.new"; mv "$F.new" "$F"; wait`}, Env: map[string]string{"F": file}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- pipe(ctx, spec, history.Delivery{}, time.Minute) }()
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

// A server that is killed after a handler got its message, and before that is
// recorded, tells it again with the same key.
func TestKilledBetweenDeliveryAndRecord(t *testing.T) {
	if os.Getenv("MUSTER_REACT_CHILD") != "" {
		child(t)
		return
	}
	dsn := filepath.Join(t.TempDir(), "history.db")
	spec, got := hook(t, nil)
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledBetweenDeliveryAndRecord$")
	cmd.Env = append(os.Environ(), "MUSTER_REACT_CHILD="+dsn, "MUSTER_REACT_URL="+spec.Webhook.URL)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	first := receive(t, "message from the one that is killed", got)
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	cmd.Wait() // it was killed: the error says so

	s := openStore(t, dsn)
	run(t, Options{Store: s, Names: someNames(map[string]*model.HandlerSpec{"pager": spec}), Retry: quick})
	if again := receive(t, "message from the next", got); again != first {
		t.Errorf("told %+v, then %+v", first, again)
	}
	if a := receive(t, "attempt", s.tried); a.State != history.Delivered {
		t.Errorf("%+v", a)
	}
}

// child delivers, and never gets to recording it: the parent kills it.
func child(t *testing.T) {
	s := openStore(t, os.Getenv("MUSTER_REACT_CHILD"))
	spec := &model.HandlerSpec{Webhook: &model.Webhook{URL: os.Getenv("MUSTER_REACT_URL")}}
	n := someNames(map[string]*model.HandlerSpec{"pager": spec})
	r := run(t, Options{Store: forgetful{s}, Names: n, Retry: quick})
	r.Emit([]event.Transition{opening("p1", 1)})
	select {}
}

type forgetful struct{ history.Store }

func (forgetful) Tried(ctx context.Context, _ int64, _ history.Attempt) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestAHandlerKnowsThePropertiesOfTheNode(t *testing.T) {
	s := sqlite(t)
	spec, got := hook(t, nil)
	spec.Webhook.URL += `/{{ .props.team }}?room={{ .props.room | default "a&b" }}`
	spec.Webhook.Headers = map[string]string{"X-Team": "{{ .props.team }}"}
	n := someNames(map[string]*model.HandlerSpec{"pager": spec})
	r := run(t, Options{Store: s, Names: n, Retry: quick})
	r.Emit([]event.Transition{opening("p1", 1)})
	// Unset is an error that names the property, and is tried again.
	if a := receive(t, "attempt", s.tried); a.State != history.Pending || !strings.Contains(a.Error, `"team"`) {
		t.Fatalf("%+v", a)
	}
	n.mu.Lock()
	n.props = map[string]string{"10/team": `"web/../x y"`}
	n.mu.Unlock()
	if p := receive(t, "request", got); p.uri != "/web%2F..%2Fx%20y?room=a%26b" {
		t.Errorf("called %q", p.uri)
	}
}

func TestACommandGetsQuotedProperties(t *testing.T) {
	spec := &model.HandlerSpec{
		Command: &model.Command{Shell: `echo {{ .props.x }}`}, Env: map[string]string{"X": "{{ .props.x }}"},
	}
	out, err := expand(spec, func(string) ([]byte, string, bool) { return []byte(`"a; rm b"`), "", true })
	if err != nil {
		t.Fatal(err)
	}
	if out.Command.Shell != `echo 'a; rm b'` || out.Env["X"] != "a; rm b" {
		t.Errorf("%q, %q", out.Command.Shell, out.Env)
	}
}
