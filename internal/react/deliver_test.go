package react

import (
	"context"
	"fmt"
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
	"github.com/muster-fleet/muster/internal/queue"
	"github.com/muster-fleet/muster/internal/store/history"
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
			r := run(t, Options{Store: s, Names: someNames(map[string]*model.HandlerSpec{"pager": spec}), Delivery: DeliveryOptions{Retry: quick}})
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

// A receiver that says when it wants to be asked again is left alone until then, but
// never longer than between any two attempts.
func TestRetryAfter(t *testing.T) {
	for header, want := range map[string]time.Duration{"120": 120 * time.Second, "86400": 10 * time.Minute} {
		s := sqlite(t)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", header)
			w.WriteHeader(http.StatusTooManyRequests)
		}))
		t.Cleanup(server.Close)
		spec := &model.HandlerSpec{Webhook: &model.Webhook{URL: server.URL}}
		r := run(t, Options{Store: s, Names: someNames(map[string]*model.HandlerSpec{"pager": spec})})
		r.Emit([]event.Transition{opening("p1", 1)})
		if a := receive(t, "attempt", s.tried); a.State != history.Pending || a.NextAt.Sub(a.At) != want {
			t.Errorf("Retry-After %s: next attempt after %s, want %s", header, a.NextAt.Sub(a.At), want)
		}
	}
}

// What a receiver's certificate or silence does is tried again, and said in words.
func TestReceiversThatHangOrCannotBeTrusted(t *testing.T) {
	hang := make(chan struct{})
	hanging := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang }))
	t.Cleanup(hanging.Close)
	t.Cleanup(func() { close(hang) })
	untrusted := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(untrusted.Close)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for what, c := range map[string]struct {
		spec *model.HandlerSpec
		want string
	}{
		"hangs":     {&model.HandlerSpec{Webhook: &model.Webhook{URL: hanging.URL}, Timeout: model.Duration(50 * time.Millisecond)}, "deadline exceeded"},
		"untrusted": {&model.HandlerSpec{Webhook: &model.Webhook{URL: untrusted.URL}}, "certificate"},
		"gone":      {&model.HandlerSpec{Webhook: &model.Webhook{URL: gone.URL}}, "connection refused"},
		"command":   {&model.HandlerSpec{Command: &model.Command{Shell: "yes | head -c 200000000; sleep 600"}, Timeout: model.Duration(500 * time.Millisecond)}, "timed out"},
	} {
		t.Run(what, func(t *testing.T) {
			s := sqlite(t)
			r := run(t, Options{Store: s, Names: someNames(map[string]*model.HandlerSpec{"pager": c.spec})})
			r.Emit([]event.Transition{opening("p1", 1)})
			if a := receive(t, "attempt", s.tried); a.State != history.Pending || !strings.Contains(a.Error, c.want) || len(a.Error) > 2000 {
				t.Errorf("%+v, want an error with %q", a, c.want)
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
	r := run(t, Options{Store: s, Names: someNames(map[string]*model.HandlerSpec{"pager": spec}), Delivery: DeliveryOptions{Retry: quick}})
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
	r := run(t, Options{Store: s, Names: someNames(map[string]*model.HandlerSpec{"pager": spec}), Delivery: DeliveryOptions{Retry: retry}})
	r.Emit([]event.Transition{opening("p1", 1)})
	for receive(t, "attempt", s.tried).State != history.Dead {
	}
	list, err := s.Deliveries(t.Context(), "p1")
	if err != nil || len(list) != 1 || list[0].State != history.Dead || !strings.Contains(list[0].LastError, "503") {
		t.Errorf("%+v, %v", list, err)
	}
}

// A handler that takes nothing for long does not fill the disk: what is too much is
// given up at once, and seen; others are told as ever.
func TestTooManyMessagesForOneHandler(t *testing.T) {
	settings, err := queue.ParseSettings([]string{"deliveries=3"})
	if err != nil {
		t.Fatal(err)
	}
	s := sqlite(t)
	release := make(chan struct{})
	hangs, _ := hook(t, func(posted) int { <-release; return 200 })
	t.Cleanup(func() { close(release) })
	good, got := hook(t, nil)
	queues := queue.NewRegistry(settings)
	r := run(t, Options{Store: s, Names: someNames(map[string]*model.HandlerSpec{"hangs": hangs, "good": good}), Delivery: DeliveryOptions{Retry: quick}, Queues: queues})
	for i := range 5 {
		r.Emit([]event.Transition{opening(fmt.Sprint("p", i), uint64(i+1))})
		receive(t, "message to the good one", got)
	}
	if info := infoOf(t, queues, "deliveries"); info.Depth != 3 || info.Overflow != 2 || info.Policy != queue.GiveUp {
		t.Errorf("%+v", info)
	}
	for i, want := range []history.DeliveryState{history.Pending, history.Pending, history.Pending, history.Dead, history.Dead} {
		list, err := s.Deliveries(t.Context(), fmt.Sprint("p", i))
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range list {
			if d.Handler.Name == "hangs" && (d.State != want || (d.LastError != "") != (want == history.Dead)) {
				t.Errorf("message %d: %+v", i, d)
			}
		}
	}
	r.stop()
	again := New(Options{Store: s, Names: someNames(nil), Queues: queue.NewRegistry(settings)})
	if err := again.Load(t.Context(), nil); err != nil || again.deliver.depth.of(history.HandlerRef{Namespace: "default", Name: "hangs"}) != 3 {
		t.Errorf("after a restart: %v, %v", again.deliver.depth.pending, err)
	}
}

func TestAHandlerThatComesLaterIsTold(t *testing.T) {
	s := sqlite(t)
	n := someNames(map[string]*model.HandlerSpec{})
	n.chunk.Handlers = []string{"pager"}
	r := run(t, Options{Store: s, Names: n, Delivery: DeliveryOptions{Retry: quick}})
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
	for i := range 2 * maxDue {
		b.Deliveries = append(b.Deliveries, history.Delivery{
			Key: fmt.Sprint(i), Problem: fmt.Sprint(i), Handler: history.HandlerRef{Namespace: "default", Name: "hangs"},
			Kind: "opened", Payload: []byte("{}"), Created: noon,
		})
	}
	if err := s.Store.Record(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	r := run(t, Options{Store: s, Names: n, Delivery: DeliveryOptions{Retry: quick}})
	receive(t, "first of those that hang", hanging)
	r.Emit([]event.Transition{opening("p1", 1)})
	if p := receive(t, "other handler's request", got); p.key != "p1/opened/default/good" {
		t.Errorf("%+v", p)
	}
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
	run(t, Options{Store: s, Names: someNames(map[string]*model.HandlerSpec{"pager": spec}), Delivery: DeliveryOptions{Retry: quick}})
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
	r := run(t, Options{Store: forgetful{s}, Names: n, Delivery: DeliveryOptions{Retry: quick}})
	r.Emit([]event.Transition{opening("p1", 1)})
	select {}
}

type forgetful struct{ history.Store }

func (forgetful) RecordAttempts(ctx context.Context, _ ...history.Outcome) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestAHandlerKnowsThePropertiesOfTheNode(t *testing.T) {
	s := sqlite(t)
	spec, got := hook(t, nil)
	spec.Webhook.URL += `/{{ .props.team }}?room={{ .props.room | default "a&b" }}`
	spec.Webhook.Headers = map[string]string{"X-Team": "{{ .props.team }}"}
	n := someNames(map[string]*model.HandlerSpec{"pager": spec})
	r := run(t, Options{Store: s, Names: n, Delivery: DeliveryOptions{Retry: quick}})
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
