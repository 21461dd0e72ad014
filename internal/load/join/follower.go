package join

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/plan"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/version"
)

// Follower is a loader that plays one part. It implements load.Joint.
type Follower struct {
	load.Alone
	token  Token
	id     string
	client *http.Client
	base   time.Time // of its clock
	end    context.CancelCauseFunc
	both   sync.WaitGroup // orders and lines

	monitor
	plan    *followerPart
	connect bool
	begin   *time.Duration
	over    *over
	clock   clock
	score   func(time.Duration, []plan.Part) error
	renamed func(int, string)
	lines   []observe.Line // not sent yet
}

// Dial joins the run of a token. The part is to be played within Context: it ends with ctx, and when the run ends for all.
// The caller closes the follower.
func Dial(ctx context.Context, token Token) (*Follower, error) {
	f := &Follower{token: token, id: rand.Text(), base: time.Now(), monitor: monitor{changed: make(chan struct{})},
		client: &http.Client{Transport: &http.Transport{DialContext: (&net.Dialer{Timeout: silence}).DialContext, TLSClientConfig: pinned(token.Sum), TLSHandshakeTimeout: silence, ResponseHeaderTimeout: silence, ForceAttemptHTTP2: true}},
		score:  func(time.Duration, []plan.Part) error { return nil }, renamed: func(int, string) {}}
	f.ctx, f.end = context.WithCancelCause(ctx)
	err := f.post(f.ctx, "/join", hello{Version: Version, Build: version.Get().Version, Name: hostname(), Machine: machineID(), ID: f.id})
	if err == nil {
		err = f.setClock()
	}
	if err != nil {
		f.end(err)
		var refused *model.Error
		switch {
		case errors.Is(err, errAnother):
			return nil, model.Errorf(model.Unauthenticated, "join the run at %s: %w", token.Address, errAnother).WithHint("paste the token that this run printed: it is new for each")
		case errors.As(err, &refused):
			return nil, refused
		}
		return nil, model.Errorf(model.Unavailable, "join the run at %s: %w", token.Address, err).
			WithHint("is muster load run --loaders N waiting there? On another machine its --listen-join must be an address that this one reaches")
	}
	f.both.Go(f.fetch)
	f.both.Go(f.sendLines)
	return f, nil
}

// request sends one request to the lead, and calls read with the body of the answer.
func (f *Follower) request(ctx context.Context, method, path string, body []byte, read func(io.Reader) error) error {
	r, err := http.NewRequestWithContext(ctx, method, "https://"+f.token.Address+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", f.token.authorization())
	r.Header.Set(loaderHeader, f.id)
	response, err := f.client.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	limited := &io.LimitedReader{R: response.Body, N: mostOrders}
	if response.StatusCode/100 == 2 {
		if err = read(limited); err != nil && limited.N == 0 {
			return model.Errorf(model.TooLarge, "an answer of the loader that leads of more than %d bytes", mostOrders)
		}
		return err
	}
	if refused, err := decode[v1.Error](limited); err == nil && refused.Detail != "" {
		return refused.AsModel()
	}
	return fmt.Errorf("%s %s: %s", method, path, response.Status)
}

// post sends a value.
func (f *Follower) post(ctx context.Context, path string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode a message to the loader that leads: %w", err)
	}
	if len(data) > mostMessage {
		return model.Errorf(model.TooLarge, "a message of %d bytes to the loader that leads: at most %d are allowed", len(data), mostMessage)
	}
	return f.request(ctx, http.MethodPost, path, data, func(io.Reader) error { return nil })
}

// send reports a message. An error ends the part.
func (f *Follower) send(m message) error {
	err := f.post(f.ctx, "/report", m)
	if err != nil && f.ctx.Err() != nil {
		return context.Cause(f.ctx)
	}
	if err != nil {
		f.lose(err)
	}
	return err
}

// Context ends when the run cannot go on; its cause is the reason.
func (f *Follower) Context() context.Context { return f.ctx }

// Plan waits until all have joined, and returns the part to play.
func (f *Follower) Plan() (load.Config, error) {
	var p *followerPart
	if err := f.await(f.ctx, func() bool { p = f.plan; return p != nil }); err != nil {
		return load.Config{}, err
	}
	c, err := p.config()
	c.Joint = f
	return c, err
}

// Stop asks for the end of the present phase: the lead judges the run until then.
func (f *Follower) Stop() { _ = f.send(message{Stop: true}) }

// Stopped reports whether the run was stopped and nothing else is wrong.
func (f *Follower) Stopped() bool { o := f.verdict(); return o != nil && o.Stopped }

// Verdict returns the verdict of the lead; ok means that the run passed.
func (f *Follower) Verdict() (sentences []string, ok bool) {
	if o := f.verdict(); o != nil {
		return o.Verdict, o.OK
	}
	return nil, false
}

// verdict returns the last order of a run that is over, or nil.
func (f *Follower) verdict() *over {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.over
}

// Close leaves the run. The lead receives err as the reason why this part was not played to its end.
func (f *Follower) Close(err error) {
	f.end(cmp.Or(err, error(model.Errorf(model.Unavailable, "it has left"))))
	f.both.Wait()
	f.client.CloseIdleConnections()
}

// lose ends the part because of the lead, unless the run is over.
func (f *Follower) lose(err error) {
	var own *model.Error
	switch {
	case f.verdict() != nil:
	case errors.As(err, &own) && own.Class != model.Unavailable:
		f.end(own)
	default:
		f.end(model.Errorf(model.Unavailable, "the loader that leads was lost: %s", lossOf(err)).WithHint("the run is over; the lead prints the reason"))
	}
}

// fetch carries out the orders of the lead until the run is over or the part ends. Then it reports why the part ended: the
// lead may be gone.
func (f *Follower) fetch() {
	ctx, cancel := context.WithCancel(context.WithoutCancel(f.ctx)) // the request of orders outlives the report of a failure
	defer cancel()
	reported := make(chan struct{})
	stop := context.AfterFunc(f.ctx, func() {
		defer close(reported)
		defer cancel()
		if f.verdict() == nil {
			within, done := context.WithTimeout(ctx, silence)
			defer done()
			_ = f.post(within, "/report", message{Failed: failureOf(causeOf(f.ctx, "it"))})
		}
	})
	defer func() {
		if !stop() {
			<-reported
		}
	}()
	for n := 0; f.verdict() == nil; {
		var list []order
		err := f.request(ctx, http.MethodGet, fmt.Sprintf("/orders?from=%d", n), nil, func(r io.Reader) (err error) {
			list, err = decode[[]order](r)
			return err
		})
		if err != nil {
			f.lose(err)
			return
		}
		for i := range list {
			if err := f.take(&list[i]); err != nil {
				f.end(err)
				return
			}
		}
		n += len(list)
	}
}

// take carries out an order, or stores it.
func (f *Follower) take(o *order) error {
	f.mu.Lock()
	score, rename := f.score, f.renamed
	f.plan, f.begin, f.over, f.connect = cmp.Or(o.Plan, f.plan), cmp.Or(o.Begin, f.begin), cmp.Or(o.Over, f.over), f.connect || o.Connect
	f.change()
	f.mu.Unlock()
	switch {
	case o.Failed != nil:
		return o.Failed.AsModel()
	case o.Score != nil:
		return score(o.Score.From, o.Score.Spans)
	case o.Renamed != nil:
		rename(o.Renamed.Member, o.Renamed.Name)
	}
	return nil
}

// clock holds the difference to the lead's clock and its uncertainty, half of the shortest round trip.
type clock struct{ ahead, within time.Duration }

// nearer returns the more certain of two comparisons, or the other if one is zero.
func (c clock) nearer(n clock) clock {
	if c == (clock{}) || n.within < c.within {
		return n
	}
	return c
}

// comparison returns the clock difference from one reading of the lead's clock between two readings of the own.
func comparison(asked, answered, theirs time.Duration) clock {
	return clock{ahead: theirs - (asked+answered)/2, within: (answered - asked) / 2}
}

// setClock compares the clocks, and reports the uncertainty.
func (f *Follower) setClock() error {
	const times = 10
	var best clock
	for range times {
		var theirs time.Duration
		asked := time.Since(f.base)
		err := f.request(f.ctx, http.MethodGet, "/clock", nil, func(r io.Reader) (err error) {
			theirs, err = decode[time.Duration](r)
			return err
		})
		if err != nil {
			return err
		}
		best = best.nearer(comparison(asked, time.Since(f.base), theirs))
	}
	f.mu.Lock()
	f.clock = best
	f.mu.Unlock()
	return f.post(f.ctx, "/report", message{Clock: &best.within})
}

// Connect reports the hash of the plan that would be played, and waits until agents are to connect.
func (f *Follower) Connect(ctx context.Context, hash string) error {
	if err := f.send(message{Prepared: &hash}); err != nil {
		return err
	}
	return f.await(ctx, func() bool { return f.connect })
}

// Ready reports that all agents have their checks.
func (f *Follower) Ready(_ context.Context, own load.Arrived) ([]load.Joined, error) {
	if err := f.setClock(); err != nil {
		return nil, err
	}
	return nil, f.send(message{Arrived: &own})
}

// Begin waits for the beginning of the timetable.
func (f *Follower) Begin(ctx context.Context) (time.Time, error) {
	var at *time.Duration
	var ahead time.Duration
	if err := f.await(ctx, func() bool { at, ahead = f.begin, f.clock.ahead; return at != nil }); err != nil {
		return time.Time{}, err
	}
	return f.base.Add(*at - ahead), nil
}

// Hear sets the functions that carry out orders; they are called one at a time.
func (f *Follower) Hear(score func(time.Duration, []plan.Part) error, renamed func(int, string)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.score, f.renamed = score, renamed
}

// Line queues a line of the log for the lead. A log has a few lines each second and, in the end, one for each agent.
func (f *Follower) Line(l observe.Line) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lines = append(f.lines, l)
	f.change()
}

// batchLines bounds the lines of one message.
const batchLines = 500

// sendLines reports the lines in order, until the run ends.
func (f *Follower) sendLines() {
	for {
		if f.await(f.ctx, func() bool { return len(f.lines) > 0 }) != nil {
			return
		}
		f.mu.Lock()
		batch := f.lines[:min(batchLines, len(f.lines))]
		f.mu.Unlock()
		if f.send(message{Lines: batch}) != nil {
			return
		}
		f.mu.Lock()
		f.lines = f.lines[len(batch):]
		f.change()
		f.mu.Unlock()
	}
}

// Finish reports that the log is complete, and waits until the lead has judged it.
func (f *Follower) Finish(ctx context.Context) error {
	if err := f.await(ctx, func() bool { return len(f.lines) == 0 }); err != nil {
		return err
	}
	if err := f.send(message{Finished: true}); err != nil {
		return err
	}
	return f.await(ctx, func() bool { return f.over != nil })
}

var _ load.Joint = (*Follower)(nil)
