package dispatch

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/handler"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/queue"
	"github.com/muster-fleet/muster/internal/store/history"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

var fastRetry = Retry{First: time.Millisecond, Most: 2 * time.Millisecond, GiveUp: time.Hour, PerHandler: 2}

// TestStatusCodeDecidesAboutTheNextAttempt answers webhooks with several HTTP status codes, and expects retries only
// for temporary errors. A delivery is retried, done or a dead letter.
func TestStatusCodeDecidesAboutTheNextAttempt(t *testing.T) {
	for code, want := range map[int]history.DeliveryState{
		200: history.Delivered, 204: history.Delivered, 302: history.Dead, 400: history.Dead, 404: history.Dead,
		408: history.Pending, 429: history.Pending, 500: history.Pending, 503: history.Pending,
	} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			s := openSQLiteStore(t)
			tries := 0
			spec, got := newWebhook(t, func(webhookRequest) int {
				if tries++; tries > 1 {
					return 200
				}
				return code
			})
			r := startDispatcher(t, Options{Store: s, Names: newTestDirectory(map[string]*model.HandlerSpec{"pager": spec}), Delivery: DeliveryOptions{Retry: fastRetry}})
			r.Emit([]event.Transition{openingTransition("p1", 1)})
			first := receiveFrom(t, "request", got)
			a := receiveFrom(t, "attempt", s.attempts)
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
				if again := receiveFrom(t, "second request", got); again != first {
					t.Errorf("the second try differs: %+v", again)
				}
				s.expectAttempt(t, history.Delivered)
			}
		})
	}
}

// TestFailingHandlerIsLoggedOnce lets a message fail three times, and expects two lines in the log. One is a warning
// when the handler begins to fail, and one tells when the handler works again.
func TestFailingHandlerIsLoggedOnce(t *testing.T) {
	s := openSQLiteStore(t)
	tries := 0
	spec, _ := newWebhook(t, func(webhookRequest) int {
		if tries++; tries > 3 {
			return 200
		}
		return 500
	})
	var text bytes.Buffer
	r := startDispatcher(t, Options{Store: s, Names: newTestDirectory(map[string]*model.HandlerSpec{"pager": spec}), Delivery: DeliveryOptions{Retry: fastRetry},
		Logger: slog.New(slog.NewTextHandler(&text, nil))})
	r.Emit([]event.Transition{openingTransition("p1", 1)})
	for _, want := range []history.DeliveryState{history.Pending, history.Pending, history.Pending, history.Delivered} {
		s.expectAttempt(t, want)
	}
	r.stop()
	if log := text.String(); strings.Count(log, "level=WARN msg=\"handler fails") != 1 || strings.Count(log, "level=INFO msg=\"handler works again") != 1 {
		t.Errorf("want one warning and one end of it:\n%s", log)
	}
}

// TestRetryAfterDelaysTheNextAttempt answers with Retry-After headers, and expects later attempts, but never
// beyond the longest pause.
func TestRetryAfterDelaysTheNextAttempt(t *testing.T) {
	for header, want := range map[string]time.Duration{"120": 120 * time.Second, "86400": 10 * time.Minute} {
		s := openSQLiteStore(t)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", header)
			w.WriteHeader(http.StatusTooManyRequests)
		}))
		t.Cleanup(server.Close)
		spec := &model.HandlerSpec{Webhook: &model.Webhook{URL: server.URL}}
		r := startDispatcher(t, Options{Store: s, Names: newTestDirectory(map[string]*model.HandlerSpec{"pager": spec})})
		r.Emit([]event.Transition{openingTransition("p1", 1)})
		if a := receiveFrom(t, "attempt", s.attempts); a.State != history.Pending || a.NextAt.Sub(a.At) != want {
			t.Errorf("Retry-After %s: next attempt after %s, want %s", header, a.NextAt.Sub(a.At), want)
		}
	}
}

// TestTransportErrorsAreRetried expects new attempts after connections that time out, are refused or have an
// untrusted certificate. The recorded error has the cause.
func TestTransportErrorsAreRetried(t *testing.T) {
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
			s := openSQLiteStore(t)
			r := startDispatcher(t, Options{Store: s, Names: newTestDirectory(map[string]*model.HandlerSpec{"pager": c.spec})})
			r.Emit([]event.Transition{openingTransition("p1", 1)})
			if a := receiveFrom(t, "attempt", s.attempts); a.State != history.Pending || !strings.Contains(a.Error, c.want) || len(a.Error) > 2000 {
				t.Errorf("%+v, want an error with %q", a, c.want)
			}
		})
	}
}

// TestClosingWaitsForItsFailedOpening lets the message about a problem's opening fail, and expects the message
// about the closing to wait.
func TestClosingWaitsForItsFailedOpening(t *testing.T) {
	s := openSQLiteStore(t)
	tries := 0
	spec, got := newWebhook(t, func(webhookRequest) int {
		if tries++; tries <= 3 {
			return 503
		}
		return 200
	})
	r := startDispatcher(t, Options{Store: s, Names: newTestDirectory(map[string]*model.HandlerSpec{"pager": spec}), Delivery: DeliveryOptions{Retry: fastRetry}})
	r.Emit([]event.Transition{openingTransition("p1", 1), closingTransition("p1", 2)})
	for i, want := range []string{"opened", "opened", "opened", "opened", "closed"} {
		if p := receiveFrom(t, "request", got); !strings.Contains(p.key, want) {
			t.Fatalf("request %d is %s, want %s", i, p.key, want)
		}
	}
}

// TestExpiredDeliveryIsADeadLetter lets a delivery fail until its retry time is over, and expects a dead letter. The
// dead letter has the last error.
func TestExpiredDeliveryIsADeadLetter(t *testing.T) {
	s := openSQLiteStore(t)
	spec, _ := newWebhook(t, func(webhookRequest) int { return 503 })
	retry := fastRetry
	retry.GiveUp = 20 * time.Millisecond
	r := startDispatcher(t, Options{Store: s, Names: newTestDirectory(map[string]*model.HandlerSpec{"pager": spec}), Delivery: DeliveryOptions{Retry: retry}})
	r.Emit([]event.Transition{openingTransition("p1", 1)})
	for receiveFrom(t, "attempt", s.attempts).State != history.Dead {
	}
	list, err := s.Deliveries(t.Context(), "p1")
	if err != nil || len(list) != 1 || list[0].State != history.Dead || !strings.Contains(list[0].LastError, "503") {
		t.Errorf("%+v, %v", list, err)
	}
}

// TestDeliveriesBeyondTheLimitAreDeadLetters sends a stuck handler more messages than may wait, and expects the excess
// to be given up. Other handlers must be notified.
func TestDeliveriesBeyondTheLimitAreDeadLetters(t *testing.T) {
	settings, err := queue.ParseSettings([]string{"deliveries=3"})
	testenv.NoError(t, err)
	s := openSQLiteStore(t)
	release := make(chan struct{})
	hangs, _ := newWebhook(t, func(webhookRequest) int { <-release; return 200 })
	t.Cleanup(func() { close(release) })
	good, got := newWebhook(t, nil)
	queues := queue.NewRegistry(settings)
	r := startDispatcher(t, Options{Store: s, Names: newTestDirectory(map[string]*model.HandlerSpec{"hangs": hangs, "good": good}), Delivery: DeliveryOptions{Retry: fastRetry}, Queues: queues})
	for i := range 5 {
		r.Emit([]event.Transition{openingTransition(fmt.Sprint("p", i), uint64(i+1))})
		receiveFrom(t, "message to the good one", got)
	}
	if info := queueInfo(t, queues, "deliveries"); info.Depth != 3 || info.Overflow != 2 || info.Policy != queue.GiveUp {
		t.Errorf("%+v", info)
	}
	for i, want := range []history.DeliveryState{history.Pending, history.Pending, history.Pending, history.Dead, history.Dead} {
		list, err := s.Deliveries(t.Context(), fmt.Sprint("p", i))
		testenv.NoError(t, err)
		for _, d := range list {
			if d.Handler.Name == "hangs" && (d.State != want || (d.LastError != "") != (want == history.Dead)) {
				t.Errorf("message %d: %+v", i, d)
			}
		}
	}
	r.stop()
	again := New(Options{Store: s, Names: newTestDirectory(nil), Queues: queue.NewRegistry(settings)})
	if err := again.Load(t.Context(), nil); err != nil || again.deliver.outbox.undelivered(history.HandlerRef{Namespace: "default", Name: "hangs"}) != 3 {
		t.Errorf("after a restart: %v, %v", again.deliver.outbox.pending, err)
	}
}

// TestHandlerAppliedLaterGetsItsMessages sends messages to a handler that does not exist yet, and expects their
// delivery after its declaration.
func TestHandlerAppliedLaterGetsItsMessages(t *testing.T) {
	s := openSQLiteStore(t)
	n := newTestDirectory(map[string]*model.HandlerSpec{})
	n.definition.Handlers = []string{"pager"}
	r := startDispatcher(t, Options{Store: s, Names: n, Delivery: DeliveryOptions{Retry: fastRetry}})
	r.Emit([]event.Transition{openingTransition("p1", 1)})
	s.expectAttempt(t, history.Pending, "does not exist")
	spec, got := newWebhook(t, nil)
	n.change(func() { n.handlers["pager"] = spec })
	receiveFrom(t, "request", got)
}

// TestHangingHandlerBlocksNoOtherHandler lets a handler hang with many waiting messages, and expects no delay of other
// handlers.
func TestHangingHandlerBlocksNoOtherHandler(t *testing.T) {
	s := openSQLiteStore(t)
	release := make(chan struct{})
	hangs, hanging := newWebhook(t, func(webhookRequest) int { <-release; return 200 })
	t.Cleanup(func() { close(release) }) // before the server closes
	good, got := newWebhook(t, nil)
	n := newTestDirectory(map[string]*model.HandlerSpec{"hangs": hangs, "good": good})
	var b history.Batch
	for i := range 2 * maxDue {
		b.Deliveries = append(b.Deliveries, history.Delivery{
			Key: fmt.Sprint(i), Problem: fmt.Sprint(i), Handler: history.HandlerRef{Namespace: "default", Name: "hangs"},
			Kind: "opened", Payload: []byte("{}"), Created: testTime,
		})
	}
	testenv.NoError(t, s.Store.Record(t.Context(), b))
	r := startDispatcher(t, Options{Store: s, Names: n, Delivery: DeliveryOptions{Retry: fastRetry}})
	receiveFrom(t, "first of those that hang", hanging)
	r.Emit([]event.Transition{openingTransition("p1", 1)})
	if p := receiveFrom(t, "other handler's request", got); p.key != "p1/opened/default/good" {
		t.Errorf("%+v", p)
	}
}

// TestDeliveryIsRepeatedAfterKillWithItsKey kills a server before a delivery is recorded, and expects the next
// server to repeat its key. The delivery was not yet recorded, and the repetition has the same key.
func TestDeliveryIsRepeatedAfterKillWithItsKey(t *testing.T) {
	if os.Getenv("MUSTER_REACT_CHILD") != "" {
		deliverUntilKilled(t)
		return
	}
	dsn := filepath.Join(t.TempDir(), "history.db")
	spec, got := newWebhook(t, nil)
	cmd := exec.Command(os.Args[0], "-test.run=^TestDeliveryIsRepeatedAfterKillWithItsKey$")
	cmd.Env = append(os.Environ(), "MUSTER_REACT_CHILD="+dsn, "MUSTER_REACT_URL="+spec.Webhook.URL)
	testenv.NoError(t, cmd.Start())
	first := receiveFrom(t, "message from the one that is killed", got)
	testenv.NoError(t, cmd.Process.Signal(syscall.SIGKILL))
	cmd.Wait() // its error reports the kill

	s := openTestStore(t, dsn)
	startDispatcher(t, Options{Store: s, Names: newTestDirectory(map[string]*model.HandlerSpec{"pager": spec}), Delivery: DeliveryOptions{Retry: fastRetry}})
	if again := receiveFrom(t, "message from the next", got); again != first {
		t.Errorf("told %+v, then %+v", first, again)
	}
	s.expectAttempt(t, history.Delivered)
}

// deliverUntilKilled sends a message without recording the attempt, until the parent process kills the test process.
func deliverUntilKilled(t *testing.T) {
	s := openTestStore(t, os.Getenv("MUSTER_REACT_CHILD"))
	spec := &model.HandlerSpec{Webhook: &model.Webhook{URL: os.Getenv("MUSTER_REACT_URL")}}
	n := newTestDirectory(map[string]*model.HandlerSpec{"pager": spec})
	r := startDispatcher(t, Options{Store: stalledAttemptStore{s}, Names: n, Delivery: DeliveryOptions{Retry: fastRetry}})
	r.Emit([]event.Transition{openingTransition("p1", 1)})
	select {}
}

// stalledAttemptStore is a history store for tests that never finishes recording an attempt. It hangs until its
// context ends, so that a test can stop the server before a delivery is recorded.
type stalledAttemptStore struct{ history.Store }

// RecordAttempts blocks until its context ends and records nothing.
func (stalledAttemptStore) RecordAttempts(ctx context.Context, _ ...history.DeliveryAttempt) error {
	<-ctx.Done()
	return ctx.Err()
}

// TestHandlersGetNodeProperties expects properties of the problem's node in place of variables in a webhook's
// URL and headers.
func TestHandlersGetNodeProperties(t *testing.T) {
	s := openSQLiteStore(t)
	spec, got := newWebhook(t, nil)
	spec.Webhook.URL += `/{{ .props.team }}?room={{ .props.room | default "a&b" }}`
	spec.Webhook.Headers = map[string]string{"X-Team": "{{ .props.team }}"}
	n := newTestDirectory(map[string]*model.HandlerSpec{"pager": spec})
	r := startDispatcher(t, Options{Store: s, Names: n, Delivery: DeliveryOptions{Retry: fastRetry}})
	r.Emit([]event.Transition{openingTransition("p1", 1)})
	// Unset is an error that names the property, and is tried again.
	s.expectAttempt(t, history.Pending, `"team"`)
	n.change(func() { n.props = map[string]string{"10/team": `"web/../x y"`} })
	if p := receiveFrom(t, "request", got); p.uri != "/web%2F..%2Fx%20y?room=a%26b" {
		t.Errorf("called %q", p.uri)
	}
}

// TestCommandsGetQuotedProperties checks that a property value in a handler's shell command is quoted for the shell.
func TestCommandsGetQuotedProperties(t *testing.T) {
	spec := &model.HandlerSpec{
		Command: &model.Command{Shell: `echo {{ .props.x }}`}, Env: map[string]string{"X": "{{ .props.x }}"},
	}
	out, err := expandVariables(spec, func(string) ([]byte, string, bool) { return []byte(`"a; rm b"`), "", true })
	testenv.NoError(t, err)
	if out.Command.Shell != `echo 'a; rm b'` || out.Env["X"] != "a; rm b" {
		t.Errorf("%q, %q", out.Command.Shell, out.Env)
	}
}

// TestStopFinishesDeliveries stops the server during deliveries, and expects the deliveries to be completed and
// recorded first. A delivery that takes longer is aborted and repeated.
func TestStopFinishesDeliveries(t *testing.T) {
	s := openSQLiteStore(t)
	taking, took := make(chan struct{}), false
	spec, got := newWebhook(t, func(webhookRequest) int {
		if !took {
			took = true
			<-taking
		}
		return 200
	})
	n := newTestDirectory(map[string]*model.HandlerSpec{"pager": spec})
	r := startDispatcher(t, Options{Store: s, Names: n, Delivery: DeliveryOptions{Retry: fastRetry}, shutdownWait: maxWait})
	r.Emit([]event.Transition{openingTransition("p1", 1)})
	receiveFrom(t, "request", got)
	time.AfterFunc(100*time.Millisecond, func() { close(taking) }) // while the dispatcher stops
	r.stop()
	s.expectAttempt(t, history.Delivered)
	r = startDispatcher(t, Options{Store: s, Names: n, Delivery: DeliveryOptions{Retry: fastRetry}})
	r.Emit([]event.Transition{openingTransition("p2", 2)})
	if p := receiveFrom(t, "request", got); p.key != "p2/opened/default/pager" {
		t.Errorf("%s was notified again", p.key)
	}
	receiveFrom(t, "attempt", s.attempts)

	hang := make(chan struct{})
	hangs, hanging := newWebhook(t, func(webhookRequest) int { <-hang; return 200 })
	t.Cleanup(func() { close(hang) })
	n.change(func() { n.handlers["pager"] = hangs })
	r.Emit([]event.Transition{openingTransition("p3", 3)})
	receiveFrom(t, "request that hangs", hanging)
	r.stop()
	list, err := s.Deliveries(t.Context(), "p3")
	if err != nil || len(list) != 1 || list[0].State != history.Pending || list[0].Attempts != 0 {
		t.Errorf("%+v, %v", list, err)
	}
}

// TestArrivedAssetReleasesItsMessages expects a message that waits for a missing asset to be sent when the
// asset arrives. The asset may arrive during an attempt.
func TestArrivedAssetReleasesItsMessages(t *testing.T) {
	for name, early := range map[string]bool{"later": false, "meanwhile": true} {
		t.Run(name, func(t *testing.T) {
			tries, here := make(chan int, 10), make(chan bool, 10)
			asked := 0
			var r *runningDispatcher
			began := make(chan struct{})
			store := openSQLiteStore(t)
			n := newTestDirectory(map[string]*model.HandlerSpec{"page": {Command: &model.Command{Shell: "true"}, Assets: []string{"default/tools"}}})
			assets := func(context.Context, []string) ([]model.AssetDir, func(), error) {
				<-began
				asked++
				tries <- asked
				if <-here {
					return nil, func() {}, nil
				}
				if early && asked == 1 {
					r.AssetArrived()
				}
				return nil, nil, errors.New("asset default/tools is not on this server")
			}
			r = startDispatcher(t, Options{Store: store, Names: n, Delivery: DeliveryOptions{Retry: Retry{First: time.Hour, Most: time.Hour}, Options: handler.Options{Assets: assets}}})
			close(began)
			r.Emit([]event.Transition{openingTransition("p1", 1)})
			receiveFrom(t, "the first attempt", tries)
			here <- false
			store.expectAttempt(t, history.Pending)
			if !early {
				r.AssetArrived() // another asset
			}
			receiveFrom(t, "the second attempt", tries)
			here <- false
			receiveFrom(t, "its outcome", store.attempts)
			r.AssetArrived()
			receiveFrom(t, "the third attempt", tries)
			here <- true
			store.expectAttempt(t, history.Delivered)
		})
	}
}

// TestStreamDeliversEachProblemOnce opens thousands of problems at the same time, and expects one delivery of each
// over few connections. MUSTER_STORM=20000 sets their number.
func TestStreamDeliversEachProblemOnce(t *testing.T) {
	n := 200
	if testing.Short() {
		n = 50
	}
	if more, err := strconv.Atoi(os.Getenv("MUSTER_STORM")); err == nil {
		n = more
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testenv.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	got, conns := make(chan string, n), make(chan net.Conn, 100)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conns <- conn
			go func() {
				for r := bufio.NewReader(conn); ; {
					line, err := r.ReadBytes('\n')
					if err != nil {
						return
					}
					note, err := handler.Decode(line)
					if err != nil {
						t.Error(err)
						return
					}
					got <- note.Problem
				}
			}()
		}
	}()
	s := openSQLiteStore(t)
	s.attempts = nil
	spec := &model.HandlerSpec{Stream: &model.Stream{Address: l.Addr().String(), Connections: 3}}
	r := startDispatcher(t, Options{Store: s, Names: newTestDirectory(map[string]*model.HandlerSpec{"pipeline": spec})})
	var storm []event.Transition
	for i := range n {
		one := openingTransition(fmt.Sprint("p", i), 1)
		one.Index = uint32(i)
		storm = append(storm, one)
	}
	began := time.Now()
	r.Emit(storm)
	seen := map[string]bool{}
	for range n {
		id := receiveFrom(t, "line", got)
		if seen[id] {
			t.Fatalf("%s came twice", id)
		}
		seen[id] = true
	}
	t.Logf("%d messages in %s", n, time.Since(began).Round(time.Millisecond))
	if c := len(conns); c != 3 {
		t.Errorf("%d connections", c)
	}
}

// TestHandlerTestReportsTheAnswer sends a test message to a handler, and expects the handler's answer or error
// as the result.
func TestHandlerTestReportsTheAnswer(t *testing.T) {
	code := atomic.Int64{}
	code.Store(200)
	spec, got := newWebhook(t, func(webhookRequest) int { return int(code.Load()) })
	spec.Webhook.URL += "/{{ .props.team }}"
	names := newTestDirectory(map[string]*model.HandlerSpec{"pager": spec})
	names.props = map[string]string{"10/team": `"ops"`}
	r := startDispatcher(t, Options{Store: openSQLiteStore(t), Names: names})
	pager := history.HandlerRef{Namespace: "default", Name: "pager"}
	if _, err := r.SendTestMessage(t.Context(), pager, spec, "ann", 0); model.ClassOf(err) != model.Invalid || !strings.Contains(err.Error(), "--node NODE") {
		t.Errorf("a variable without a node: %v", err)
	}
	for status, want := range map[int64]struct{ failed, final bool }{200: {}, 503: {failed: true}, 404: {failed: true, final: true}} {
		code.Store(status)
		trial, err := r.SendTestMessage(t.Context(), pager, spec, "ann", 10)
		if err != nil || (trial.Err != nil) != want.failed || trial.Final != want.final {
			t.Errorf("%d: %+v %v", status, trial, err)
		}
		p := receiveFrom(t, "request", got)
		if p.uri != "/ops" || !strings.Contains(p.body, `"kind":"test"`) || strings.Contains(trial.Sent, "/ops") || !strings.Contains(trial.Sent, "Test by ann of handler pager") {
			t.Errorf("%+v\n%s", p, trial.Sent)
		}
	}
}

// TestReplayedDeadLetterIsDelivered sends a dead letter (given-up message) again, and expects new attempts for
// the full retry time.
func TestReplayedDeadLetterIsDelivered(t *testing.T) {
	s := openSQLiteStore(t)
	code := atomic.Int64{}
	code.Store(404)
	spec, got := newWebhook(t, func(webhookRequest) int { return int(code.Load()) })
	now := testTime.Add(48 * time.Hour) // the problem is older than GiveUp
	r := startDispatcher(t, Options{Store: s, Names: newTestDirectory(map[string]*model.HandlerSpec{"pager": spec}), Delivery: DeliveryOptions{Retry: fastRetry}, Now: func() time.Time { return now }})
	r.Emit([]event.Transition{openingTransition("p1", 1)})
	receiveFrom(t, "request", got)
	s.expectAttempt(t, history.Dead)
	pager := history.HandlerRef{Namespace: "default", Name: "pager"}
	code.Store(200)
	done, err := r.ReplayDeadLetters(t.Context(), pager, history.ReplayQuery{Limit: 10})
	if err != nil || done.Revived != 1 {
		t.Fatalf("%+v %v", done, err)
	}
	if p := receiveFrom(t, "request again", got); p.key != "p1/opened/default/pager" {
		t.Errorf("%+v", p)
	}
	s.expectAttempt(t, history.Delivered)
	if done, err := r.ReplayDeadLetters(t.Context(), pager, history.ReplayQuery{Limit: 10}); err != nil || done.Revived != 0 {
		t.Errorf("%+v %v", done, err)
	}
}

// TestOpenProblemsAreRepeatedToAlertmanagers posts open problems to an Alertmanager again, and expects the same labels
// as at first. Closed problems must not be repeated.
func TestOpenProblemsAreRepeatedToAlertmanagers(t *testing.T) {
	got := make(chan []map[string]any, 100)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var list []map[string]any
		if err := json.Unmarshal(body, &list); err != nil {
			t.Errorf("%v: %s", err, body)
		}
		got <- list
	}))
	t.Cleanup(server.Close)
	s := openSQLiteStore(t)
	spec := &model.HandlerSpec{Alertmanager: &model.Alertmanager{URLs: []string{server.URL}}}
	names := newTestDirectory(map[string]*model.HandlerSpec{"am": spec})
	r := startDispatcher(t, Options{Store: s, Names: names, Delivery: DeliveryOptions{Retry: fastRetry}})
	r.Emit([]event.Transition{openingTransition("p1", 1), openingTransition("p2", 2)})
	for range 2 {
		receiveFrom(t, "alert", got)
		receiveFrom(t, "attempt", s.attempts)
	}
	again := func() int {
		testenv.NoError(t, r.deliver.refreshHandler(t.Context(), history.HandlerRef{Namespace: "default", Name: "am"}))
		select {
		case list := <-got:
			return len(list)
		default:
			return 0
		}
	}
	if n := again(); n != 2 {
		t.Errorf("told again of %d", n)
	}
	names.change(func() { names.gone = true }) // the node is deleted, so its labels have changed
	r.Emit([]event.Transition{closingTransition("p1", 61)})
	list := receiveFrom(t, "end", got)
	if env := list[0]["labels"].(map[string]any)["env"]; env != "prod" {
		t.Errorf("the end has other labels: %v", list)
	}
	receiveFrom(t, "attempt", s.attempts)
	if n := again(); n != 1 {
		t.Errorf("told again of %d", n)
	}
	if handler.AlertEvery > 5*time.Minute {
		t.Error("Alertmanager's resolve_timeout is 5 minutes unless set")
	}
}

// TestDeregistrationNotifiesEachHandlerOnce removes a node, and expects one message to each handler that the node
// names. A replay of the journal must send none again.
func TestDeregistrationNotifiesEachHandlerOnce(t *testing.T) {
	spec, got := newWebhook(t, nil)
	n := newTestDirectory(map[string]*model.HandlerSpec{"cmdb": spec, "pager": {PagerDuty: &model.PagerDuty{RoutingKey: model.Secret{Text: "key"}}}})
	n.gone = true
	store := openSQLiteStore(t)
	left := event.Transition{
		At: positionAt(1), Partition: 1, Kind: event.Deregistered, Node: 10, Source: model.CheckSource(model.KeepaliveCheck), Received: testTime.UnixNano(), Executed: testTime.UnixNano(), Output: "no session for 1h",
		Deregistered: &wire.ForgetRecord{Deleted: true, Deregistered: "default/web01", Handlers: "default/cmdb,default/pager", Reason: "no session for 1h"},
	}
	for range 2 {
		r := startDispatcher(t, Options{Store: store, Names: n})
		r.Emit([]event.Transition{left})
		r.waitRecorded(positionAt(1))
		r.stop()
	}
	r := startDispatcher(t, Options{Store: store, Names: n})
	if m := receiveFrom(t, "message", got); !strings.Contains(m.body, `"kind":"deregistered"`) || !strings.Contains(m.body, "DEREGISTERED: node web01: no session for 1h") || m.key != "left-10/default/cmdb" {
		t.Errorf("%+v", m)
	}
	for dead := false; !dead; {
		receiveFrom(t, "attempt", store.attempts)
		list, err := store.Deliveries(t.Context(), "left-10")
		if err != nil || len(list) != 2 {
			t.Fatalf("%+v, %v", list, err)
		}
		for _, d := range list {
			if d.Handler.Name == "pager" && d.State == history.Dead {
				dead = strings.Contains(d.LastError, "an incident open") && d.Kind == handler.Deregistered
			}
		}
	}
	r.stop()
	for len(got) > 0 { // an attempt that a stop interrupted is repeated with the same key
		if m := <-got; m.key != "left-10/default/cmdb" {
			t.Errorf("told more than once: %+v", m)
		}
	}
}
