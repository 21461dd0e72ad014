package remotesend

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// receiver is a test server that accepts Prometheus remote-write requests and counts the received samples.
type receiver struct {
	*httptest.Server
	mu      sync.Mutex
	values  map[string]int // times that each sample came
	refuses string         // node whose samples it refuses
	late    int64          // time of samples that it refuses
	down    bool
	user    string
}

// newReceiver starts a test server that receives remote write requests.
func newReceiver(t *testing.T) *receiver {
	r := &receiver{values: map[string]int{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.down {
			http.Error(w, "down for a while", http.StatusServiceUnavailable)
			return
		}
		r.user, _, _ = q.BasicAuth()
		body := testenv.Value(snappy.Decode(nil, testenv.Value(io.ReadAll(q.Body))(t)))(t)
		var request prompb.WriteRequest
		testenv.NoError(t, request.Unmarshal(body))
		for _, s := range request.Timeseries {
			if s.Labels[1].Value == r.refuses || slices.ContainsFunc(s.Samples, func(v prompb.Sample) bool { return v.Timestamp == r.late }) {
				http.Error(w, "out of order sample", http.StatusBadRequest)
				return
			}
		}
		for _, s := range request.Timeseries {
			for _, v := range s.Samples {
				r.values[fmt.Sprintf("%s %d %x", s.Labels[1].Value, v.Timestamp, math.Float64bits(v.Value))]++
			}
		}
	}))
	t.Cleanup(r.Close)
	return r
}

// count returns the number of different samples that arrived at the test receiver.
func (r *receiver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.values)
}

// has reports whether the receiver has got a sample of the given node.
func (r *receiver) has(node string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for text := range r.values {
		if strings.HasPrefix(text, node+" ") {
			return true
		}
	}
	return false
}

// change calls a function that changes the test receiver's behaviour, and holds the receiver's lock meanwhile.
func (r *receiver) change(do func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	do()
}

// open opens a remote-write queue that sends to the test receiver.
func (r *receiver) open(t *testing.T, dir string, change func(*Options)) *Queue {
	o := Options{Dir: dir, URL: r.URL + "/write", Budget: 1 << 20, Now: time.Now, Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry()}
	if change != nil {
		change(&o)
	}
	return testenv.Value(Open(t.Context(), o))(t)
}

// appendSample adds one sample to the remote-write queue in a test.
func appendSample(q *Queue, number uint64, node string) {
	var block wire.SampleBlock
	block.Add([]wire.SeriesLabel{{Name: "__name__", Value: "load"}, {Name: "node", Value: node}}, []wire.Sample{{Ms: int64(number) * 1000, Value: float64(number) / 3}})
	q.Append(model.Partition(number%3), journal.Position{Log: 7, Number: number}, &block, true)
}

// TestQueueSendsEachSample sends samples through outages of the store and kills of the process, and expects each to
// arrive. Each sample must arrive, and after a mark each only once.
func TestQueueSendsEachSample(t *testing.T) {
	dir, r := t.TempDir(), newReceiver(t)
	auth := filepath.Join(dir, "auth")
	testenv.NoError(t, os.WriteFile(auth, []byte("ada:secret\n"), 0o600))
	open := func() *Queue {
		return r.open(t, filepath.Join(dir, "log"), func(o *Options) { o.AuthFile = auth })
	}
	q := open()
	for number := range uint64(100) {
		appendSample(q, number+1, "a")
	}
	testenv.NoError(t, q.Flush(t.Context()))
	testenv.NoError(t, q.sendNew(t.Context()))
	if r.count() != 100 || r.user != "ada" || q.Sent() != 100 {
		t.Fatalf("%d samples, user %q", r.count(), r.user)
	}
	testenv.NoError(t, q.deleteSent(t.Context()))
	r.change(func() { r.down = true })
	for number := range uint64(50) {
		appendSample(q, number+101, "a")
	}
	testenv.NoError(t, q.Flush(t.Context()))
	if err := q.sendNew(t.Context()); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("a store that is down: %v", err)
	}
	if s := q.State(); s.Bytes == 0 || s.Lag < 0 {
		t.Errorf("state %+v", s)
	}
	testenv.NoError(t, q.Close()) // without a mark: as after a kill

	q = open()
	if p := q.Position(1); p != (journal.Position{Log: 7, Number: 148}) {
		t.Errorf("the log has partition 1 up to %+v", p)
	}
	r.change(func() { r.down = false })
	testenv.NoError(t, q.sendNew(t.Context()))
	if r.count() != 150 {
		t.Errorf("%d samples", r.count())
	}
	for text, times := range r.values {
		if times != 1 {
			t.Errorf("%s came %d times", text, times)
		}
	}
	testenv.NoError(t, q.Close())
	q = open() // killed before the mark: the last samples are sent again
	defer q.Close()
	testenv.NoError(t, q.sendNew(t.Context()))
	if r.count() != 150 || q.State().Lag != 0 {
		t.Errorf("%d samples, %+v", r.count(), q.State())
	}
}

// TestRefusedSampleLosesNoOthers lets the store refuse some samples of a request, and expects all its other samples to
// arrive.
func TestRefusedSampleLosesNoOthers(t *testing.T) {
	r := newReceiver(t)
	r.refuses, r.late = "bad", 999
	q := r.open(t, t.TempDir(), nil)
	defer q.Close()
	for number := range uint64(40) {
		node := "good"
		if number%13 == 5 {
			node = "bad"
		}
		appendSample(q, number+1, node)
	}
	testenv.NoError(t, q.Flush(t.Context()))
	var block wire.SampleBlock
	block.Add([]wire.SeriesLabel{{Name: "__name__", Value: "load"}, {Name: "node", Value: "several"}}, []wire.Sample{{Ms: 998}, {Ms: 999}, {Ms: 1001}})
	q.Append(1, journal.Position{Log: 7, Number: 41}, &block, true)
	testenv.NoError(t, q.Flush(t.Context()))
	testenv.NoError(t, q.sendNew(t.Context()))
	if r.count() != 39 || q.Sent() != 39 {
		t.Errorf("%d samples arrived, %d sent", r.count(), q.Sent())
	}
	if s := q.State(); s.Trouble != nil || s.Refused != 4 || s.RefusedAt.IsZero() || s.Refusal == nil || !strings.Contains(s.Refusal.Error(), "out of order sample") {
		t.Errorf("state %+v", s)
	}
}

// TestRedirectIsNoSuccess lets the store redirect to a login page, and expects the samples to stay in the log.
func TestRedirectIsNoSuccess(t *testing.T) {
	r := newReceiver(t)
	r.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/write" {
			http.Redirect(w, q, "/login", http.StatusFound)
		}
	})
	q := r.open(t, t.TempDir(), nil)
	defer q.Close()
	appendSample(q, 1, "a")
	testenv.NoError(t, q.Flush(t.Context()))
	if err := q.sendNew(t.Context()); err == nil || !strings.Contains(err.Error(), "302") || q.Sent() != 0 {
		t.Errorf("%d samples sent: %v", q.Sent(), err)
	}
}

// TestDamagedEntryLosesNoOthers damages a part of the queue's log, and expects all samples outside the damaged
// part to arrive. It damages a commit, and adds a malformed entry.
func TestDamagedEntryLosesNoOthers(t *testing.T) {
	dir, r := t.TempDir(), newReceiver(t)
	q := r.open(t, dir, nil)
	var sizes []int64
	for number := range uint64(5) {
		appendSample(q, number+1, "a")
		if number == 3 {
			testenv.NoError(t, q.log.Append(t.Context(), journal.Entry{Data: []byte{samplesEntry, 1}}, journal.Entry{Data: []byte{99}}))
		}
		testenv.NoError(t, q.Flush(t.Context()))
		sizes = append(sizes, q.log.Stats().SizeBytes)
	}
	files := testenv.Value(filepath.Glob(filepath.Join(dir, "*.log")))(t)
	if len(files) != 1 {
		t.Fatalf("segments %q of %v", files, testenv.Value(os.ReadDir(dir))(t))
	}
	data := testenv.Value(os.ReadFile(files[0]))(t)
	data[(sizes[1]+sizes[2])/2] ^= 1
	testenv.NoError(t, os.WriteFile(files[0], data, 0o600))
	testenv.NoError(t, q.sendNew(t.Context()))
	if r.count() != 4 || !q.warned {
		t.Errorf("%d samples, warned: %t", r.count(), q.warned)
	}
	testenv.NoError(t, q.load(t.Context()))
	testenv.NoError(t, q.Close())
	if err := q.loadEntry(0, []byte{99}); err == nil {
		t.Error("an entry of an unknown kind is read")
	}
}

// TestStopRecordsSentPosition stops the sender after all samples were sent, and expects the next start to send nothing again.
func TestStopRecordsSentPosition(t *testing.T) {
	dir, r := t.TempDir(), newReceiver(t)
	q := r.open(t, dir, nil)
	appendSample(q, 1, "a")
	testenv.NoError(t, q.Flush(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- q.Run(ctx) }()
	testenv.Until(t, "a sample is sent", func() bool { return q.Sent() > 0 })
	cancel()
	testenv.NoError(t, <-done)
	testenv.NoError(t, q.Close())
	q = r.open(t, dir, nil)
	defer q.Close()
	testenv.NoError(t, q.sendNew(t.Context()))
	if q.Sent() != 0 {
		t.Errorf("%d samples are sent again", q.Sent())
	}
}

// appendLarge appends samples with large random names to the remote-write queue, to fill its log.
func appendLarge(q *Queue, count uint64) {
	random := rand.New(rand.NewPCG(1, 2))
	text := make([]byte, 800)
	for number := range count {
		for i := range text {
			text[i] = byte(random.Uint32())
		}
		appendSample(q, number+1, fmt.Sprintf("%x", text))
	}
}

// TestLogAtSizeLimitLosesOldest fills the log to its size limit, and expects the loss of the oldest samples
// only. Run must drop the oldest samples.
func TestLogAtSizeLimitLosesOldest(t *testing.T) {
	r := newReceiver(t)
	r.down = true
	q := r.open(t, t.TempDir(), func(o *Options) { o.Budget = 4 << 20 })
	defer q.Close()
	go appendLarge(q, 3600)
	testenv.Until(t, "the log is full", func() bool { return q.log.Stats().Blocked != nil })
	q.moved = true
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- q.Run(ctx) }()
	testenv.Until(t, "the log moves on", func() bool {
		s := q.log.Stats()
		return s.Blocked == nil && s.QueuedBytes == 0
	})
	cancel()
	testenv.NoError(t, <-done)
}

// TestAppendDoesNotWaitForStore lets the store answer no request for a while, and expects Append never to wait. The
// samples exceed the budget; the oldest make room, and the newest arrive when the store answers again.
func TestAppendDoesNotWaitForStore(t *testing.T) {
	r := newReceiver(t)
	store, awake, requests := r.Config.Handler, make(chan struct{}), atomic.Int64{}
	r.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		requests.Add(1)
		body, _ := io.ReadAll(q.Body) // only then the server sees that the client leaves
		select {
		case <-q.Context().Done():
		case <-awake:
			q.Body = io.NopCloser(bytes.NewReader(body))
			store.ServeHTTP(w, q)
		}
	})
	q := r.open(t, t.TempDir(), func(o *Options) { o.Budget = 4 << 20 })
	defer q.Close()
	q.client.Timeout = 0
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- q.Run(ctx) }()
	appendSample(q, 1, "first")
	testenv.Until(t, "a request waits", func() bool { return requests.Load() > 0 })
	const count = 9000 // of 1600 bytes each
	appendLarge(q, count)
	testenv.NoError(t, q.Flush(t.Context()))
	if q.Sent() != 0 || requests.Load() < 2 {
		t.Errorf("%d samples sent, %d requests", q.Sent(), requests.Load())
	}
	appendSample(q, count+1, "newest")
	close(awake)
	testenv.Until(t, "the newest sample arrives", func() bool { return r.has("newest") })
	cancel()
	testenv.NoError(t, <-done)
}

// TestCrashBetweenDeleteAndRecord kills the process after deleting sent entries, before recording the position,
// and expects a clean restart. The reopened log must accept the position of removed entries.
func TestCrashBetweenDeleteAndRecord(t *testing.T) {
	dir, r := t.TempDir(), newReceiver(t)
	q := r.open(t, dir, nil)
	appendLarge(q, 600)
	testenv.NoError(t, q.recordSentPosition(t.Context()))
	testenv.NoError(t, q.sendNew(t.Context()))
	testenv.NoError(t, q.log.Cut(q.position))
	if q.log.Tail().Number < 2 {
		t.Fatal("nothing is cut")
	}
	testenv.NoError(t, q.Close())
	q = r.open(t, dir, nil)
	defer q.Close()
	testenv.NoError(t, q.sendNew(t.Context()))
}

// TestFullQueueDropsOldest fills the log during an outage of the store, and expects the newest samples to
// arrive later.
func TestFullQueueDropsOldest(t *testing.T) {
	r := newReceiver(t)
	r.down = true
	q := r.open(t, t.TempDir(), func(o *Options) { o.Budget = 1 << 20 })
	defer q.Close()
	number := uint64(0)
	random := rand.New(rand.NewPCG(1, 2))
	node := ""
	for range 40 {
		for range 100 {
			number++
			text := make([]byte, 800)
			for i := range text {
				text[i] = byte(random.Uint32())
			}
			node = fmt.Sprintf("%x", text)
			appendSample(q, number, node)
		}
		testenv.NoError(t, q.Flush(t.Context()))
		if err := q.sendNew(t.Context()); err == nil {
			t.Fatal("a store that is down took samples")
		}
	}
	r.change(func() { r.down = false })
	testenv.NoError(t, q.sendNew(t.Context()))
	if got := r.count(); got == 0 || got >= int(number) {
		t.Errorf("%d of %d samples", got, number)
	}
	newest := fmt.Sprintf("%s %d", node, number*1000)
	found := false
	for text := range r.values {
		found = found || strings.HasPrefix(text, newest)
	}
	if !found {
		t.Error("the newest sample is missing")
	}
}

// TestOptionsAreRefused opens queues with invalid settings, and expects errors. Then it checks which nodes a valid
// Match selects.
func TestOptionsAreRefused(t *testing.T) {
	for _, o := range []Options{{URL: "metrics.example.org"}, {URL: "ftp://x/"}, {URL: "http://u:p@x/"}, {URL: "http://x/", Match: "{"}, {URL: "http://x/", CAFile: "/nosuch"}} {
		o.Dir, o.Logger, o.Registerer = t.TempDir(), slog.New(slog.DiscardHandler), prometheus.NewRegistry()
		if _, err := Open(t.Context(), o); model.ClassOf(err) != model.Invalid || strings.Contains(err.Error(), "u:p") {
			t.Errorf("%+v: %v", o, err)
		}
	}
	q := newReceiver(t).open(t, t.TempDir(), func(o *Options) { o.Match = `{namespace="web",node!~"test.*"}` })
	defer q.Close()
	for node, want := range map[string]bool{"web1": true, "test1": false} {
		if q.Selects(labels.FromStrings("namespace", "web", "node", node)) != want {
			t.Errorf("node %s: %t", node, !want)
		}
	}
}

// FuzzEntry reads random bytes as an entry of the remote-write queue's log, and expects no panic.
func FuzzEntry(f *testing.F) {
	f.Add([]byte{flushEntry})
	f.Add(appendEntryHeader([]byte{markEntry}, journal.Position{Log: 1, Number: 2}))
	var block wire.SampleBlock
	block.Add([]wire.SeriesLabel{{Name: "a", Value: "b"}}, []wire.Sample{{Ms: 1, Value: 2}})
	f.Add(block.Append(appendEntryHeader([]byte{samplesEntry}, journal.Position{Log: 1, Number: 2})))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) == 0 {
			return
		}
		_ = new(Queue).loadEntry(0, data)
		var b batch
		if err := b.add(data); err == nil && b.samples > len(data) {
			t.Fatalf("%d samples of %d bytes", b.samples, len(data))
		}
	})
}
