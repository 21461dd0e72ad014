package remotewrite

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/authlimit"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/source/core"
)

// Path is the prefix of the URL paths: PATH/api/v1/write for namespace default, and PATH/NAMESPACE/api/v1/write.
const Path = "/prometheus/"

// method is the end of the URL paths.
const method = "api/v1/write"

// Config holds the settings and dependencies of a Server.
type Config struct {
	Access         core.Access
	CheckNamespace func(name string) error
	Journal        core.Appender
	// Charge charges the bytes of a request to the limits of its namespace and user; it returns the reason to refuse the
	// request, or "".
	Charge func(namespace, user string, bytes int) (reason string)
	// ChargeSamples charges accepted samples to the limit of values of their namespace; it returns the reason to refuse them,
	// or "".
	ChargeSamples func(namespace string, samples int) (reason string)
	Pressures     *core.FillLevels // requests wait for them
	Limits        Limits

	Now        func() time.Time      // default time.Now
	Registerer prometheus.Registerer // default: metrics are kept but not exposed
}

// Limits has the limits on remote-write requests, such as their size. Zero: the default.
type Limits struct {
	BodyBytes   int64         // of one request as it is sent; default 8 MiB
	PlainBytes  int           // of one request, uncompressed; default 32 MiB
	AllBytes    int64         // of all requests that are handled at the same time, uncompressed; default 64 MiB
	Labels      int           // of a series; default 64
	LabelBytes  int           // of the name or value of a label; default 2048
	SeriesBytes int           // of all names and values of a series; default 8 KiB
	Age         time.Duration // of a sample; default 24 h
	MaxAhead    time.Duration // of a sample; default 10 min
}

// setDefaults replaces each limit of zero by the default limit.
func (l *Limits) setDefaults() {
	l.BodyBytes, l.PlainBytes = cmp.Or(l.BodyBytes, 8<<20), cmp.Or(l.PlainBytes, 32<<20)
	l.AllBytes = cmp.Or(l.AllBytes, 64<<20)
	l.Labels, l.LabelBytes, l.SeriesBytes = cmp.Or(l.Labels, 64), cmp.Or(l.LabelBytes, 2048), cmp.Or(l.SeriesBytes, 8<<10)
	l.Age, l.MaxAhead = cmp.Or(l.Age, 24*time.Hour), cmp.Or(l.MaxAhead, 10*time.Minute)
}

// Server receives samples by Prometheus' remote write and writes the samples to the journal.
type Server struct {
	cfg     Config
	login   core.SenderLogin
	metrics metrics
	series  seriesCache
	shares  requestCounts
	memory  *semaphore.Weighted // uncompressed bytes of the requests that are handled
	idle    sync.Pool           // of *receiver
}

// requestBuffers holds the buffers for decoding one request, which later requests reuse.
type requestBuffers struct {
	packed bytes.Buffer // the body as it is sent
	plain  []byte
	reader requestReader
	batch  sampleBatch
}

// New returns a server for Prometheus' remote write, after a check of its configuration.
func New(cfg Config) (*Server, error) {
	if cfg.Access == nil || cfg.CheckNamespace == nil || cfg.Journal == nil || cfg.Charge == nil || cfg.ChargeSamples == nil || cfg.Pressures == nil {
		return nil, errors.New("BUG: the source of samples needs access, namespaces, journal, limits and pressures")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Registerer == nil {
		cfg.Registerer = prometheus.NewRegistry()
	}
	cfg.Limits.setDefaults()
	return &Server{cfg: cfg, metrics: newMetrics(cfg.Registerer), memory: semaphore.NewWeighted(cfg.Limits.AllBytes), idle: sync.Pool{New: func() any { return new(requestBuffers) }},
		login: core.SenderLogin{Access: cfg.Access, CheckNamespace: cfg.CheckNamespace, Passwords: authlimit.New(cfg.Now), Role: access.RemoteWrite, Noun: "samples", Path: Path},
	}, nil
}

// Serve handles one remote-write request, sets headers of the HTTP answer, and counts the result in the
// metrics. The error is for its sender.
func (s *Server) Serve(header http.Header, r *http.Request, _ string) error {
	err := s.serve(header, r)
	result := "ok"
	if err != nil {
		result = model.ClassOf(err).Label()
	}
	s.metrics.requests.WithLabelValues(result).Inc()
	return err
}

// serve checks the path, method and sender of a request, then writes its samples.
func (s *Server) serve(header http.Header, r *http.Request) error {
	namespace, ok := s.login.NamespaceOf(r.URL.Path, method)
	if !ok {
		return model.Errorf(model.NotFound, "path %s does not exist", r.URL.Path).WithHint("write samples by POST %s%s, or %sNAMESPACE/%s: docs/promql.md", Path, method, Path, method)
	}
	if r.Method != http.MethodPost {
		return model.Errorf(model.Invalid, "this path only accepts samples by POST; to read samples, use: muster query").WithHint("docs/promql.md")
	}
	user, err := s.login.Authenticate(r, namespace)
	if err != nil {
		return err
	}
	leave, err := s.shares.beginRequest(senderKey(r, user))
	if err != nil {
		return err
	}
	defer leave()
	version2, err := versionOf(r.Header)
	if err != nil {
		return err
	}
	if err := s.cfg.Pressures.Wait(r.Context(), core.SlowValuesAt); err != nil {
		return err
	}
	x := s.idle.Get().(*requestBuffers)
	defer s.idle.Put(x)
	size, err := s.readBody(x, r.Body)
	if err != nil {
		return err
	}
	if reason := s.cfg.Charge(namespace, user, x.packed.Len()); reason != "" {
		return model.Errorf(model.Limited, "refused all samples of the request: %s", reason).
			WithHint("send the samples again in a minute (retry_on_http_429: true), or raise spec.limits.nodeBytesPerSec of the namespace: muster edit namespace %s", namespace)
	}
	size = min(size, s.cfg.Limits.AllBytes)
	if err := s.memory.Acquire(r.Context(), size); err != nil {
		return model.Errorf(model.Unavailable, "the server is handling too many large requests").WithHint("send the samples again")
	}
	defer s.memory.Release(size)
	if x.plain, err = snappy.Decode(x.plain[:cap(x.plain)], x.packed.Bytes()); err != nil {
		return malformedBodyError(err)
	}
	if err := s.decode(x, namespace, version2); err != nil {
		return err
	}
	return s.write(r.Context(), header, &x.batch)
}

// senderKey returns the token or user of a request, under which the server counts the sender's concurrent
// requests. It is the user for a password. Several tokens may have one user.
func senderKey(r *http.Request, user string) string {
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return "token " + strings.TrimSpace(token)
	}
	return "user " + user
}

// versionOf reports, from the HTTP header, whether a request uses version 2.0 of remote write.
func versionOf(header http.Header) (version2 bool, err error) {
	kind, parameters, err := mime.ParseMediaType(header.Get("Content-Type"))
	encoding := cmp.Or(header.Get("Content-Encoding"), "snappy")
	message := cmp.Or(parameters["proto"], "prometheus.WriteRequest")
	if err != nil || kind != "application/x-protobuf" || encoding != "snappy" || message != "prometheus.WriteRequest" && message != "io.prometheus.write.v2.Request" {
		return false, model.Errorf(model.Invalid, "the request is neither remote write 1.0 nor 2.0: Content-Type %q, Content-Encoding %q", header.Get("Content-Type"), encoding).
			WithHint("send application/x-protobuf, compressed with snappy: docs/promql.md")
	}
	return message != "prometheus.WriteRequest", nil
}

// readBody reads a request body, and returns its uncompressed size, within its size limits.
func (s *Server) readBody(x *requestBuffers, body io.Reader) (size int64, err error) {
	x.packed.Reset()
	if _, err := x.packed.ReadFrom(io.LimitReader(body, s.cfg.Limits.BodyBytes+1)); err != nil {
		return 0, model.Errorf(model.Invalid, "cannot read the request's body to its end: %w", err)
	}
	n, err := snappy.DecodedLen(x.packed.Bytes())
	switch {
	case int64(x.packed.Len()) > s.cfg.Limits.BodyBytes || err == nil && n > s.cfg.Limits.PlainBytes:
		return 0, model.Errorf(model.TooLarge, "the request's body is larger than the limit of %s, or %s uncompressed", model.Size(s.cfg.Limits.BodyBytes), model.Size(s.cfg.Limits.PlainBytes)).
			WithHint("send fewer samples at once: queue_config.max_samples_per_send")
	case err != nil:
		return 0, malformedBodyError(err)
	}
	return int64(n), nil
}

// malformedBodyError returns the error about a body that snappy cannot uncompress.
func malformedBodyError(err error) error {
	return model.Errorf(model.Invalid, "cannot uncompress the body: %w", err).WithHint("compress it as one snappy block")
}

// decode decodes a request body and collects the accepted samples in a batch.
func (s *Server) decode(x *requestBuffers, namespace string, version2 bool) error {
	now := s.cfg.Now()
	b, r := &x.batch, &x.reader
	b.reset(namespace, &s.cfg.Limits, now)
	err := r.reset(version2, x.plain)
	var accepted []*cachedSeries // the cache lacks them
	space := s.series.space(now)
	for err == nil && r.next() {
		key, ok := r.labelKey()
		if ok {
			if known := s.series.find(namespace, key); known != nil {
				b.addTimely(known.section, known.labels, r.samples)
				continue
			}
		}
		labels := r.decodeLabels()
		if err = r.err; err != nil || len(r.samples) == 0 || !b.add(labels, r.samples) {
			continue
		}
		if ok && space > 0 {
			known := newCachedSeries(namespace, key)
			accepted, space = append(accepted, known), space-known.size()
		}
	}
	if err = cmp.Or(err, r.err); err != nil {
		return model.Errorf(model.Invalid, "refused all samples of the request: %w", err)
	}
	s.series.add(accepted, now)
	b.refused[leftOut] += r.ignored
	b.finishAll()
	return nil
}

// write writes the accepted samples to the journal, and returns after the samples are durable. The error is about
// refused ones.
func (s *Server) write(ctx context.Context, header http.Header, b *sampleBatch) error {
	refused := 0
	for out, n := range b.refused {
		s.metrics.samples[out].Add(float64(n))
		if outcome(out) != leftOut {
			refused += n
		}
	}
	if len(b.entries) > 0 {
		if reason := s.cfg.ChargeSamples(b.namespace, b.kept); reason != "" {
			s.metrics.samples[overLimit].Add(float64(b.kept))
			return model.Errorf(model.Limited, "refused all samples of the request: %s", reason).
				WithHint("send the samples again in a minute (retry_on_http_429: true), or raise spec.limits.valuesPerSec of the namespace: muster edit namespace %s", b.namespace)
		}
		if _, err := core.AppendDurably(ctx, s.cfg.Journal, b.entries); err != nil {
			s.metrics.samples[notJournaled].Add(float64(b.kept))
			return model.Errorf(model.Unavailable, "cannot write the samples to the journal: %w", err).WithHint("send them again; muster status has the reason")
		}
	}
	s.metrics.samples[written].Add(float64(b.kept))
	for _, of := range [...]struct {
		kind string
		n    int
	}{{"Samples", b.kept}, {"Histograms", 0}, {"Exemplars", 0}} {
		header.Set("X-Prometheus-Remote-Write-"+of.kind+"-Written", strconv.Itoa(of.n))
	}
	if refused > 0 {
		return model.Errorf(model.Invalid, "refused %d samples, wrote the remaining %d samples: %s", refused, b.kept, b.reason).WithHint("see the limits: docs/promql.md")
	}
	return nil
}

// outcome says how the server handled a sample, such as written, too old or over a limit.
type outcome int

const (
	written      outcome = iota
	badLabels            // its labels are refused
	future               // its time is too far ahead
	tooOld               // its time is too long ago
	notJournaled         // the journal did not accept it
	overLimit            // the limit of values of its namespace
	leftOut              // a native histogram, an exemplar or metadata
	outcomes
)

// metrics has the counters of remote-write requests, and of samples by outcome.
type metrics struct {
	requests *prometheus.CounterVec
	samples  [outcomes]prometheus.Counter
}

// newMetrics registers the counters of the remote-write source.
func newMetrics(r prometheus.Registerer) (m metrics) {
	meter := core.Meter{Registerer: r, Prefix: "muster_remote_write_"}
	m.requests = meter.Vector("requests_total", "Requests with samples, by outcome: ok, or the class of the error.", "outcome")
	meter.Outcomes("samples_total", "Samples, by outcome; left_out are native histograms, exemplars and metadata.", m.samples[:], func(i int) string {
		return [outcomes]string{"kept", "labels", "future", "old", "not_stored", "limited", "left_out"}[i]
	})
	return m
}
