package remotesend

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/prompb"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
	"github.com/muster-fleet/muster/internal/wire"
)

// Bounds of the sender.
const (
	maxBatch       = 5000 // samples of a request
	sendInterval   = 500 * time.Millisecond
	markInterval   = 5 * time.Second
	firstRetry     = 250 * time.Millisecond
	lastRetry      = 30 * time.Second
	requestTimeout = 30 * time.Second
	maxAnswer      = 4 << 10 // bytes of an answer that are read
)

// metrics are the counters of a Queue.
type metrics struct{ sent, refused, dropped prometheus.Counter }

// newMetrics registers the counters and gauges of a Queue.
func newMetrics(r prometheus.Registerer, q *Queue) metrics {
	samples := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "muster", Subsystem: "remote_send", Name: "samples_total",
		Help: "Samples for the store of remote-write-url, by outcome. refused: by that store. dropped: too many waited."}, []string{"outcome"})
	r.MustRegister(samples,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "muster", Subsystem: "remote_send", Name: "behind_seconds", Help: "Age of the oldest sample that waits."},
			func() float64 { return q.State().Behind.Seconds() }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "muster", Subsystem: "remote_send", Name: "waiting_bytes", Help: "Bytes of samples that wait, compressed."},
			func() float64 { return float64(q.State().Bytes) }))
	return metrics{samples.WithLabelValues("sent"), samples.WithLabelValues("refused"), samples.WithLabelValues("dropped")}
}

// State tells how far the other store is behind.
type State struct {
	Behind  time.Duration // age of the oldest sample that waits
	Bytes   int64         // of samples that wait
	Trouble error         // of the last request; nil: it succeeded
}

// State returns the present state.
func (q *Queue) State() State {
	q.mu.Lock()
	s, oldest, position := State{Trouble: q.trouble}, q.oldest, q.position
	q.mu.Unlock()
	if oldest > 0 {
		s.Behind = max(0, q.opts.Now().Sub(time.Unix(0, oldest)))
		s.Bytes = q.log.SizeAfter(position)
	}
	return s
}

// Sent returns the number of samples that the other store took since the start of the server.
func (q *Queue) Sent() uint64 { return q.sent.Load() }

// newClient returns an HTTP client that trusts the certificates in a file, or the system's.
func newClient(caFile string) (*http.Client, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if caFile != "" {
		data, err := os.ReadFile(caFile)
		if err != nil {
			return nil, model.Errorf(model.Invalid, "remote-write-ca: %w", err)
		}
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(data) {
			return nil, model.Errorf(model.Invalid, "remote-write-ca: %s has no certificate in PEM", caFile)
		}
	}
	return &http.Client{Timeout: requestTimeout, Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: c, IdleConnTimeout: time.Minute}}, nil
}

// Run sends samples until ctx ends.
func (q *Queue) Run(ctx context.Context) error {
	retry, marked := firstRetry, q.opts.Now()
	for {
		wait := sendInterval
		err := q.sendNew(ctx)
		q.mu.Lock()
		first := q.trouble == nil && err != nil
		q.trouble = err
		q.mu.Unlock()
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			wait, retry = retry, min(2*retry, lastRetry)
			if first {
				q.opts.Logger.Warn("cannot send samples by remote write; they wait", "err", err)
			}
		default:
			retry = firstRetry
		}
		if now := q.opts.Now(); now.Sub(marked) >= markInterval {
			marked = now
			if err := q.cut(ctx); err != nil && ctx.Err() == nil {
				q.opts.Logger.Warn("cannot note how far remote write is", "err", err)
			}
		}
		if pause.For(ctx, wait) != nil {
			return nil
		}
	}
}

// cut marks the sent position in the log, if there is a new one, and deletes the entries before it.
func (q *Queue) cut(ctx context.Context) error {
	if !q.moved {
		return nil
	}
	q.mu.Lock()
	position := q.position
	q.mu.Unlock()
	if err := q.mark(ctx); err != nil {
		return err
	}
	q.moved = false
	return q.log.Cut(position)
}

// errFull ends the reading of the log when there are enough samples.
var errFull = errors.New("enough samples are read")

// batch has the samples of some commits of the log.
type batch struct {
	series  []prompb.TimeSeries
	samples int
	oldest  int64            // receive time of the first commit; zero: there is none
	end     journal.Position // of the last commit
}

// read reads the samples behind the position, until full says that there are enough.
func (q *Queue) read(ctx context.Context, full func(*batch) bool) (*batch, error) {
	b := &batch{end: q.position}
	err := q.log.Read(ctx, q.position, func(c journal.Commit) error {
		if full(b) {
			return errFull
		}
		for _, section := range c.Sections() {
			if err := c.Entries(section, b.add); err != nil {
				return err
			}
		}
		if b.oldest == 0 && b.samples > 0 {
			b.oldest = c.Received()
		}
		b.end = c.Position()
		return nil
	})
	if err != nil && !errors.Is(err, errFull) {
		return nil, fmt.Errorf("read the log of remote write: %w", err)
	}
	return b, nil
}

// sendNew sends all samples behind the position. If too many wait, it drops the oldest.
func (q *Queue) sendNew(ctx context.Context) error {
	for {
		if q.log.Stats().SizeBytes > q.opts.Budget*3/4 {
			if err := q.dropOldest(ctx); err != nil {
				return err
			}
		}
		b, err := q.read(ctx, func(b *batch) bool { return b.samples >= maxBatch })
		if err != nil {
			return err
		}
		q.mu.Lock()
		q.oldest = b.oldest
		q.mu.Unlock()
		for part := range slices.Chunk(b.series, maxBatch) {
			if err := q.send(ctx, part); err != nil {
				return err
			}
		}
		q.mu.Lock()
		q.position, q.oldest = b.end, 0
		q.mu.Unlock()
		q.moved = q.moved || b.samples > 0
		if b.samples < maxBatch {
			return ctx.Err()
		}
	}
}

// dropOldest skips samples until the log is half full.
func (q *Queue) dropOldest(ctx context.Context) error {
	b, err := q.read(ctx, func(b *batch) bool {
		b.series = b.series[:0]
		return q.log.SizeAfter(b.end) < q.opts.Budget/2
	})
	if err != nil {
		return err
	}
	q.metrics.dropped.Add(float64(b.samples))
	if b.samples > 0 {
		q.opts.Logger.Warn("too many samples wait for remote write; the oldest are dropped", "samples", b.samples)
	}
	q.mu.Lock()
	q.position = b.end
	q.mu.Unlock()
	q.moved = true
	return q.cut(ctx)
}

// add adds the series of an entry. Their texts are copies.
func (b *batch) add(data []byte) error {
	if data[0] != samplesEntry && data[0] != partEntry {
		return nil
	}
	_, block, err := decodeHead(data[1:])
	if err != nil {
		return err
	}
	var r wire.SampleReader
	if err := r.Reset(bytes.Clone(block)); err != nil {
		return err
	}
	for r.Next() {
		one := prompb.TimeSeries{Labels: make([]prompb.Label, len(r.Labels)), Samples: make([]prompb.Sample, len(r.Samples))}
		for i, l := range r.Labels {
			one.Labels[i] = prompb.Label{Name: l.Name, Value: l.Value}
		}
		for i, s := range r.Samples {
			one.Samples[i] = prompb.Sample{Timestamp: s.Ms, Value: s.Value}
		}
		b.series, b.samples = append(b.series, one), b.samples+len(one.Samples)
	}
	return r.Err()
}

// send sends series. A request that the other store refuses is divided, so that one refused sample, such as one that comes too late
// for it, costs no other.
func (q *Queue) send(ctx context.Context, list []prompb.TimeSeries) error {
	if len(list) == 0 {
		return nil
	}
	samples := 0
	for i := range list {
		samples += len(list[i].Samples)
	}
	refused, err := q.post(ctx, list)
	switch {
	case err != nil && !refused:
		return err
	case !refused:
		q.metrics.sent.Add(float64(samples))
		q.sent.Add(uint64(samples))
		return nil
	case len(list) == 1:
		q.metrics.refused.Add(float64(samples))
		return nil
	}
	half := len(list) / 2
	if err := q.send(ctx, list[:half]); err != nil {
		return err
	}
	return q.send(ctx, list[half:])
}

// post sends one request. refused: the other store will not take it later either.
func (q *Queue) post(ctx context.Context, list []prompb.TimeSeries) (refused bool, err error) {
	body, err := (&prompb.WriteRequest{Timeseries: list}).Marshal()
	if err != nil {
		return false, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, q.opts.URL, bytes.NewReader(snappy.Encode(nil, body)))
	if err != nil {
		return false, err
	}
	r.Header.Set("Content-Encoding", "snappy")
	r.Header.Set("Content-Type", "application/x-protobuf")
	r.Header.Set("X-Prometheus-Remote-Write-Version", "0.1.0")
	r.Header.Set("User-Agent", "muster")
	if err := q.authorize(r); err != nil {
		return false, err
	}
	answer, err := q.client.Do(r)
	if err != nil {
		return false, fmt.Errorf("%s: %w", r.URL.Host, errors.Unwrap(err))
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if answer.StatusCode/100 == 2 {
		return false, nil
	}
	err = fmt.Errorf("%s answers %s: %s", r.URL.Host, answer.Status, model.Truncate(strings.TrimSpace(string(text)), 200))
	switch answer.StatusCode {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return true, err
	}
	return false, err // later: also a wrong password, which somebody has to correct
}

// authorize sets the credentials of a request from the file, which is read each time.
func (q *Queue) authorize(r *http.Request) error {
	if q.opts.AuthFile == "" {
		return nil
	}
	data, err := os.ReadFile(q.opts.AuthFile)
	if err != nil {
		return fmt.Errorf("remote-write-auth-file: %w", err)
	}
	secret := model.SecretOfFile(data)
	if user, password, ok := strings.Cut(secret, ":"); ok {
		r.SetBasicAuth(user, password)
	} else {
		r.Header.Set("Authorization", "Bearer "+secret)
	}
	return nil
}
