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
	fullInterval   = 50 * time.Millisecond // between looks at the size of the log during a request
	markInterval   = 5 * time.Second
	firstRetry     = 250 * time.Millisecond
	lastRetry      = 30 * time.Second
	requestTimeout = 30 * time.Second
	markTimeout    = 5 * time.Second // at its budget the log takes no mark
	warnInterval   = time.Minute
	maxAnswer      = 4 << 10 // bytes of an answer that are read
)

// metrics are the counters and gauges of a Queue.
type metrics struct{ sent, refused, dropped prometheus.Counter }

// newMetrics registers the counters and gauges of a Queue.
func newMetrics(r prometheus.Registerer, q *Queue) metrics {
	samples := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "muster", Subsystem: "remote_send", Name: "samples_total",
		Help: "Samples for the store of remote-write-url, by outcome. refused: by that store. dropped: too many waited, or the log could not keep them."}, []string{"outcome"})
	r.MustRegister(samples,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "muster", Subsystem: "remote_send", Name: "behind_seconds", Help: "Age of the oldest sample that waits."},
			func() float64 { return q.State().Lag.Seconds() }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "muster", Subsystem: "remote_send", Name: "waiting_bytes", Help: "Bytes of samples that wait, compressed."},
			func() float64 { return float64(q.State().Bytes) }))
	return metrics{samples.WithLabelValues("sent"), samples.WithLabelValues("refused"), samples.WithLabelValues("dropped")}
}

// State has the delay and the last error of sending samples to another store by remote write. It also has the
// waiting bytes.
type State struct {
	Lag     time.Duration // age of the oldest sample that waits
	Bytes   int64         // of samples that wait
	Trouble error         // of the last request; nil: it succeeded

	Refused   uint64    // samples that the other store refused since the start of the server
	RefusedAt time.Time // the last of them
	Refusal   error     // its reason; nil: none is refused
}

// State returns the present delay and last error of sending, and the number of waiting bytes.
func (q *Queue) State() State {
	q.mu.Lock()
	s, oldest, position := q.refusals, q.oldest, q.position
	s.Trouble = q.trouble
	q.mu.Unlock()
	if oldest > 0 {
		s.Lag = max(0, q.opts.Now().Sub(time.Unix(0, oldest)))
		s.Bytes = q.log.SizeAfter(position)
	}
	return s
}

// Sent returns how many samples the other store has accepted since the start of the server.
func (q *Queue) Sent() uint64 { return q.sent.Load() }

// newClient returns an HTTP client that trusts the certificates in a file. Without a file it trusts the system's
// certificates.
func newClient(caFile string) (*http.Client, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if caFile != "" {
		data, err := os.ReadFile(caFile)
		if err != nil {
			return nil, model.Errorf(model.Invalid, "read the file of remote-write-ca: %w", err)
		}
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(data) {
			return nil, model.Errorf(model.Invalid, "remote-write-ca: %s has no certificate in PEM", caFile)
		}
	}
	return &http.Client{
		Timeout: requestTimeout, Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: c, IdleConnTimeout: time.Minute},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // a login page stores no samples
	}, nil
}

// Run sends queued samples to the other store by remote write until ctx ends. Before it returns, it records how
// far it has sent, so that the next start continues there.
func (q *Queue) Run(ctx context.Context) error {
	defer func() {
		if err := q.deleteSent(context.WithoutCancel(ctx)); err != nil && !errors.Is(err, journal.ErrClosed) {
			q.opts.Logger.Warn("cannot note how far remote write is", "err", err)
		}
	}()
	retry := firstRetry
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
			if wait, retry = retry, min(2*retry, lastRetry); errors.Is(err, errInterrupted) {
				wait = 0
			}
			if first {
				q.opts.Logger.Warn("cannot send samples by remote write; they wait", "err", err)
			}
		default:
			retry = firstRetry
		}
		q.deleteSentPeriodically(ctx)
		if q.pause(ctx, wait); ctx.Err() != nil {
			return nil
		}
	}
}

// pause sleeps until the next attempt to send, or until the log becomes full.
func (q *Queue) pause(ctx context.Context, wait time.Duration) {
	if q.isNearlyFull() { // the last attempt made no room
		_ = pause.For(ctx, min(wait, sendInterval))
		return
	}
	ctx, end := q.contextUntilFull(ctx)
	defer end()
	_ = pause.For(ctx, wait)
}

// isNearlyFull reports whether the remote-write queue's log uses more than three quarters of its size limit.
// Then the oldest samples must be dropped.
func (q *Queue) isNearlyFull() bool { return q.log.Stats().SizeBytes > q.opts.Budget*3/4 }

// deleteSentPeriodically deletes sent samples from the queue's log, but at most once every five seconds.
func (q *Queue) deleteSentPeriodically(ctx context.Context) {
	now := q.opts.Now()
	if now.Sub(q.marked) < markInterval {
		return
	}
	q.marked = now
	if err := q.deleteSent(ctx); err != nil && ctx.Err() == nil {
		q.opts.Logger.Warn("cannot note how far remote write is", "err", err)
	}
}

// deleteSent records the position of the last sent sample, and deletes all earlier entries of the log. Without
// a new position it does nothing. A full log gets no mark: at its budget it would take none before the cut.
func (q *Queue) deleteSent(ctx context.Context) error {
	if !q.moved {
		return nil
	}
	q.mu.Lock()
	position := q.position
	q.mu.Unlock()
	if st := q.log.Stats(); st.SizeBytes+st.QueuedBytes > q.opts.Budget*3/4 {
		return q.log.Cut(position)
	}
	ctx, cancel := context.WithTimeout(ctx, markTimeout)
	defer cancel()
	if err := q.recordSentPosition(ctx); err != nil {
		return fmt.Errorf("record the position of the last sent sample in the log of remote write: %w", err)
	}
	q.moved = false
	return q.log.Cut(position)
}

// errFull ends the reading of the log when there are enough samples.
var errFull = errors.New("enough samples are read")

// batch holds the samples of one remote write request, read from the log.
type batch struct {
	series    []prompb.TimeSeries
	samples   int
	malformed int              // entries
	skipped   bool             // damaged commits
	oldest    int64            // receive time of the first commit; zero: there is none
	end       journal.Position // of the last commit
}

// read reads samples from the log that were not sent yet, up to one batch. It stops when the function full returns
// true. It skips damaged commits and malformed entries.
func (q *Queue) read(ctx context.Context, full func(*batch) bool) (*batch, error) {
	b := &batch{end: q.position}
	err := q.log.ReadUndamaged(ctx, q.position, func(c journal.Commit) error {
		if full(b) {
			return errFull
		}
		b.skipped = b.skipped || c.Position().Number > b.end.Number+1
		for _, section := range c.Sections() {
			err := c.Entries(section, func(data []byte) error {
				if b.add(data) != nil {
					b.malformed++
				}
				return nil
			})
			if err != nil {
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

// finishBatch removes a batch from the queue after its samples were sent or dropped. It logs damaged and
// malformed entries of the batch.
func (q *Queue) finishBatch(b *batch) {
	q.metrics.dropped.Add(float64(b.malformed))
	if (b.skipped || b.malformed > 0) && !q.warned {
		q.warned = true
		q.opts.Logger.Warn("the log of remote write is damaged; the samples of the lost part are not sent", "malformed", b.malformed)
	}
	q.moved = q.moved || b.samples > 0 || b.skipped || b.malformed > 0
	q.mu.Lock()
	defer q.mu.Unlock()
	q.position = b.end
}

// sendNew sends all samples that were not sent yet. If too many wait, it drops the oldest.
func (q *Queue) sendNew(ctx context.Context) error {
	for {
		if q.isNearlyFull() {
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
		q.finishBatch(b)
		q.mu.Lock()
		q.oldest, q.trouble = 0, nil
		q.mu.Unlock()
		q.deleteSentPeriodically(ctx)
		if b.samples < maxBatch {
			return ctx.Err()
		}
	}
}

// dropOldest deletes the oldest unsent samples until the log is only half full.
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
	q.finishBatch(b)
	q.moved = true
	return q.deleteSent(ctx)
}

// add decodes an entry of the queue's log and adds its series to the batch. Their texts are copies.
func (b *batch) add(data []byte) error {
	if len(data) == 0 {
		return errEntry
	}
	if data[0] != samplesEntry && data[0] != partEntry {
		return nil
	}
	_, block, err := decodeEntryHeader(data[1:])
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

// send sends series to the other store by remote write. If the store refuses a request, send divides it and sends both
// halves, so that one bad sample (such as a late one) does not lose the others.
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
	case samples <= 1:
		q.recordRefused(samples, err)
		return nil
	}
	first, second := splitSeries(list)
	if err := q.send(ctx, first); err != nil {
		return err
	}
	return q.send(ctx, second)
}

// splitSeries divides a list of series into two halves, to find the samples that the store refuses. A list with one series
// is divided by its samples.
func splitSeries(list []prompb.TimeSeries) (first, second []prompb.TimeSeries) {
	if half := len(list) / 2; half > 0 {
		return list[:half], list[half:]
	}
	one := list[0]
	half := len(one.Samples) / 2
	return []prompb.TimeSeries{{Labels: one.Labels, Samples: one.Samples[:half]}}, []prompb.TimeSeries{{Labels: one.Labels, Samples: one.Samples[half:]}}
}

// recordRefused counts samples that the other store refused, and stores the reason for the server's status.
func (q *Queue) recordRefused(samples int, reason error) {
	q.metrics.refused.Add(float64(samples))
	now := q.opts.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	s := &q.refusals
	s.Refused, s.RefusedAt, s.Refusal = s.Refused+uint64(samples), now, reason
	if q.refusalWarning.isDue(now) {
		q.opts.Logger.Warn("the other store of remote write refuses samples", "refused", s.Refused, "err", reason)
	}
}

// warning limits how often one kind of warning is logged. It holds the time of the last warning.
type warning struct{ last time.Time }

// isDue reports whether enough time has passed for the next warning.
func (w *warning) isDue(now time.Time) bool {
	if !w.last.IsZero() && now.Sub(w.last) < warnInterval {
		return false
	}
	w.last = now
	return true
}

// errInterrupted is the reason why a request ends: the log is full while the other store does not answer.
var errInterrupted = errors.New("no answer, and the oldest samples have to make room")

// contextUntilFull returns a context that is cancelled when the log becomes full. A full log makes Append wait, and with it
// the pipeline of values. The caller calls end after its request or pause.
func (q *Queue) contextUntilFull(ctx context.Context) (out context.Context, end func()) {
	out, interrupt := context.WithCancelCause(ctx)
	go func() {
		for pause.For(out, fullInterval) == nil {
			if q.isNearlyFull() {
				interrupt(errInterrupted)
			}
		}
	}()
	return out, func() { interrupt(nil) }
}

// post sends series in one HTTP request of remote write. refused: the other store will not take it later either.
func (q *Queue) post(ctx context.Context, list []prompb.TimeSeries) (refused bool, err error) {
	body, err := (&prompb.WriteRequest{Timeseries: list}).Marshal()
	if err != nil {
		return false, err
	}
	ctx, end := q.contextUntilFull(ctx)
	defer end()
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
		if cause := context.Cause(ctx); errors.Is(cause, errInterrupted) {
			return false, fmt.Errorf("%s: %w", r.URL.Host, cause)
		}
		return false, fmt.Errorf("%s: %w", r.URL.Host, errors.Unwrap(err))
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if answer.StatusCode/100 == 2 {
		return false, nil
	}
	err = fmt.Errorf("the store at %s answers %s: %s", r.URL.Host, answer.Status, model.Truncate(strings.TrimSpace(string(text)), 200))
	switch answer.StatusCode {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return true, err
	}
	return false, err // later: also a wrong password, which somebody has to correct
}

// authorize sets the credentials of a remote-write request from the credentials file. They come from the file,
// which is read each time.
func (q *Queue) authorize(r *http.Request) error {
	if q.opts.AuthFile == "" {
		return nil
	}
	data, err := os.ReadFile(q.opts.AuthFile)
	if err != nil {
		return fmt.Errorf("read the file of remote-write-auth-file: %w", err)
	}
	secret := model.SecretOfFile(data)
	if user, password, ok := strings.Cut(secret, ":"); ok {
		r.SetBasicAuth(user, password)
	} else {
		r.Header.Set("Authorization", "Bearer "+secret)
	}
	return nil
}
