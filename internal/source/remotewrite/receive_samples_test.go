package remotewrite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/prometheus/prompb"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"
	"google.golang.org/protobuf/encoding/protowire"
	"pgregory.net/rapid"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

const (
	type1 = "application/x-protobuf"
	type2 = "application/x-protobuf;proto=io.prometheus.write.v2.Request"
)

var now = time.UnixMilli(1764007200000)

// testServer is a Server with a journal in memory.
type testServer struct {
	*Server
	entries []journal.Entry
	err     error // of the commits
	charged string
	charges int    // calls of Charge
	limited string // reason of ChargeSamples
	stats   journal.Stats
}

// newServer returns a test server that knows the token good and the namespaces default and web.
func newServer(t testing.TB) *testServer {
	s := &testServer{}
	s.Server = testenv.Value(New(Config{
		Access: s, Journal: s, Now: func() time.Time { return now },
		CheckNamespace: func(name string) error {
			if name != "default" && name != "web" {
				return model.Errorf(model.NotFound, "namespace %s does not exist", name)
			}
			return nil
		},
		Charge:        func(string, string, int) string { s.charges++; return s.charged },
		ChargeSamples: func(string, int) string { return s.limited },
		Pressures:     &core.FillLevels{Stats: func() journal.Stats { return s.stats }, QueueBytes: 100},
	}))(t)
	return s
}

// Authenticate accepts all tokens that begin with "good".
func (s *testServer) Authenticate(token string) (access.Subject, error) {
	if !strings.HasPrefix(token, "good") {
		return access.Subject{}, errors.New("unknown")
	}
	return access.Subject{User: "prometheus", Grants: access.Grants{Role: access.RemoteWrite}}, nil
}

// LoginProgram refuses every user and password, so that only tokens work on the test server.
func (s *testServer) LoginProgram(context.Context, string, string, string, access.PasswordThrottle) (access.Program, error) {
	return access.Program{}, model.Errorf(model.Unauthenticated, "wrong password")
}

// Append stores copies of the entries in memory, and immediately reports each entry as committed.
func (s *testServer) Append(_ context.Context, entries ...journal.Entry) error {
	for _, e := range entries {
		if s.err == nil {
			s.entries = append(s.entries, journal.Entry{Section: e.Section, Data: bytes.Clone(e.Data)})
		}
		if e.Waiter != nil {
			e.Waiter.Committed(0, journal.Position{}, s.err)
		}
	}
	return nil
}

// journaledSamples returns the samples in the journal as text, with their series, in the order of time.
func (s *testServer) journaledSamples(t testing.TB) (list []string) {
	for _, e := range s.entries {
		var r wire.Record
		testenv.NoError(t, r.Decode(e.Data))
		var reader wire.SampleReader
		testenv.NoError(t, reader.Reset(r.Samples.Block))
		for reader.Next() {
			text := ""
			for _, l := range reader.Labels {
				text += l.Name + "=" + l.Value + " "
			}
			for _, x := range reader.Samples {
				list = append(list, fmt.Sprintf("%s%d %x", text, x.Ms, math.Float64bits(x.Value)))
			}
		}
		testenv.NoError(t, reader.Err())
	}
	slices.Sort(list)
	return list
}

// post sends a body to the server and returns the answer's headers.
func (s *testServer) post(path, contentType, token string, body []byte) (http.Header, error) {
	r := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body))
	r.Header.Set("Content-Type", contentType)
	r.Header.Set("Content-Encoding", "snappy")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	header := http.Header{}
	return header, s.Serve(header, r, "192.0.2.1")
}

// series is a series in a test's request, with its labels and samples.
type series struct {
	labels  []string // names and values in turn
	samples []wire.Sample
}

// encode encodes series as the uncompressed body of a request, in version 1 or 2.
func encode(t testing.TB, version2 bool, list []series) []byte {
	if !version2 {
		var r prompb.WriteRequest
		for _, x := range list {
			var s prompb.TimeSeries
			for i := 0; i < len(x.labels); i += 2 {
				s.Labels = append(s.Labels, prompb.Label{Name: x.labels[i], Value: x.labels[i+1]})
			}
			for _, v := range x.samples {
				s.Samples = append(s.Samples, prompb.Sample{Timestamp: v.Ms, Value: v.Value})
			}
			r.Timeseries = append(r.Timeseries, s)
		}
		return testenv.Value(r.Marshal())(t)
	}
	var r writev2.Request
	symbols := writev2.NewSymbolTable()
	for _, x := range list {
		var s writev2.TimeSeries
		for _, text := range x.labels {
			s.LabelsRefs = append(s.LabelsRefs, symbols.Symbolize(text))
		}
		for _, v := range x.samples {
			s.Samples = append(s.Samples, writev2.Sample{Timestamp: v.Ms, Value: v.Value})
		}
		r.Timeseries = append(r.Timeseries, s)
	}
	r.Symbols = symbols.Symbols()
	return testenv.Value(r.Marshal())(t)
}

// TestSamplesBecomeRecords sends samples in both protocol versions, and expects journal records with the
// namespace from the URL path.
func TestSamplesBecomeRecords(t *testing.T) {
	list := []series{
		{[]string{"__name__", "up", "job", "node", "namespace", "kube-system"}, []wire.Sample{{Ms: now.UnixMilli(), Value: 1}, {Ms: now.UnixMilli() + 1, Value: math.Float64frombits(0x7ff0000000000002)}}},
		{[]string{"__name__", "load1", "instance", "db1", "empty", ""}, []wire.Sample{{Ms: now.UnixMilli() - 5, Value: 0.5}}},
	}
	want := []string{
		fmt.Sprintf("__name__=load1 instance=db1 namespace=web %d 3fe0000000000000", now.UnixMilli()-5),
		fmt.Sprintf("__name__=up exported_namespace=kube-system job=node namespace=web %d 3ff0000000000000", now.UnixMilli()),
		fmt.Sprintf("__name__=up exported_namespace=kube-system job=node namespace=web %d 7ff0000000000002", now.UnixMilli()+1),
	}
	for _, version2 := range []bool{false, true} {
		s, kind := newServer(t), type1
		if version2 {
			kind = type2
		}
		header, err := s.post("/prometheus/web/api/v1/write", kind, "good", snappy.Encode(nil, encode(t, version2, list)))
		testenv.NoError(t, err)
		if got := s.journaledSamples(t); !slices.Equal(got, want) || header.Get("X-Prometheus-Remote-Write-Samples-Written") != "3" {
			t.Errorf("version 2 %v: %q, want %q; headers %v", version2, got, want, header)
		}
	}
}

// TestWrongRequestsAreRefused sends invalid requests, and expects the right error, reason and number of stored
// samples. They are refused whole or in part.
func TestWrongRequestsAreRefused(t *testing.T) {
	at := now.UnixMilli()
	one := func(ms int64, labels ...string) []byte {
		return snappy.Encode(nil, encode(t, false, []series{{labels, []wire.Sample{{Ms: ms, Value: 1}}}, {[]string{"__name__", "good"}, []wire.Sample{{Ms: at, Value: 1}}}}))
	}
	field := func(number protowire.Number, content []byte, before ...byte) []byte {
		return snappy.Encode(nil, protowire.AppendBytes(protowire.AppendTag(before, number, protowire.BytesType), content))
	}
	many := []string{"__name__", "wide"}
	for i := range 70 {
		many = append(many, fmt.Sprint("l", i), "x")
	}
	long := []string{"__name__", "long"}
	for i := range 5 {
		long = append(long, fmt.Sprint("l", i), strings.Repeat("x", 2000))
	}
	for _, c := range []struct {
		path, kind, token string
		body              []byte
		class             model.Class
		reason            string
		kept              int
	}{
		{"/prometheus/api/v1/write", type1, "", one(at, "__name__", "a"), model.Unauthenticated, "no credentials", 0},
		{"/prometheus/api/v1/write", type1, "bad", one(at, "__name__", "a"), model.Unauthenticated, "unknown or has expired", 0},
		{"/prometheus/nosuch/api/v1/write", type1, "good", one(at, "__name__", "a"), model.NotFound, "does not exist", 0},
		{"/prometheus/a/b/api/v1/write", type1, "good", one(at, "__name__", "a"), model.NotFound, "does not exist", 0},
		{"/prometheus/api/v1/write", "application/json", "good", one(at, "__name__", "a"), model.Invalid, "neither remote write", 0},
		{"/prometheus/api/v1/write", type1, "good", []byte("\xff\xff\xff"), model.Invalid, "uncompress", 0},
		{"/prometheus/api/v1/write", type1, "good", snappy.Encode(nil, []byte{0x0a, 0x7f}), model.Invalid, "protobuf", 0},
		{"/prometheus/api/v1/write", type2, "good", snappy.Encode(nil, []byte{0x2a, 0x04, 0x0a, 0x02, 1, 2}), model.Invalid, "protobuf", 0},
		{"/prometheus/api/v1/write", type1, "good", []byte{0xff, 0xff, 0xff, 0xff, 0x7}, model.TooLarge, "larger than the limit", 0},
		{"/prometheus/api/v1/write", type2, "good", snappy.Encode(nil, bytes.Repeat([]byte{0x22, 0}, 1<<20)), model.Invalid, "too many symbols", 0},
		{"/prometheus/api/v1/write", type1, "good", field(1, bytes.Repeat([]byte{0x12, 0}, 1<<20)), model.Invalid, "samples", 0},
		{"/prometheus/api/v1/write", type1, "good", field(1, append(bytes.Repeat([]byte{0x0a, 0}, 1<<20), 0x12, 0)), model.Invalid, "labels", 0},
		{"/prometheus/api/v1/write", type2, "good", field(5, append(protowire.AppendBytes([]byte{0x0a}, make([]byte, 1<<20)), 0x12, 0), 0x22, 0), model.Invalid, "labels", 0},
		{"/prometheus/api/v1/write", type1, "good", one(at+11*60*1000, "__name__", "a"), model.Invalid, "ahead", 1},
		{"/prometheus/api/v1/write", type1, "good", one(at-25*3600*1000, "__name__", "a"), model.Invalid, "older", 1},
		{"/prometheus/api/v1/write", type1, "good", one(at, "job", "a"), model.Invalid, "no label __name__", 1},
		{"/prometheus/api/v1/write", type1, "good", one(at, "__name__", "a", "b", "1", "b", "2"), model.Invalid, "twice", 1},
		{"/prometheus/api/v1/write", type1, "good", one(at, "__name__", "a", "b", "\xff"), model.Invalid, "UTF-8", 1},
		{"/prometheus/api/v1/write", type1, "good", one(at, "__name__", "a", "b", strings.Repeat("x", 2049)), model.Invalid, "too long", 1},
		{"/prometheus/api/v1/write", type1, "good", one(at, many...), model.Invalid, "too many labels", 1},
		{"/prometheus/api/v1/write", type1, "good", one(at, long...), model.Invalid, "labels of a series are too long", 1},
	} {
		s := newServer(t)
		if _, err := s.post(c.path, c.kind, c.token, c.body); model.ClassOf(err) != c.class || !strings.Contains(err.Error(), c.reason) || len(s.journaledSamples(t)) != c.kept {
			t.Errorf("%s %q: %v (%v), want %s; kept %v", c.path, c.body[:min(len(c.body), 40)], err, model.ClassOf(err), c.reason, s.journaledSamples(t))
		}
	}
	s := newServer(t)
	s.charged = "too much"
	if _, err := s.post("/prometheus/api/v1/write", type1, "good", one(at, "__name__", "a")); model.ClassOf(err) != model.Limited {
		t.Errorf("over the limit: %v", err)
	}
	s = newServer(t)
	s.limited = "too many values"
	if _, err := s.post("/prometheus/api/v1/write", type1, "good", one(at, "__name__", "a")); model.ClassOf(err) != model.Limited || len(s.entries) != 0 || testutil.ToFloat64(s.metrics.samples[overLimit]) != 2 {
		t.Errorf("over the limit of values: %v, %d entries", err, len(s.entries))
	}
	bad := series{[]string{"job", "a"}, []wire.Sample{{Ms: at}}}
	for class, list := range map[model.Class][]series{model.Limited: {bad, {[]string{"__name__", "good"}, []wire.Sample{{Ms: at}}}}, model.Invalid: {bad}} {
		s = newServer(t)
		s.limited = "too many values"
		if _, err := s.post("/prometheus/api/v1/write", type1, "good", snappy.Encode(nil, encode(t, false, list))); model.ClassOf(err) != class || testutil.ToFloat64(s.metrics.samples[badLabels]) != 1 {
			t.Errorf("over the limit of values, with a bad sample: %v, want %v", err, class)
		}
	}
	s = newServer(t)
	s.err = errors.New("full disk")
	if _, err := s.post("/prometheus/api/v1/write", type1, "good", one(at, "__name__", "a")); model.ClassOf(err) != model.Unavailable {
		t.Errorf("journal without room: %v", err)
	}
}

// TestSenderLeavesSlotsForOthers sends too many slow requests with one token, and expects requests with another
// token to succeed. A request with a second token is answered.
func TestSenderLeavesSlotsForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		var slow sync.WaitGroup
		body, end := io.Pipe()
		for range maxSenderRequests {
			r := httptest.NewRequest(http.MethodPost, "/prometheus/api/v1/write", body)
			r.Header.Set("Content-Type", type1)
			r.Header.Set("Authorization", "Bearer good")
			slow.Go(func() { _ = s.Serve(http.Header{}, r, "192.0.2.1") })
		}
		synctest.Wait()
		empty := snappy.Encode(nil, nil)
		if _, err := s.post("/prometheus/api/v1/write", type1, "good", empty); model.ClassOf(err) != model.Unavailable {
			t.Errorf("above the share: %v", err)
		}
		if _, err := s.post("/prometheus/api/v1/write", type1, "good other", empty); err != nil {
			t.Errorf("of others: %v", err)
		}
		testenv.NoError(t, end.Close())
		slow.Wait()
		if _, err := s.post("/prometheus/api/v1/write", type1, "good", empty); err != nil || len(s.shares.requests) != 0 {
			t.Errorf("afterwards: %v, shares %v", err, s.shares.requests)
		}
	})
}

// TestLargeRequestsShareMemory holds all memory for the bodies of requests, and expects a request to wait.
func TestLargeRequestsShareMemory(t *testing.T) {
	s := newServer(t)
	body := snappy.Encode(nil, encode(t, false, []series{{[]string{"__name__", "up"}, []wire.Sample{{Ms: now.UnixMilli(), Value: 1}}}}))
	testenv.NoError(t, s.memory.Acquire(t.Context(), s.cfg.Limits.AllBytes))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/prometheus/api/v1/write", bytes.NewReader(body))
	r.Header.Set("Content-Type", type1)
	r.Header.Set("Authorization", "Bearer good")
	if err := s.Serve(http.Header{}, r, "192.0.2.1"); model.ClassOf(err) != model.Unavailable || len(s.entries) > 0 {
		t.Errorf("without memory: %v, %d entries", err, len(s.entries))
	}
	s.memory.Release(s.cfg.Limits.AllBytes)
	for range 3 { // each gives its memory back
		if _, err := s.post("/prometheus/api/v1/write", type1, "good", body); err != nil || !s.memory.TryAcquire(s.cfg.Limits.AllBytes) {
			t.Fatalf("with memory: %v", err)
		}
		s.memory.Release(s.cfg.Limits.AllBytes)
	}
}

// TestCredentialSpellingsAreOneSender expects different spellings of one user's credentials to count as one sender.
// Each token is a sender of its own.
func TestCredentialSpellingsAreOneSender(t *testing.T) {
	keys := map[string]bool{}
	for _, header := range []string{"Basic cHJvbTpw", "basic cHJvbTpw", "BASIC cHJvbTpw", "Bearer a", "Bearer  a ", "Bearer b"} {
		r := httptest.NewRequest(http.MethodPost, "/prometheus/api/v1/write", nil)
		r.Header.Set("Authorization", header)
		keys[senderKey(r, "prom")] = true
	}
	if len(keys) != 3 {
		t.Errorf("%d senders, want a user and two tokens: %v", len(keys), keys)
	}
}

// TestSamplesWaitWhileTheJournalFills sends samples to a partly full journal queue, and expects acceptance or,
// above half, a refusal. They wait above a quarter, and above a half the sender is asked to send them again.
// Their namespace pays only for samples that are not refused.
func TestSamplesWaitWhileTheJournalFills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.stats.QueuedBytes = 51
		body := snappy.Encode(nil, encode(t, false, []series{{[]string{"__name__", "a"}, []wire.Sample{{Ms: now.UnixMilli(), Value: 1}}}}))
		began := time.Now()
		if _, err := s.post("/prometheus/api/v1/write", type1, "good", body); model.ClassOf(err) != model.Unavailable || len(s.entries) != 0 || time.Since(began) < time.Second {
			t.Errorf("%v after %v, %d entries", err, time.Since(began), len(s.entries))
		}
		s.stats.QueuedBytes = 25
		if _, err := s.post("/prometheus/api/v1/write", type1, "good", body); err != nil || len(s.entries) != 1 || s.charges != 1 {
			t.Errorf("%v, %d entries, %d charges", err, len(s.entries), s.charges)
		}
	})
}

// TestDecoderAgreesWithPrometheus encodes random requests with Prometheus' own code, and expects equal series and
// samples after decoding.
func TestDecoderAgreesWithPrometheus(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		var list []series
		for range rapid.IntRange(0, 4).Draw(r, "series") {
			x := series{}
			for range rapid.IntRange(0, 6).Draw(r, "labels") * 2 {
				x.labels = append(x.labels, rapid.StringN(0, 8, 20).Draw(r, "text"))
			}
			for range rapid.IntRange(0, 3).Draw(r, "samples") {
				x.samples = append(x.samples, wire.Sample{Ms: rapid.Int64().Draw(r, "ms"), Value: rapid.Float64().Draw(r, "value")})
			}
			list = append(list, x)
		}
		for _, version2 := range []bool{false, true} {
			var reader requestReader
			testenv.NoError(t, reader.reset(version2, encode(t, version2, list)))
			n := 0
			for reader.next() {
				labels := []string{}
				for _, l := range reader.decodeLabels() {
					labels = append(labels, l.Name, l.Value)
				}
				if n >= len(list) || !slices.Equal(labels, list[n].labels) || !slices.Equal(reader.samples, list[n].samples) {
					r.Fatalf("series %d: %q %v, want %+v", n, labels, reader.samples, list)
				}
				n++
			}
			if reader.err != nil || n != len(list) {
				r.Fatalf("%d of %d series, %v", n, len(list), reader.err)
			}
		}
	})
}

// TestLabelsBetweenSamples puts the labels of a series between its samples, and expects every sample to have all
// labels. A series of many parts needs few allocations.
func TestLabelsBetweenSamples(t *testing.T) {
	part := func(x series) []byte { // the encoded fields of one series
		_, content, _ := readField(encode(t, false, []series{x}))
		return content
	}
	var body []byte
	var want []string
	for i := range 20 {
		name, at := fmt.Sprint("metric", i), now.UnixMilli()+int64(i)
		split := slices.Concat(part(series{labels: []string{"job", fmt.Sprint("job", i)}}), part(series{samples: []wire.Sample{{Ms: at}}}), part(series{labels: []string{"__name__", name}}))
		body = protowire.AppendBytes(protowire.AppendTag(body, request1Series, protowire.BytesType), split)
		want = append(want, fmt.Sprintf("__name__=%s job=job%d namespace=default %d 0", name, i, at))
	}
	s := newServer(t)
	if _, err := s.post("/prometheus/api/v1/write", type1, "good", snappy.Encode(nil, body)); err != nil {
		t.Error(err)
	}
	if slices.Sort(want); !slices.Equal(s.journaledSamples(t), want) {
		t.Errorf("%q, want %q", s.journaledSamples(t), want)
	}
	r := requestReader{maxParts: 20_000}
	many := bytes.Repeat([]byte{tagSeriesLabel, 0, seriesSamples<<3 | byte(protowire.BytesType), 0}, 10_000)
	if n := testing.AllocsPerRun(1, func() { r.readSeries(many) }); n > 100 || len(r.encoded) != 20_000 {
		t.Errorf("%v allocations for %d bytes of labels", n, len(r.encoded))
	}
}

// TestCacheCountsItsMemory caches a series with many empty labels, and expects no memory for empty labels. It then
// sends one series many times in a request, and expects the cache to keep to its limit.
func TestCacheCountsItsMemory(t *testing.T) {
	var r requestReader
	testenv.NoError(t, r.reset(false, encode(t, false, []series{{labels: slices.Concat([]string{"__name__", "a"}, make([]string, 1000))}})))
	r.next()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	list, counted := make([]*cachedSeries, 1000), 0
	for i := range list {
		list[i] = newCachedSeries("default", r.encoded)
		counted += list[i].size()
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if used := int(after.HeapAlloc) - int(before.HeapAlloc); used > 2*counted || len(list[0].labels) != 2 {
		t.Errorf("%d series use %d bytes, counted are %d", len(list), used, counted)
	}
	runtime.KeepAlive(list)
	s := newServer(t)
	repeated := slices.Repeat([]series{{[]string{"__name__", "m"}, []wire.Sample{{Ms: now.UnixMilli()}}}}, 10_000)
	x := &requestBuffers{plain: encode(t, false, repeated)}
	allocations := testing.AllocsPerRun(1, func() {
		s.series.byHash, s.series.bytes, s.series.next = nil, maxCacheBytes-1000, now
		testenv.NoError(t, s.decode(x, "default", false))
	})
	if allocations > 20_000 || x.batch.kept != len(repeated) {
		t.Errorf("%v allocations, %d samples", allocations, x.batch.kept)
	}
}

// TestCachedSeriesAreStoredAlike sends random requests with and without the cache of series, and expects the
// same records. Requests have both versions and two namespaces, and each series comes at least twice.
func TestCachedSeriesAreStoredAlike(t *testing.T) {
	texts := rapid.SampledFrom([]string{"", "a", "b", "__name__", "job", "namespace", "\xff", strings.Repeat("x", 2049)})
	rapid.Check(t, func(r *rapid.T) {
		old := newServer(t)
		for range 3 {
			var list []series
			for range rapid.IntRange(1, 4).Draw(r, "series") {
				x := series{labels: []string{"__name__", rapid.SampledFrom([]string{"up", "down"}).Draw(r, "name")}}
				for range rapid.IntRange(0, 2).Draw(r, "labels") * 2 {
					x.labels = append(x.labels, texts.Draw(r, "text"))
				}
				x.samples = []wire.Sample{{Ms: now.UnixMilli() + rapid.Int64Range(-1, 1).Draw(r, "hours")*3600e3, Value: rapid.Float64().Draw(r, "value")}}
				list = append(list, x)
			}
			for i, path := range []string{"/prometheus/api/v1/write", "/prometheus/web/api/v1/write", "/prometheus/api/v1/write"} {
				fresh, kind := newServer(t), []string{type1, type2}[i%2]
				body := snappy.Encode(nil, encode(t, kind == type2, list))
				old.entries = nil
				_, wantErr := fresh.post(path, kind, "good", body)
				if _, err := old.post(path, kind, "good", body); fmt.Sprint(err) != fmt.Sprint(wantErr) || !slices.Equal(old.journaledSamples(t), fresh.journaledSamples(t)) {
					r.Fatalf("%q %v, want %q %v", old.journaledSamples(t), err, fresh.journaledSamples(t), wantErr)
				}
			}
		}
	})
}

// TestFullCacheDropsUnusedSeries fills the cache of series, and expects the removal of unused series. A series is
// unused without a sample since the previous sweep.
func TestFullCacheDropsUnusedSeries(t *testing.T) {
	var c seriesCache
	key := func(name string) []byte {
		var r requestReader
		testenv.NoError(t, r.reset(false, encode(t, false, []series{{labels: []string{"__name__", name}}})))
		r.next()
		return r.encoded
	}
	at := now
	add := func(names ...string) {
		for _, name := range names {
			c.add([]*cachedSeries{newCachedSeries("default", key(name))}, at)
		}
	}
	has := func(name string) bool { return c.find("default", key(name)) != nil }
	add("used", "unused")
	free := c.bytes
	c.bytes += maxCacheBytes
	if add("early"); has("early") || c.space(at) > 0 {
		t.Errorf("a full cache took a series")
	}
	used := has("used")
	at = at.Add(sweepInterval + 1)
	if c.bytes = free + maxCacheBytes - 1; c.space(at) <= 0 {
		t.Errorf("no space for a sweep")
	}
	c.bytes = maxCacheBytes
	add("late")
	if !used || !has("used") || has("unused") || c.bytes > maxCacheBytes || c.find("web", key("used")) != nil {
		t.Errorf("after a sweep the cache has used %v, unused %v; %d bytes", has("used"), has("unused"), c.bytes)
	}
	if c.bytes = free; c.space(at) <= 0 {
		t.Errorf("no space after the sweep")
	}
	if add("later"); !has("later") {
		t.Errorf("a cache with space took no series")
	}
}

// TestSeriesOfATargetShareAPartition expects the journal to keep all series of one monitored target in one partition. Series
// without a target are spread over sections.
func TestSeriesOfATargetShareAPartition(t *testing.T) {
	target := func(name string) []wire.SeriesLabel {
		return setNamespace([]wire.SeriesLabel{{Name: "__name__", Value: name}, {Name: "job", Value: "node"}, {Name: "instance", Value: "db1:9100"}}, "default")
	}
	if a, b := sectionOf(target("a")), sectionOf(target("b")); a != b || a != 230 {
		t.Errorf("sections %d and %d; a journal has series in their old section", a, b)
	}
	seen := map[int]bool{}
	for i := range 100 {
		seen[sectionOf(setNamespace([]wire.SeriesLabel{{Name: "__name__", Value: fmt.Sprint("m", i)}}, "default"))] = true
	}
	if len(seen) < 50 {
		t.Errorf("100 series are in %d sections", len(seen))
	}
}

// FuzzRequest sends random bytes as a request, and expects every accepted sample in the journal. The request has
// either version.
func FuzzRequest(f *testing.F) {
	list := []series{{[]string{"__name__", "up", "job", "node"}, []wire.Sample{{Ms: now.UnixMilli(), Value: 1}}}}
	f.Add(false, encode(f, false, list))
	f.Add(true, encode(f, true, list))
	f.Fuzz(func(t *testing.T, version2 bool, body []byte) {
		s := newServer(t)
		var first []string
		for range 2 { // the second time by the cache
			x := &requestBuffers{plain: body}
			if s.entries = nil; s.decode(x, "default", version2) != nil {
				return
			}
			testenv.NoError(t, s.Append(t.Context(), x.batch.entries...))
			got := s.journaledSamples(t)
			if len(got) != x.batch.kept || first != nil && !slices.Equal(got, first) {
				t.Fatalf("%d samples are kept, the journal has %q, before %q", x.batch.kept, got, first)
			}
			first = append([]string{}, got...)
		}
	})
}

// BenchmarkWrite measures a request with 2,000 samples of two targets, from the compressed body to the journal.
func BenchmarkWrite(b *testing.B) {
	for _, version2 := range []bool{false, true} {
		var list []series
		for i := range 2000 {
			list = append(list, series{[]string{"__name__", fmt.Sprint("node_metric_", i%1000), "cpu", fmt.Sprint(i % 8), "instance", fmt.Sprint("db", i/1000, ":9100"), "job", "node", "mode", "idle"}, []wire.Sample{{Ms: now.UnixMilli(), Value: float64(i)}}})
		}
		body, kind := snappy.Encode(nil, encode(b, version2, list)), type1
		if version2 {
			kind = type2
		}
		b.Run(fmt.Sprint("version2=", version2), func(b *testing.B) {
			s := newServer(b)
			b.ReportAllocs()
			for b.Loop() {
				s.entries = s.entries[:0]
				if _, err := s.post("/prometheus/api/v1/write", kind, "good", body); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/2000, "ns/sample")
		})
	}
}
